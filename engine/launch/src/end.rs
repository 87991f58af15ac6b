//! How a job has ended, from what its processes have left.

use std::collections::BTreeSet;

/// The ranks that have failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Those that something ended before they could say anything.
    pub killed: Vec<usize>,
    /// Those that ended with an error of their own, which they have printed.
    pub failed: Vec<usize>,
    /// Those that waited for others to be connected, which were killed, and so were ended.
    pub ended: Vec<usize>,
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All processes have done what they were asked.
    Done,
    /// They were given something wrong, and have said what.
    InputMistake,
    /// Ranks have failed.
    Lost(Lost),
    /// A signal has ended them before they were done.
    Interrupted,
}

/// The error that a failed rank left for another rank to print, if that rank was killed. `all`: what each rank left.
pub(super) fn unprinted_error(lost: &Lost, mut all: Vec<Option<String>>) -> Option<(usize, String)> {
    let &rank = lost.failed.first()?;
    let is_said = lost.killed.is_empty() || lost.failed.iter().any(|&rank| all[rank].is_none());
    if is_said { None } else { Some((rank, all[rank].take()?)) }
}

/// How processes with these statuses have ended, by rank; `None` if there was none. Those in `ended` would not have without this process. `have_begun`: there
/// were some, whatever they say.
pub(super) fn end_of(
    statuses: &[Option<u8>],
    ended: &BTreeSet<usize>,
    have_begun: bool,
    is_interrupted: bool,
) -> Option<End> {
    let ranks_with = |is_so: fn(&Option<u8>) -> bool| -> Vec<usize> {
        statuses.iter().enumerate().filter(|(_, status)| is_so(status)).map(|(rank, _)| rank).collect()
    };
    let (ended, killed) = ranks_with(Option::is_none).into_iter().partition(|rank| ended.contains(rank));
    let failed = ranks_with(|status| status.is_some_and(|status| status != 0));
    let lost = Lost { killed, failed, ended };
    if lost.killed.is_empty() && lost.failed.is_empty() {
        return Some(End::Done);
    }
    if statuses.contains(&Some(INPUT_MISTAKE)) {
        return Some(End::InputMistake);
    }
    if is_interrupted {
        return Some(End::Interrupted);
    }
    let all_were_killed = lost.killed.len() == statuses.len();
    (!all_were_killed || have_begun).then_some(End::Lost(lost))
}

/// The exit status of a mistake in the input.
const INPUT_MISTAKE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_what_the_processes_say_and_what_they_do_not_say() {
        let lost = |killed: &[usize], failed: &[usize]| {
            Some(End::Lost(Lost { killed: killed.to_vec(), failed: failed.to_vec(), ended: Vec::new() }))
        };
        for (statuses, is_interrupted, expected) in [
            (&[Some(0), Some(0)][..], false, Some(End::Done)),
            // It has ended after its step, as it was asked.
            (&[Some(0), Some(0)], true, Some(End::Done)),
            (&[Some(1), None], false, lost(&[1], &[0])),
            (&[Some(1), Some(1)], false, lost(&[], &[0, 1])),
            (&[Some(2), Some(2)], false, Some(End::InputMistake)),
            (&[Some(2), None], false, Some(End::InputMistake)),
            (&[None, None], true, Some(End::Interrupted)),
            (&[Some(1), None], true, Some(End::Interrupted)),
            (&[None, None], false, None),
        ] {
            let found = end_of(statuses, &BTreeSet::new(), false, is_interrupted);
            assert_eq!(found, expected, "{statuses:?}, {is_interrupted}");
        }
        // mpirun ends well although all its processes were killed, or is killed itself because it does not notice.
        assert_eq!(end_of(&[None, None], &BTreeSet::new(), true, false), lost(&[0, 1], &[]));
        let ended = Lost { killed: vec![1], failed: Vec::new(), ended: vec![0, 2] };
        assert_eq!(end_of(&[None; 3], &BTreeSet::from([0, 2]), true, false), Some(End::Lost(ended)));
    }
}
