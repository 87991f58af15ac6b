//! `comm.links`: latency and bandwidth of the links that the threads backend emulates.

use std::time::Duration;

use crate::raw::RawLinks;
use crate::resolved::{Link, Links};
use crate::section::Field;

use super::rules::LESS_THAN_A_NANOSECOND;

/// Bytes in a second of 1 GB/s.
const GIGA: f64 = 1e9;

/// `Some(None)` if no links are emulated. `otherwise_per_node`: ranks that share a node unless the links say so.
pub(super) fn resolve(
    raw: &RawLinks,
    otherwise_per_node: Option<usize>,
    timeout: Option<Duration>,
) -> Option<Option<Links>> {
    if !raw.head.is_written {
        return Some(None);
    }
    let ranks_per_node = match raw.ranks_per_node.is_written() {
        true => raw.ranks_per_node.at_least_one(raw.ranks_per_node.given()),
        false => otherwise_per_node,
    };
    let repair = "add it, in units of 10^9 bytes, or remove `links`";
    let near_gb = raw.near.gb_per_s.required("every link has a bandwidth", repair);
    let near_us = raw.near.latency_us.or(0.0);
    let near = link(&raw.near.latency_us, near_us, &raw.near.gb_per_s, near_gb, timeout);
    let far = match raw.far.head.is_written {
        true => {
            let latency = near_us.and_then(|near| raw.far.latency_us.or(near));
            let gb = near_gb.and_then(|near| raw.far.gb_per_s.or(near));
            link(&raw.far.latency_us, latency, &raw.far.gb_per_s, gb, timeout)
        }
        false => near,
    };
    let shared = raw.shared.or(false);
    Some(Some(Links { ranks_per_node: ranks_per_node?, near: near?, far: far?, shared: shared? }))
}

fn link(
    latency_field: &Field<f64>,
    latency_us: Option<f64>,
    bandwidth_field: &Field<f64>,
    gb_per_s: Option<f64>,
    timeout: Option<Duration>,
) -> Option<Link> {
    let latency = latency(latency_field, latency_us, timeout);
    // At most 10^9 GB/s and at least one byte: beyond, times are no longer numbers that a clock can tell.
    let holds = |gb| (1.0 / GIGA..=GIGA).contains(&gb);
    let rule = "the bandwidth of a link lies between 1e-9 and 1e9, in units of 10^9 bytes a second";
    let gb_per_s = keep_written(bandwidth_field, gb_per_s, holds, rule, "use a value such as 25");
    Some(Link { latency: latency?, bytes_per_s: gb_per_s? * GIGA })
}

/// A message that is always late would stop every run.
fn latency(field: &Field<f64>, us: Option<f64>, timeout: Option<Duration>) -> Option<Duration> {
    let duration = |us: f64| Duration::try_from_secs_f64(us / 1e6).ok();
    let in_time = |latency| timeout.is_none_or(|timeout| latency < timeout);
    let rule = "it must be at least 0, and less than `comm.timeout_s`";
    let us = keep_written(field, us, |us| duration(us).is_some_and(in_time), rule, "use a value such as 5");
    let lasts = |us| us <= 0.0 || duration(us).is_some_and(|latency| !latency.is_zero());
    let us = keep_written(field, us, lasts, LESS_THAN_A_NANOSECOND, "use 0, or at least 0.001");
    duration(us?)
}

/// As [`Field::keep`]; a value that is taken from the near link has been reported there.
fn keep_written(
    field: &Field<f64>,
    value: Option<f64>,
    holds: impl Fn(f64) -> bool,
    rule: &str,
    repair: &str,
) -> Option<f64> {
    if field.is_written() {
        field.keep(value, holds, rule, repair)
    } else {
        value.filter(|&value| holds(value))
    }
}
