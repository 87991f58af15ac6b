//! The thread of one rank: takes a command, carries it out, replies.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender};
use pipezero_comm::memory::Ledgers;
use pipezero_comm::world::{Position, World};
use pipezero_models::init;
use pipezero_models::parameter::ParameterSpec;
use pipezero_plan::Plan;
use pipezero_schedule::Instruction;

use super::command::{Answer, Command, Reply};
use crate::data::BatchSource;
use crate::executor::{Cause, Rank, RankFailure};

/// A rank before its thread runs.
pub(super) struct Worker {
    pub(super) rank: usize,
    pub(super) plan: Arc<Plan>,
    pub(super) source: Arc<dyn BatchSource>,
    pub(super) ledgers: Arc<Ledgers>,
    pub(super) world: Arc<dyn World>,
    pub(super) commands: Receiver<Command>,
    pub(super) answer: Sender<(usize, Reply)>,
}

impl Worker {
    /// Builds the rank inside the thread that owns it, then carries out commands until the engine is dropped or one fails.
    pub(super) fn run(self) {
        let mut rank = match self.guard(|| self.build()) {
            Ok(rank) => rank,
            Err(failure) => return self.reply(Err(failure)),
        };
        self.reply(Ok(Answer::Done));
        while let Ok(command) = self.commands.recv() {
            let answer = self.guard(|| serve(&mut rank, command, self.source.as_ref()));
            let failed = answer.is_err();
            self.reply(answer);
            if failed {
                return;
            }
        }
    }

    fn build(&self) -> Result<Rank, Cause> {
        let comm = self.world.communicator(self.rank)?;
        let positions = Arc::clone(self.world.positions());
        Rank::new(&self.plan, comm, &self.ledgers, positions)
    }

    fn guard<R>(&self, f: impl FnOnce() -> Result<R, Cause>) -> Result<R, Box<RankFailure>> {
        // The rank is not used again after a panic, so a broken invariant of it does no harm.
        let positions = self.world.positions();
        let failure = |position, cause| Box::new(RankFailure { rank: self.rank, position, cause });
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => result.map_err(|cause| failure(positions.get(self.rank), cause)),
            Err(panic) => {
                // It is the host that panicked, at what it asked for last.
                let position = positions.newest(self.rank);
                let (message, layers) = (panic_message(panic.as_ref()), self.layers_at(position));
                Err(failure(position, Cause::Panicked { message, layers }))
            }
        }
    }

    /// The names of the layers that an instruction computes.
    fn layers_at(&self, position: Position) -> Vec<String> {
        let unit = position.instruction().and_then(Instruction::unit);
        let layers = unit.map(|unit| self.plan.unit(unit).layers.clone());
        layers.into_iter().flatten().map(|layer| self.plan.graph().layer(layer).name.clone()).collect()
    }

    fn reply(&self, answer: Reply) {
        // It fails only when the engine has been dropped.
        let _ = self.answer.send((self.rank, answer));
    }
}

/// Carries out one command.
fn serve(rank: &mut Rank, command: Command, source: &dyn BatchSource) -> Result<Answer, Cause> {
    match command {
        Command::Initialise => {
            let seed = rank.plan.run().seed;
            rank.fill_parameters(|entry, first, values| {
                init::fill(&entry.spec, seed, first, values);
                Ok(())
            })?;
            Ok(Answer::Done)
        }
        Command::Train(inputs) => {
            rank.hold_reserve();
            Ok(Answer::Outcome(Box::new(rank.train(inputs, source)?)))
        }
        Command::FindInStep(inputs) => {
            Ok(Answer::Findings(Box::new(rank.find_not_finite(source, inputs.step, Some(inputs))?)))
        }
        Command::FindInEvaluation { source, batch } => {
            Ok(Answer::Findings(Box::new(rank.find_not_finite(source.as_ref(), batch, None)?)))
        }
        Command::Release => {
            rank.release_reserve();
            Ok(Answer::Done)
        }
        Command::Probe(probe) => Ok(Answer::Outcome(Box::new(rank.probe(&probe)?))),
        Command::Evaluate { source, batch } => {
            Ok(Answer::Outcome(Box::new(rank.evaluate(source.as_ref(), batch)?)))
        }
        Command::Logits { prompts } => Ok(rank.logits(&prompts)?.map_or(Answer::Done, Answer::Values)),
        Command::BatchLogits { source, batch, to } => {
            Ok(Answer::Outcome(Box::new(rank.batch_logits(source.as_ref(), batch, to)?)))
        }
        Command::Save(file) => {
            for (id, _) in Arc::clone(&rank.plan).owned_units() {
                rank.collect_unit(id, |entries, first, values| {
                    if let Some(file) = &file {
                        file.write(entries, first, values);
                    }
                })?;
            }
            Ok(Answer::Done)
        }
        Command::WriteState(folder) => Ok(Answer::Written(rank.write_state(&folder)?)),
        Command::WriteCopy(to) => {
            rank.write_copy(to)?;
            Ok(Answer::Done)
        }
        Command::ReadState(from) => Ok(Answer::Read(rank.read_state(&from)?)),
        Command::ReadParameters { from, wanted } => {
            let plan = Arc::clone(&rank.plan);
            Ok(Answer::Read(rank.read_parameters(&from, |name| wanted.is_read(&plan, name))?))
        }
        Command::Load(file) => {
            let plan = Arc::clone(&rank.plan);
            let read = |spec: &ParameterSpec, first, values: &mut [f32]| file.read(spec, first, values);
            let is_read = |name: &str| file.wanted().is_read(&plan, name);
            Ok(Answer::Loaded(rank.read_values(is_read, read, |spec, element| file.place(spec, element))?))
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
