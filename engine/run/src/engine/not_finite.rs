//! What is not finite, in a step, an evaluation or a file that was read: what all processes know of it together.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Engine;
use super::command::{Answer, Command};
use super::error::EngineError;
use super::kind::{EngineKind, Training};
use crate::executor::{Findings, NotFinite, StepInputs};
use crate::unusable_value::UnusableValue;

impl Engine<Training> {
    /// A step left the weights as they are: an error, unless a gradient overflowed in fp16.
    pub(super) fn check_left_out(
        &mut self,
        inputs: StepInputs,
        unread: Option<String>,
    ) -> Result<(), EngineError> {
        let step = inputs.step;
        let read = unread.map_or(Ok(()), |what| Err(EngineError::Unread { step, what }));
        self.agree(read)?;
        if self.loss_scaler.is_some() {
            return Ok(());
        }
        let found = self.find_not_finite(&Command::FindInStep(inputs))?;
        Err(EngineError::NotFinite { step, what: found.to_string(), remedy: found.remedy() })
    }
}

impl<K: EngineKind> Engine<K> {
    /// Finds the first value that is not finite in the last step, which has changed no weight, or in the last evaluation. Every process gets the same
    /// answer.
    pub(super) fn find_not_finite(&mut self, command: &Command) -> Result<NotFinite, EngineError> {
        let findings = |answer| match answer {
            Answer::Findings(findings) => Some(*findings),
            _ => None,
        };
        let answers = self.ranks.ask(command)?;
        let own: Vec<Findings> = answers.into_iter().filter_map(findings).collect();
        let found = NotFinite::of(&self.gather(own)?.concat());
        self.of_first_process(&found)
    }

    /// Sends the value of the process of rank 0 to all processes.
    pub(super) fn of_first_process<T: Serialize + DeserializeOwned>(
        &mut self,
        own: &T,
    ) -> Result<T, EngineError> {
        let own = serde_json::to_vec(own).expect("it has string keys and finite depth");
        let first = self.ranks.together(|world| world.broadcast(own))?;
        Ok(serde_json::from_slice(&first).expect("every process runs this program"))
    }

    /// The first value with which no run can begin among those that the processes have found in files.
    pub(super) fn first_unusable(
        &mut self,
        own: Option<UnusableValue>,
    ) -> Result<Option<UnusableValue>, EngineError> {
        // What other processes than that of rank 0 give does not count.
        let first = self.gather(own)?.into_iter().flatten().min();
        self.of_first_process(&first)
    }
}
