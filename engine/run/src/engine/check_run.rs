//! Whether all processes run one program.

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};

use pipezero_comm::world::World;
use pipezero_models::kernels::instruction_set;
use pipezero_plan::Plan;
use serde::{Deserialize, Serialize};

use super::EngineError;

/// Compares what the processes were given, before any of them allocates anything or connects its ranks.
///
/// # Errors
/// [`EngineError::OtherRun`] in each process that has another run than that of rank 0, [`EngineError::OtherInstructions`] in one whose CPU would
/// compute other bits, [`EngineError::Elsewhere`] where only others have.
pub(super) fn check_run(plan: &Plan, world: &dyn World) -> Result<(), EngineError> {
    if world.has_all_ranks() {
        return Ok(());
    }
    let own = Given { run: digest(plan), instructions: instruction_set() };
    let as_bytes = serde_json::to_vec(&own).expect("a number and a name");
    // What cannot be read is another version's.
    let first = serde_json::from_slice(&world.broadcast(as_bytes)?).ok();
    let error = own.compared_with(first);
    let mut num_others = [u64::from(error.is_some())];
    world.add_words(&mut num_others)?;
    match (error, num_others) {
        (Some(error), _) => Err(error),
        (None, [0]) => Ok(()),
        (None, _) => Err(EngineError::Elsewhere),
    }
}

/// What a process was given.
#[derive(Debug, Serialize, Deserialize)]
struct Given {
    run: u64,
    instructions: String,
}

impl Given {
    /// What is wrong with it beside that of the process of rank 0.
    fn compared_with(&self, first: Option<Self>) -> Option<EngineError> {
        match first {
            Some(first) if first.run == self.run && first.instructions == self.instructions => None,
            Some(first) if first.run == self.run => Some(EngineError::OtherInstructions {
                own: self.instructions.clone(),
                first: first.instructions,
            }),
            _ => Some(EngineError::OtherRun),
        }
    }
}

/// Equal where engines run alike: the version, the run but for its threads and the paths of its data, which are those of its host, the purpose, the model's
/// parameters and the programs.
fn digest(plan: &Plan) -> u64 {
    let run = serde_json::to_string(&plan.run().on_any_host()).expect("a run has string keys");
    let mut digest = Digest(DefaultHasher::new());
    let mut write = |text: fmt::Arguments<'_>| digest.write_fmt(text).expect("a digest takes any text");
    write(format_args!("{} {run} {:?}", env!("CARGO_PKG_VERSION"), plan.run().purpose));
    for (_, planned) in plan.owned_units() {
        for entry in planned.unit.entries() {
            write(format_args!("{:?}", entry.spec));
        }
    }
    write(format_args!("{} {}", plan.training().program(), plan.evaluation().program()));
    digest.0.finish()
}

struct Digest(DefaultHasher);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_need_the_same_run_and_the_same_instructions() {
        let given = |run, instructions: &str| Given { run, instructions: instructions.to_owned() };
        let own = given(7, "x86-64-v4");
        assert!(own.compared_with(Some(given(7, "x86-64-v4"))).is_none());
        let error = own.compared_with(Some(given(7, "x86-64-v3"))).unwrap();
        assert_eq!(
            error.to_string(),
            "the CPU of this process multiplies with x86-64-v4, and that of rank 0's process with x86-64-v3: their products \
             would differ in their last bits; start all ranks on CPUs of one kind"
        );
        for other in [Some(given(8, "x86-64-v4")), Some(given(8, "x86-64-v3")), None] {
            assert!(matches!(own.compared_with(other), Some(EngineError::OtherRun)));
        }
    }
}
