//! The states of several engines, written together.

use super::AboutRun;
use crate::run::checkpoint::{CheckpointError, Checkpoints, JointCheckpoints, JointSteps};
use crate::run::engine::Engine;
use crate::run::engine::error::EngineError;

impl JointCheckpoints {
    /// Writes the state of each engine after its last step, and lists them together once all are complete; an engine that has done no step since
    /// the one before is not written again. After an error the engines go on, and what was complete before stays.
    ///
    /// The engines have names that can be those of folders. Where ranks are processes, all call it with the same engines, which have the same processes.
    ///
    /// # Errors
    /// As [`Engine::write_checkpoint`].
    ///
    /// # Panics
    /// If there is no engine, or two have one name.
    pub fn write(&self, engines: &mut [(&str, &mut Engine)]) -> Result<(), EngineError> {
        let steps: JointSteps =
            engines.iter().map(|(name, engine)| ((*name).to_owned(), engine.position().step)).collect();
        assert!(steps.len() == engines.len(), "each engine has a name of its own");
        let (_, first) = engines.first_mut().expect("there are engines");
        let before = first.shared(|| Ok(self.newest()?.map(|newest| newest.steps())))?;
        let mut not_removed = Ok(());
        for (name, engine) in &mut *engines {
            let step_before = before.as_ref().and_then(|before| before.get(*name)).copied();
            if step_before == Some(engine.position().step) {
                continue;
            }
            let to = engine.agree(self.to_write(name, step_before).map_err(EngineError::from))?;
            let run =
                serde_json::to_value(engine.plan().run()).expect("a run has string keys and finite depth");
            match engine.write_checkpoint(&to, &AboutRun { run, text_checksum: None }) {
                Err(error @ EngineError::Checkpoint(CheckpointError::NotRemoved(_))) => {
                    not_removed = Err(error)
                }
                written => written?,
            }
        }
        let (_, first) = engines.first_mut().expect("there are engines");
        let added = if first.has_rank_0() { self.add(&steps, before.as_ref()) } else { Ok(()) };
        first.agree(added.map_err(EngineError::from))?;
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

impl Engine {
    /// What the process of rank 0 finds, in all processes.
    fn shared<T: serde::Serialize + serde::de::DeserializeOwned>(
        &mut self,
        find: impl FnOnce() -> Result<T, CheckpointError>,
    ) -> Result<T, EngineError> {
        let found = if self.has_rank_0() { find().map(Some) } else { Ok(None) };
        let found = self.agree(found.map_err(EngineError::from))?;
        let message = postcard::to_stdvec(&found).expect("it is of numbers and names");
        let message = self.ranks.together(|world| world.broadcast(message))?;
        let found: Option<T> = postcard::from_bytes(&message).expect("every process runs this program");
        Ok(found.expect("the process of rank 0 gives it"))
    }
}
