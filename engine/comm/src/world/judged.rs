//! A question that all processes of a world answer and one judges.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::World;
use crate::CommError;

/// Gathers the answers of all processes in that of rank 0, in the order of their ranks. It judges them, and every process gets its verdict.
///
/// # Errors
/// As [`World::gather`] and [`World::broadcast`].
pub fn judged_by_first<T, R>(
    world: &dyn World,
    own: &T,
    judge: impl FnOnce(Vec<T>) -> R,
) -> Result<R, CommError>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    let expected = "every process runs this program";
    let answers = world.gather(postcard::to_stdvec(own).expect(expected))?;
    // The other processes get no answers, and what they broadcast does not count.
    let verdict = if answers.is_empty() {
        Vec::new()
    } else {
        let read = |answer: Vec<u8>| postcard::from_bytes(&answer).expect(expected);
        postcard::to_stdvec(&judge(answers.into_iter().map(read).collect())).expect(expected)
    };
    Ok(postcard::from_bytes(&world.broadcast(verdict)?).expect(expected))
}
