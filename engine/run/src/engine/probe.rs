//! Probes of links: messages only, which the process of rank 0 decides on and all processes send.

use std::sync::Arc;

use super::command::Command;
use super::{Engine, EngineError, ProcessReport};
use crate::executor::{Probe, RecordedEvent};

impl Engine {
    /// In the process of rank 0: all ranks send the messages of a probe. Returns what happened to them and when, by world rank.
    pub fn probe(&mut self, probe: Probe) -> Result<Vec<Vec<RecordedEvent>>, EngineError> {
        self.share(Some(&probe))?;
        self.send_probe(probe)
    }

    /// In the process of rank 0: there are no more probes.
    pub fn end_probes(&mut self) -> Result<(), EngineError> {
        self.share(None).map(drop)
    }

    /// In any other process: sends what the process of rank 0 asks for, until there is no more.
    pub fn follow_probes(&mut self) -> Result<(), EngineError> {
        // What this process gives does not count.
        while let Some(probe) = self.share(None)? {
            self.send_probe(probe)?;
        }
        Ok(())
    }

    /// The probe that the process of rank 0 gives, or that there are no more.
    fn share(&mut self, probe: Option<&Probe>) -> Result<Option<Probe>, EngineError> {
        let message = serde_json::to_vec(&probe).expect("a probe has string keys and finite depth");
        let message = self.ranks.together(|world| world.broadcast(message))?;
        Ok(serde_json::from_slice(&message).expect("every process runs this program"))
    }

    fn send_probe(&mut self, probe: Probe) -> Result<Vec<Vec<RecordedEvent>>, EngineError> {
        let command = Command::Probe(Arc::new(probe));
        let outcomes = self.ranks.ask_for_outcomes(&command)?;
        let clock = self.ranks.together(|world| world.clock_offset())?;
        let processes = self.gather_outcomes(clock, outcomes)?;
        Ok(on_one_clock(processes))
    }
}

/// The events of all ranks by the clock of rank 0's process, as far as the offsets are known, counted from the first of them.
fn on_one_clock(processes: Vec<ProcessReport>) -> Vec<Vec<RecordedEvent>> {
    let all = processes.iter().flat_map(|process| {
        let events = process.ranks.iter().flat_map(|rank| &rank.events);
        events.map(|event| process.clock.on_the_other(event.at_ns))
    });
    let first_ns = all.min().unwrap_or(0);
    let shifted = |process: ProcessReport| {
        process.ranks.into_iter().map(move |rank| {
            let from_first = |event: RecordedEvent| {
                let at_ns = process.clock.on_the_other(event.at_ns) - first_ns;
                RecordedEvent { at_ns: u64::try_from(at_ns).unwrap_or(u64::MAX), ..event }
            };
            rank.events.into_iter().map(from_first).collect()
        })
    };
    processes.into_iter().flat_map(shifted).collect()
}
