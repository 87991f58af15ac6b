//! `comm.links`: latency and bandwidth of the links that the threads backend imitates.

use std::time::Duration;

use crate::config::findings::Findings;
use crate::config::raw::RawLinks;
use crate::config::resolved::{Link, Links};
use crate::config::section::Field;

use super::grid::Grid;
use super::rules::at_least_one;

/// Bytes in a second of 1 GB/s.
const GIGA: f64 = 1e9;

/// `Some(None)` where no links are imitated.
pub(super) fn resolve(
    raw: &RawLinks,
    grid: Option<&Grid>,
    timeout: Option<Duration>,
    findings: &mut Findings,
) -> Option<Option<Links>> {
    if !raw.head.is_written {
        return Some(None);
    }
    let ranks_per_node = match raw.ranks_per_node.is_written() {
        true => at_least_one(&raw.ranks_per_node, raw.ranks_per_node.given(), findings),
        false => grid.map(Grid::num_ranks),
    };
    let near_gb = raw.near.gb_per_s.required(
        findings,
        "a link has a bandwidth",
        "add it, in units of 10^9 bytes, or remove `links`",
    );
    let near_us = raw.near.latency_us.or(0.0);
    let near = link(&raw.near.latency_us, near_us, &raw.near.gb_per_s, near_gb, timeout, findings);
    let far = match raw.far.head.is_written {
        true => {
            let latency = near_us.and_then(|near| raw.far.latency_us.or(near));
            let gb = near_gb.and_then(|near| raw.far.gb_per_s.or(near));
            link(&raw.far.latency_us, latency, &raw.far.gb_per_s, gb, timeout, findings)
        }
        false => near,
    };
    Some(Some(Links {
        ranks_per_node: ranks_per_node?,
        near: near?,
        far: far?,
        shared: raw.shared.or(false)?,
    }))
}

fn link(
    latency_field: &Field<f64>,
    latency_us: Option<f64>,
    bandwidth_field: &Field<f64>,
    gb_per_s: Option<f64>,
    timeout: Option<Duration>,
    findings: &mut Findings,
) -> Option<Link> {
    let latency = latency_us.and_then(|us| latency(latency_field, us, timeout, findings));
    let gb_per_s = gb_per_s.filter(|&gb| {
        // At most 10^9 GB/s and at least one byte: beyond, times are no longer numbers that a clock can tell.
        let holds = (1.0 / GIGA..=GIGA).contains(&gb);
        if !holds && bandwidth_field.is_written() {
            let rule = "a link has a bandwidth, from 1e-9 to 1e9";
            findings.broken(&bandwidth_field.place, gb, rule, "use a value such as 25");
        }
        holds
    });
    Some(Link { latency: latency?, bytes_per_s: gb_per_s? * GIGA })
}

/// A message that is always late would stop every run.
fn latency(
    field: &Field<f64>,
    us: f64,
    timeout: Option<Duration>,
    findings: &mut Findings,
) -> Option<Duration> {
    let latency = Duration::try_from_secs_f64(us / 1e6).ok();
    let Some(latency) = latency.filter(|&latency| timeout.is_none_or(|timeout| latency < timeout)) else {
        if field.is_written() {
            let rule = "it must be at least 0, and less than `comm.timeout_s`";
            findings.broken(&field.place, us, rule, "use a value such as 5");
        }
        return None;
    };
    if latency.is_zero() && us > 0.0 {
        if field.is_written() {
            let rule =
                "times are whole nanoseconds, to which it is rounded, and it is nearer to none than to one";
            findings.broken(&field.place, us, rule, "use 0, or at least 0.001");
        }
        return None;
    }
    Some(latency)
}
