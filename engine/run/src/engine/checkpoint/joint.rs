//! The states of several engines, written together and read together.

use std::sync::Arc;

use super::AboutRun;
use crate::checkpoint::{CheckpointError, Checkpoints, JointCheckpoints, JointSteps};
use crate::engine::Engine;
use crate::engine::error::EngineError;

impl JointCheckpoints {
    /// Reads the newest checkpoints that were written together, of these engines; where one turns out to be damaged, those before. `false` if none was
    /// written, and the engines are as they were.
    ///
    /// # Errors
    /// As [`Engine::resume`]; when the list cannot be read or is damaged, when all that are listed are damaged, and when an engine is in none. The engines must
    /// then be resumed from something else before they are used. [`EngineError::JointNames`] where there is no engine.
    pub fn resume(&mut self, engines: &mut [(&str, &mut Engine)]) -> Result<bool, EngineError> {
        let sets = first_of(engines)?.shared(|| self.sets().map_err(EngineError::from))?;
        let mut refused = Vec::new();
        for set in sets.into_iter().rev() {
            match self.resume_from(&set, engines) {
                Ok(()) => {
                    self.last = Some(set);
                    return Ok(true);
                }
                Err(EngineError::Checkpoint(error)) if error.is_damage() => refused.push(error),
                Err(error) => return Err(error),
            }
        }
        CheckpointError::of_all(refused).map_or(Ok(false), |error| Err(error.into()))
    }

    fn resume_from(&self, set: &JointSteps, engines: &mut [(&str, &mut Engine)]) -> Result<(), EngineError> {
        // All headers first: they are most of what can be damaged, and an engine that was read is another.
        let mut readers = Vec::new();
        for (name, engine) in &mut *engines {
            let listed = set.get(*name).copied().ok_or_else(|| self.not_listed(name, set));
            let opened = listed.and_then(|step| self.open(name, step));
            readers.push(Arc::new(engine.agree_on_damage(opened)?));
        }
        for ((_, engine), reader) in engines.iter_mut().zip(&readers) {
            engine.resume(reader)?;
        }
        Ok(())
    }

    fn not_listed(&self, engine: &str, set: &JointSteps) -> CheckpointError {
        let known: Vec<&str> = set.keys().map(String::as_str).collect();
        let reason = format!("no checkpoint of `{engine}`, but of {}", known.join(", "));
        CheckpointError::NotFound { path: self.list(), reason }
    }

    /// Writes the state of each engine after its last step, and lists them together once all are complete; an engine that has done no step since
    /// the ones before is not written again. After an error the engines go on, and what was listed stays.
    ///
    /// # Errors
    /// As [`Engine::write_checkpoint`]; before anything is written, [`CheckpointError::NotGoneOn`] where the folder has some that the engines did not go on from,
    /// and [`EngineError::JointNames`] where there is no engine, or two have one name.
    pub fn write(&mut self, engines: &mut [(&str, &mut Engine)]) -> Result<(), EngineError> {
        let steps: JointSteps =
            engines.iter().map(|(name, engine)| ((*name).to_owned(), engine.position().step)).collect();
        if steps.len() < engines.len() {
            return Err(EngineError::JointNames { reason: "two of these have the same name" });
        }
        if self.last.is_none() {
            let is_known = |sets: Vec<JointSteps>| match sets.is_empty() {
                true => Ok(()),
                false => Err(CheckpointError::NotGoneOn { path: self.list() }),
            };
            first_of(engines)?.shared(|| self.sets().and_then(is_known).map_err(EngineError::from))?;
        }
        let mut not_removed = Ok(());
        for (name, engine) in &mut *engines {
            let step_before = self.last.as_ref().and_then(|last| last.get(*name)).copied();
            if step_before == Some(engine.position().step) {
                continue;
            }
            let to = engine.agree(self.to_write(name, step_before).map_err(EngineError::from))?;
            let run =
                serde_json::to_value(engine.plan().run()).expect("a run has string keys and finite depth");
            match engine.write_checkpoint(&to, &AboutRun { run, ..AboutRun::default() }) {
                Err(error @ EngineError::Checkpoint(CheckpointError::NotRemoved(_))) => {
                    not_removed = Err(error)
                }
                written => written?,
            }
        }
        let first = first_of(engines)?;
        let added = if first.has_rank_0() { self.add(&steps) } else { Ok(()) };
        first.agree(added.map_err(EngineError::from))?;
        self.last = Some(steps);
        not_removed
    }

    /// Where an engine writes that has gone on from the checkpoint of a step, which stays until the next is listed.
    fn to_write(&self, engine: &str, step_before: Option<u64>) -> Result<Checkpoints, CheckpointError> {
        let to = self.of(engine).superseding(step_before.unwrap_or(0))?;
        Ok(match step_before {
            Some(step) => to.protecting(step),
            None => to,
        })
    }
}

fn first_of<'a>(engines: &'a mut [(&str, &mut Engine)]) -> Result<&'a mut Engine, EngineError> {
    let first = engines.first_mut().map(|(_, engine)| &mut **engine);
    first.ok_or(EngineError::JointNames { reason: "there is none" })
}
