//! Whether all processes run one program.

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};

use pipezero_partition::Purpose;

use super::EngineError;
use crate::plan::Plan;
use crate::run::world::World;

/// Compares what the processes were given, before any of them allocates anything or connects its ranks.
///
/// # Errors
/// [`EngineError::OtherRun`] in each process that has another run than that of rank 0, [`EngineError::Elsewhere`] where only others have.
pub(super) fn check_run(plan: &Plan, purpose: Purpose, world: &dyn World) -> Result<(), EngineError> {
    if world.local_ranks().len() == world.size() {
        return Ok(());
    }
    let own = digest(plan, purpose).to_le_bytes().to_vec();
    let is_other = world.broadcast(own.clone())? != own;
    let mut num_others = [u64::from(is_other)];
    world.add_words(&mut num_others)?;
    match (is_other, num_others) {
        (true, _) => Err(EngineError::OtherRun),
        (false, [0]) => Ok(()),
        (false, _) => Err(EngineError::Elsewhere),
    }
}

/// Equal where engines run alike: the version, the run but for its threads, which are those of its host, the purpose, the model's
/// parameters and the programs.
fn digest(plan: &Plan, purpose: Purpose) -> u64 {
    let mut run = plan.run().clone();
    run.threads = 0;
    let run = serde_json::to_string(&run).expect("a run has string keys");
    let mut digest = Digest(DefaultHasher::new());
    let mut write = |text: fmt::Arguments<'_>| digest.write_fmt(text).expect("a digest takes any text");
    write(format_args!("{} {run} {purpose:?}", env!("CARGO_PKG_VERSION")));
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
