//! What NCCL forbids, or what waits for ever: the fake NCCL finds it in these programs, and so would find it in the engine. The programs
//! are those of `tests/fake_gpu/nccl_misuse.cpp`: two ranks, two communicators.

use std::path::Path;
use std::process::{Command, Stdio};

use tests::fake_gpu;

/// The order of calls is that in which operations of a device begin.
const IMPLICIT_ORDER: (&str, &str) = ("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
/// The same, each once the one before it has ended, as where CUDA is older than 12.3.
const ONE_BY_ONE: (&str, &str) = ("FAKE_GPU_NCCL_ORDER", "2");

/// CTAs of an operation of which a device has room for one, and for two at once: it has 132 multiprocessors.
const ROOM_FOR_ONE: usize = 100;
const ROOM_FOR_BOTH: usize = 66;

/// What becomes of a program.
#[derive(Clone, Copy, Debug)]
enum End {
    /// All operations end.
    Ends,
    /// An operation of each of these ranks does not.
    NeverEnds(&'static [usize]),
    /// The process is stopped, which says this.
    Stopped(&'static str),
}

const BOTH: End = End::NeverEnds(&[0, 1]);

/// A program, CTAs of an operation, a variable of the environment, and what becomes of it.
type Expected = (&'static str, usize, Option<(&'static str, &'static str)>, End);

/// Runs programs at once.
fn check(folder: &Path, programs: &[Expected]) {
    let started = programs.iter().map(|&(program, num_ctas, variable, end)| {
        let mut command = Command::new(folder.join("nccl_misuse"));
        command.args([program, &num_ctas.to_string()]).env("FAKE_GPU_DEVICES", "2");
        command.env_remove("FAKE_GPU_HOST").env_remove(IMPLICIT_ORDER.0).envs(variable);
        let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
        (process, format!("{program}, {num_ctas} CTAs, {variable:?}"), end)
    });
    let started: Vec<_> = started.collect();
    for (process, name, end) in started {
        let output = process.wait_with_output().expect("it ends");
        let [printed, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let all = format!("{name}: {}\n{printed}\n{said}", output.status);
        let late: &[usize] = match end {
            End::Ends => &[],
            End::NeverEnds(late) => late,
            End::Stopped(message) => {
                assert!(!output.status.success() && said.contains(message), "{all}");
                continue;
            }
        };
        assert!(output.status.success(), "{all}");
        for rank in [0, 1] {
            let end = if late.contains(&rank) { "timed out" } else { "ended" };
            assert!(printed.contains(&format!("rank {rank}: {end}\n")), "{all}");
        }
        let says_what_is_stuck = said.contains("fake GPU: nothing can go on; stream");
        assert_eq!(says_what_is_stuck, !late.is_empty(), "{all}");
    }
}

/// Each rank has begun another operation, and has room for the second or has not.
#[test]
fn two_communicators_in_crossed_order_need_room_for_both() {
    let Some(folder) = fake_gpu() else { return };
    let programs = [
        ("crossed", ROOM_FOR_ONE, None, BOTH),
        ("crossed", ROOM_FOR_BOTH, None, End::Ends),
        ("in-order", ROOM_FOR_ONE, None, End::Ends),
    ];
    check(folder, &programs);
}

/// Since CUDA 12.3 the first operation has to have begun, before that to have ended, until the second begins.
#[test]
fn in_the_order_of_calls_a_crossed_order_needs_room_for_both_and_a_new_driver() {
    let Some(folder) = fake_gpu() else { return };
    let programs = [
        ("crossed", ROOM_FOR_ONE, Some(IMPLICIT_ORDER), BOTH),
        ("crossed", ROOM_FOR_BOTH, Some(IMPLICIT_ORDER), End::Ends),
        ("crossed", ROOM_FOR_BOTH, Some(ONE_BY_ONE), BOTH),
        ("in-order", ROOM_FOR_ONE, Some(IMPLICIT_ORDER), End::Ends),
        ("in-order", ROOM_FOR_ONE, Some(ONE_BY_ONE), End::Ends),
    ];
    check(folder, &programs);
}

#[test]
fn a_communicator_on_two_streams_is_found() {
    let Some(folder) = fake_gpu() else { return };
    let stopped = End::Stopped("NCCL: a communicator is used on two streams");
    check(folder, &[("on-two-streams", ROOM_FOR_BOTH, None, stopped)]);
}

/// Where what meets is alike, only the last operation shows it.
#[test]
fn a_rank_that_is_an_operation_behind_is_found() {
    let Some(folder) = fake_gpu() else { return };
    let disagree = End::Stopped("NCCL: members of a communicator disagree");
    let programs = [
        ("behind-by-count", ROOM_FOR_BOTH, None, disagree),
        ("behind-by-kind", ROOM_FOR_BOTH, None, disagree),
        ("behind-alike", ROOM_FOR_BOTH, None, End::NeverEnds(&[0])),
    ];
    check(folder, &programs);
}

/// The second receive begins when the first has ended, and keeps back the send for which the other rank waits: why the engine refuses the variable.
#[test]
fn two_early_receives_never_end_in_the_order_of_calls() {
    let Some(folder) = fake_gpu() else { return };
    let programs = [
        ("two-early-receives", ROOM_FOR_BOTH, Some(IMPLICIT_ORDER), BOTH),
        ("two-early-receives", ROOM_FOR_BOTH, None, End::Ends),
        ("one-early-receive", ROOM_FOR_BOTH, Some(IMPLICIT_ORDER), End::Ends),
        ("one-early-receive", ROOM_FOR_BOTH, Some(ONE_BY_ONE), BOTH),
    ];
    check(folder, &programs);
}
