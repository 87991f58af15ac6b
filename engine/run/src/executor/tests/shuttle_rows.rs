//! What the checker accepts never hangs, and what it rejects for a deadlock does.

use std::sync::Arc;
use std::time::Duration;

use pipezero_comm::sync::testing::{hangs, in_random_orders, say};
use pipezero_comm::testing::{on_every_rank, ranks};
use pipezero_schedule::CheckedProgram;
use shuttle::rand::{Rng, thread_rng};

use super::messages::Messages;
use super::programs::{generated, mutants};

/// Plays all rows, in a world where only what nobody sends is waited for in vain: no time passes.
fn play(messages: &Arc<Messages>) {
    let messages = Arc::clone(messages);
    let threads = ranks(messages.world_size(), Duration::from_secs(1), None);
    on_every_rank(&threads, move |comm| messages.play(comm));
}

/// Plays one of the programs in each execution, on one or two data ranks.
fn play_at_random(num_executions: usize, programs: &[CheckedProgram]) {
    let of = |num: usize| -> Vec<Arc<Messages>> {
        programs.iter().map(|program| Arc::new(Messages::of_checked(program, num))).collect()
    };
    let (of_one, of_two) = (of(1), of(2));
    in_random_orders(num_executions, move || {
        let all = if thread_rng().gen_bool(0.5) { &of_one } else { &of_two };
        play(&all[thread_rng().gen_range(0..all.len())]);
    });
}

#[test]
fn generated_programs_never_hang_and_lose_no_message() {
    let programs = generated();
    assert!(programs.len() > 80, "{}", programs.len());
    play_at_random(3000, &programs);
}

#[test]
fn mutants_that_the_checker_accepts_never_hang() {
    let accepted = mutants().accepted;
    assert!(accepted.len() > 100, "{}", accepted.len());
    play_at_random(2000, &accepted);
}

/// The backend's starts never block, and only computes hold up a row. So these are programs in which computes wait for each other by what they
/// receive: they hang even with buffers for every message. The checker also rejects what hangs with too few buffers alone.
#[test]
fn mutants_that_the_checker_rejects_for_a_deadlock_hang() {
    let deadlocked = mutants().deadlocked;
    for program in &deadlocked {
        let messages = Arc::new(Messages::with_fewest_waits(program, 1));
        assert!(hangs(move || play(&messages)), "no deadlock:\n{program}");
    }
    assert!(deadlocked.len() > 20, "{}", deadlocked.len());
    say(&format!("{} programs hang", deadlocked.len()));
}
