//! Rank 0 draws the secret, and MPI carries it to the others.

use pipezero_files::host::JobSecret;

use crate::world::WorldError;

/// Bytes that MPI carries.
pub(in crate::world) const NUM_BYTES: usize = JobSecret::DRAWN_LEN;

/// The bytes that rank 0 sends to the others: a secret that it draws, or zeros if the environment has one, which is never sent.
///
/// # Errors
/// When the system has no random numbers.
pub(in crate::world) fn told(of_environment: Option<&JobSecret>) -> Result<Vec<u8>, WorldError> {
    if of_environment.is_some() {
        return Ok(vec![0; NUM_BYTES]);
    }
    let drawn = JobSecret::draw().map_err(|error| {
        WorldError::not_connected(format!("the system has no random numbers for the job's secret: {error}"))
    })?;
    Ok(drawn.bytes().to_vec())
}

/// The secret, from what rank 0 has told.
///
/// # Errors
/// When rank 0 has one in its environment, and this process has none.
pub(in crate::world) fn heard(
    of_environment: Option<JobSecret>,
    told: &[u8],
) -> Result<JobSecret, WorldError> {
    let of_rank_0 = JobSecret::new(told.to_vec()).filter(|_| told.iter().any(|&byte| byte != 0));
    let name = JobSecret::VARIABLE;
    of_environment.or(of_rank_0).ok_or_else(|| {
        WorldError::not_connected(format!(
            "the process of rank 0 has {name}, and this one does not: set it in every process, which mpirun does with -x {name}, or in none"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_of_the_environment_is_never_told_and_a_drawn_one_is_heard() {
        let own = JobSecret::new(b"of the environment".to_vec());
        let silent = told(own.as_ref()).unwrap();
        assert_eq!(silent, [0; NUM_BYTES]);
        assert_eq!(heard(own.clone(), &silent).unwrap(), own.clone().unwrap());
        let error = heard(None, &silent).unwrap_err().to_string();
        assert!(error.contains("has PIPEZERO_JOB_SECRET, and this one does not: set it"), "{error}");

        let drawn = told(None).unwrap();
        assert_eq!(heard(None, &drawn).unwrap().bytes(), drawn);
        assert_ne!(told(None).unwrap(), drawn);
        // Then the proofs differ, which the error of the greeting says.
        assert_eq!(heard(own.clone(), &drawn).unwrap(), own.unwrap());
    }
}
