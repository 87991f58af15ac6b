//! Jobs across hosts train to the bits of threads.

use std::env;

use super::{Hosts, Line};
use crate::mpi::one_job;

#[test]
fn grids_across_hosts_give_the_bits_of_threads() {
    let _one_at_a_time = one_job();
    for (num_hosts, processes_per_host) in [(2, 2), (4, 1)] {
        let Some(hosts) = Hosts::new(num_hosts, Line::Switch) else { return };
        let this = env::current_exe().expect("a test is a program");
        let command = [
            this.to_str().expect("a name in UTF-8"),
            "mpi::in_a_job::grids",
            "--ignored",
            "--test-threads=1",
            "--nocapture",
        ];
        let output = hosts.job(processes_per_host, &command).output().expect("mpirun is there");
        let [printed, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let num_passed = printed.matches("test result: ok. 3 passed").count();
        assert_eq!(num_passed, 4, "{num_hosts} hosts: {printed}\n{errors}");
        let on_hosts =
            format!("on hosts: Each {{ number: {processes_per_host}, last: {processes_per_host} }}");
        assert_eq!(printed.matches(&on_hosts).count(), 4, "{num_hosts} hosts: {printed}");
    }
}
