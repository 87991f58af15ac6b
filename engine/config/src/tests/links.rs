//! Emulated links.

use std::time::Duration;

use expect_test::expect;

use super::{check_values, run};
use crate::resolved::{Link, Links};

fn links(keys: &str) -> Option<Links> {
    let comm = format!(r#"{{"links": {keys}}}"#);
    run(&[("parallel", r#"{"data": 8}"#), ("comm", &comm)]).comm.links
}

#[test]
fn far_links_are_like_near_ones_where_nothing_else_is_written() {
    assert_eq!(run(&[]).comm.links, None);
    let near = Link { latency: Duration::from_micros(5), bytes_per_s: 200e9 };
    let uniform = Links { ranks_per_node: 8, near, far: near, shared: false };
    assert_eq!(links(r#"{"near": {"latency_us": 5, "gb_per_s": 200}}"#), Some(uniform));
    let far = Link { latency: Duration::from_micros(20), bytes_per_s: 200e9 };
    let both = r#"{"ranks_per_node": 2, "near": {"latency_us": 5, "gb_per_s": 200}, "far": {"latency_us": 20},
        "shared": true}"#;
    assert_eq!(links(both), Some(Links { ranks_per_node: 2, near, far, shared: true }));
    let slow = links(r#"{"near": {"gb_per_s": 0.5}, "far": {"gb_per_s": 0.0625}}"#).unwrap();
    assert_eq!((slow.near.latency, slow.far.latency), (Duration::ZERO, Duration::ZERO));
    assert_eq!((slow.near.bytes_per_s, slow.far.bytes_per_s), (5e8, 6.25e7));
}

/// A job says it unless the file does; links have their own number, or that one.
#[test]
fn ranks_of_a_node_are_those_of_the_job_of_the_file_or_of_the_links() {
    let comm = |keys: &str| run(&[("parallel", r#"{"data": 8}"#), ("comm", keys)]).comm;
    for keys in ["{}", r#"{"ranks_per_node": "auto"}"#] {
        assert_eq!(comm(keys).ranks_per_node, None, "{keys}");
    }
    let said = comm(r#"{"ranks_per_node": 4, "links": {"near": {"gb_per_s": 1}}}"#);
    assert_eq!((said.ranks_per_node, said.links.unwrap().ranks_per_node), (Some(4), 4));
    let both = comm(r#"{"ranks_per_node": 4, "links": {"ranks_per_node": 2, "near": {"gb_per_s": 1}}}"#);
    assert_eq!((both.ranks_per_node, both.links.unwrap().ranks_per_node), (Some(4), 2));
    check_values(
        "comm",
        &[r#"{"ranks_per_node": 0}"#, r#"{"ranks_per_node": -1}"#],
        expect![[r#"
            run.json:6:30: `comm.ranks_per_node` is 0, but it must be at least 1; use 1 or more
            run.json:6:30: `comm.ranks_per_node` is -1, but it must not be negative; use a positive number
        "#]],
    );
}

#[test]
fn links_between_processes_are_those_that_there_are() {
    check_values(
        "comm",
        &[
            r#"{"backend": "threads", "links": {"near": {"gb_per_s": 1}}}"#,
            r#"{"backend": "nccl", "links": {"near": {"gb_per_s": 1}}}"#,
            r#"{"backend": "mpi", "links": {"near": {"gb_per_s": 1}}}"#,
        ],
        expect![[r#"
            valid
            run.json:6:31: hint: `comm.links`: no effect on ranks: `comm.backend` is "nccl", which emulates no links; `simulate` takes them
            run.json:6:30: hint: `comm.links`: no effect on ranks: `comm.backend` is "mpi", which emulates no links; `simulate` takes them
        "#]],
    );
}

#[test]
fn links_that_cannot_be_emulated_are_refused() {
    let late =
        r#"{"timeout_s": 1, "links": {"near": {"gb_per_s": 1}, "far": {"latency_us": 1e6, "gb_per_s": -1}}}"#;
    check_values(
        "comm",
        &[
            r#"{"links": {}}"#,
            r#"{"links": {"near": {"gb_per_s": 0, "latency_us": -1}}}"#,
            late,
            r#"{"links": {"ranks_per_node": 0, "near": {"gb_per_s": 1e10}}}"#,
            r#"{"links": {"near": {"gbps": 1}, "middle": {}}}"#,
        ],
        expect![[r#"
            run.json:6:12: `comm.links.near.gb_per_s` is missing: every link has a bandwidth; add it, in units of 10^9 bytes, or remove `links`
            run.json:6:43: `comm.links.near.gb_per_s` is 0, but the bandwidth of a link lies between 1e-9 and 1e9, in units of 10^9 bytes a second; use a value such as 25
              run.json:6:60: `comm.links.near.latency_us` is -1, but it must be at least 0, and less than `comm.timeout_s`; use a value such as 5
            run.json:6:85: `comm.links.far.latency_us` is 1000000, but it must be at least 0, and less than `comm.timeout_s`; use a value such as 5
              run.json:6:102: `comm.links.far.gb_per_s` is -1, but the bandwidth of a link lies between 1e-9 and 1e9, in units of 10^9 bytes a second; use a value such as 25
            run.json:6:40: `comm.links.ranks_per_node` is 0, but it must be at least 1; use 1 or more
              run.json:6:64: `comm.links.near.gb_per_s` is 10000000000, but the bandwidth of a link lies between 1e-9 and 1e9, in units of 10^9 bytes a second; use a value such as 25
            run.json:6:22: `comm.links.near.gb_per_s` is missing: every link has a bandwidth; add it, in units of 10^9 bytes, or remove `links`
              run.json:6:31: unknown key `comm.links.near.gbps`; remove it; docs/run-file.md lists every key
              run.json:6:43: unknown key `comm.links.middle`; remove it; docs/run-file.md lists every key
        "#]],
    );
}
