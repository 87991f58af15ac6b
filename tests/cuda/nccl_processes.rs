//! Jobs of processes with a GPU each, which NCCL connects, on the fake GPU: each process runs tests of `on_a_device`.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use tests::{FakeGpuSettings, fake_gpu, in_full, on_the_fake_gpu};

/// A port that is free, and so is the one before it, which torchrun would keep.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("a port").port()
}

/// The processes of a job on one host, as torchrun starts them, by their ranks. `host` is a file for what they share of it; beside it is what they write
/// for a while, so that it goes with that folder where a process is killed.
pub(super) fn job(folder: &Path, host: &Path, num_processes: usize, tests: &str) -> Vec<Command> {
    let port = free_port() - 1;
    let process = |rank: usize| {
        let settings = FakeGpuSettings { num_devices: num_processes, seed: 1 + rank as u64, fail_at: None };
        let mut command: Command = on_the_fake_gpu(folder, tests, settings);
        let [size, rank] = [num_processes, rank].map(|number| number.to_string());
        command.envs([("WORLD_SIZE", &size), ("LOCAL_WORLD_SIZE", &size)]);
        command.envs([("RANK", &rank), ("LOCAL_RANK", &rank)]);
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.env("FAKE_GPU_HOST", host).arg("--nocapture");
        command.env("TMPDIR", host.parent().expect("the file is in a folder"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    (0..num_processes).map(process).collect()
}

#[test]
fn grids_of_processes_train_over_nccl_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let sizes: &[usize] = if in_full() { &[2, 3, 4, 6, 8] } else { &[4] };
    let home = tempfile::tempdir().expect("a temporary folder");
    for &num_processes in sizes {
        let tests = "cuda::on_a_device::nccl_processes::grids";
        let started = job(folder, &home.path().join("host"), num_processes, tests)
            .into_iter()
            .map(|mut process| process.spawn().expect("the test's own program starts"));
        let started: Vec<_> = started.collect();
        let ended = started.into_iter().map(|process| process.wait_with_output().expect("it ends"));
        let outputs: Vec<_> = ended.collect();
        for (rank, output) in outputs.iter().enumerate() {
            let [printed, errors] =
                [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
            assert!(output.status.success(), "rank {rank} of {num_processes}: {printed}\n{errors}");
            assert!(printed.contains("1 passed"), "there is no test {tests}");
        }
    }
}
