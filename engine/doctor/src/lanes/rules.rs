//! The rules that groups and lanes are held to.

use super::found::{LaneFacts, SLOW};
use crate::check::{Check, Part};

/// Whether all arrived as it has to, and nowhere much later than elsewhere.
pub(crate) fn judge(facts: &LaneFacts) -> Vec<Check> {
    let stopped = facts.stopped.first();
    let all = || "every rank sends and receives to the end".to_owned();
    let mut checks = vec![
        Check::new(Part::Lanes, "messages", stopped.cloned().unwrap_or_else(all), "no rank stops or waits for ever")
            .fails_unless(
                stopped.is_none(),
                "look at the rank and the operation that are named first: the link or the host of that rank, a firewall between hosts",
            ),
    ];
    let wrong = facts.faults.first();
    let right = || format!("{} messages hold what they have to", facts.num_compared);
    let value = match wrong {
        Some(fault) => format!("{} of {} are wrong; {fault}", facts.faults.len(), facts.num_compared),
        None => right(),
    };
    checks.push(
        Check::new(Part::Lanes, "contents", value, "what arrives is what was sent, and sums are taken in ascending rank order")
            .fails_unless(
                wrong.is_none(),
                "train nothing on these hosts: memory or a link of the ranks that are named changes data, or the MPI library does; try another transport (OMPI_MCA_btl)",
            ),
    );
    let slow = facts.slow.join("; ");
    let value = if slow.is_empty() { "none is much slower than others of its kind".to_owned() } else { slow };
    checks.push(
        Check::new(
            Part::Lanes,
            "speed",
            value,
            format!("no lane takes more than {SLOW} times as long as the median of its kind"),
        )
        .warns_unless(
            facts.slow.is_empty(),
            "look at the links of the ranks that are named, and at what else runs on their hosts",
        ),
    );
    checks
}
