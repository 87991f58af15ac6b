//! What processes agree on before NCCL connects them: each has a GPU of its own, all have one version of NCCL.

use std::collections::BTreeMap;

use pipezero_models::queue::NcclId;
use serde::{Deserialize, Serialize};

use super::super::not_joined::NotJoined;
use super::gpu::GpuFacts;
use crate::CommError;
use crate::world::{ControlChannel, WorldError};

/// With what processes connect their GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Agreement {
    /// An id of NCCL.
    id: Vec<u8>,
    /// The least of all GPUs.
    pub(super) num_multiprocessors: usize,
    /// What is worth knowing of how the GPUs differ.
    pub(super) warnings: Vec<String>,
}

impl Agreement {
    pub(super) fn id(&self) -> NcclId {
        NcclId(self.id.as_slice().try_into().expect("rank 0 has sent an id of this size"))
    }
}

/// Why a rank cannot take part, and whether it could not at the next start either.
type Fault = (String, bool);

fn fault(error: WorldError) -> Fault {
    (error.to_string(), error.is_lasting())
}

/// Each process gives what it has, or why it cannot take part; all get the same answer, which that of rank 0 gives.
///
/// # Errors
/// When the processes cannot tell each other.
pub(super) fn agree(
    channel: &ControlChannel,
    own: Result<GpuFacts, WorldError>,
) -> Result<Result<Agreement, NotJoined>, CommError> {
    let all = channel.gather(written(&own.map_err(fault)))?;
    let all: Vec<Result<GpuFacts, Fault>> = all.iter().map(|message| read(message)).collect();
    // What other processes than that of rank 0 give does not count.
    let answer = agreed(all, || NcclId::new().map(|id| id.0.to_vec()).map_err(|error| fault(error.into())));
    Ok(read(&channel.broadcast(written(&answer))?))
}

fn agreed(
    all: Vec<Result<GpuFacts, Fault>>,
    id: impl FnOnce() -> Result<Vec<u8>, Fault>,
) -> Result<Agreement, NotJoined> {
    let at = |rank| move |(reason, is_lasting): Fault| NotJoined::Rank { rank, reason, is_lasting };
    let of_rank = |(rank, facts): (usize, Result<GpuFacts, Fault>)| facts.map_err(at(rank));
    let all: Vec<GpuFacts> = all.into_iter().enumerate().map(of_rank).collect::<Result<_, _>>()?;
    let Some(first) = all.first() else {
        return Ok(Agreement { id: Vec::new(), num_multiprocessors: 0, warnings: Vec::new() });
    };
    let mut ranks_of = BTreeMap::new();
    for (rank, facts) in all.iter().enumerate() {
        if facts.nccl != first.nccl {
            let versions = [first, facts].map(|facts| facts.nccl.clone());
            return Err(NotJoined::Versions { ranks: [0, rank], versions });
        }
        if let Some(other) = ranks_of.insert(facts.uuid, rank) {
            return Err(NotJoined::SameGpu { ranks: [other, rank], host: facts.host.clone() });
        }
    }
    tracing::debug!(nccl = first.nccl, "all ranks have one version of NCCL");
    let id = id().map_err(at(0))?;
    let least = all.iter().map(|facts| facts.num_multiprocessors).min();
    let other = all.iter().enumerate().find(|(_, facts)| facts.name != first.name);
    let warning = other.map(|(rank, facts)| {
        format!(
            "ranks compute on different GPUs, rank 0 on {} and rank {rank} on {}: the slowest sets the pace, and bits are not those of one kind of GPU",
            first.name, facts.name
        )
    });
    Ok(Agreement { id, num_multiprocessors: least.unwrap_or(0), warnings: warning.into_iter().collect() })
}

fn written(message: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(message).expect("texts, numbers and lists of them can be written")
}

fn read<T: serde::de::DeserializeOwned>(message: &[u8]) -> T {
    postcard::from_bytes(message).expect("every process runs this program")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(number: u8) -> GpuFacts {
        GpuFacts {
            host: format!("node{}", number / 2),
            ordinal: usize::from(number % 2),
            name: "H100".to_owned(),
            uuid: [number; 16],
            num_multiprocessors: 100 + usize::from(number),
            nccl: "2.28.9".to_owned(),
        }
    }

    #[test]
    fn processes_agree_or_all_say_the_same() {
        let id = || Ok(vec![7; NcclId::NUM_BYTES]);
        let all = || (0..4).map(|number| Ok(facts(number))).collect::<Vec<_>>();
        let agreement = agreed(all(), id).unwrap();
        assert_eq!((agreement.id().0[0], agreement.num_multiprocessors), (7, 100));
        assert!(agreement.warnings.is_empty());

        let with = |changed: Result<GpuFacts, Fault>| {
            let mut all = all();
            all[2] = changed;
            agreed(all, id)
        };
        let other = with(Ok(GpuFacts { name: "A100".to_owned(), ..facts(2) })).unwrap().warnings.concat();
        assert!(
            other.starts_with("ranks compute on different GPUs, rank 0 on H100 and rank 2 on A100: "),
            "{other}"
        );
        let answer = |changed| with(changed).unwrap_err().to_string();
        assert_eq!(answer(Err(("no driver".to_owned(), true))), "rank 2: no driver");
        let text = answer(Ok(GpuFacts { nccl: "2.27.3".to_owned(), ..facts(2) }));
        assert!(text.starts_with("rank 0 has NCCL 2.28.9, and rank 2 has 2.27.3: install one"), "{text}");
        let text = answer(Ok(GpuFacts { uuid: [1; 16], ..facts(2) }));
        assert!(text.starts_with("ranks 1 and 2 are on the same GPU of node1, and"), "{text}");
        let refused = agreed(all(), || Err(("no library".to_owned(), true))).unwrap_err();
        assert_eq!(refused, NotJoined::Rank { rank: 0, reason: "no library".to_owned(), is_lasting: true });
    }
}
