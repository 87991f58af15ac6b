//! Values that one process finds and all use.

use pipezero_comm::world::judged_by_first;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Engine;
use super::error::EngineError;
use super::kind::EngineKind;

impl<K: EngineKind> Engine<K> {
    /// The value that the process of rank 0 finds, in all processes; the others do not look.
    ///
    /// # Errors
    /// Its error, in that process; [`EngineError::Elsewhere`] in the others; when a rank, or another process, stops.
    pub fn shared<T, E>(&mut self, find: impl FnOnce() -> Result<T, E>) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<EngineError>,
    {
        let found = if self.has_rank_0() { find().map(Some) } else { Ok(None) };
        let found = self.agree(found)?;
        let message = postcard::to_stdvec(&found).expect("it is of numbers and names");
        let message = self.ranks.together(|world| world.broadcast(message))?;
        let found: Option<T> = postcard::from_bytes(&message).expect("every process runs this program");
        Ok(found.expect("the process of rank 0 gives it"))
    }

    /// Whether all ranks are in this process.
    pub fn has_all_ranks(&self) -> bool {
        self.ranks.are_all()
    }

    /// The first rank of this process.
    pub fn first_rank(&self) -> usize {
        self.ranks.local().start
    }

    /// As [`judged_by_first`], over the processes of the engine.
    ///
    /// # Errors
    /// When a rank, or another process, stops.
    pub fn judged<T, R>(&mut self, own: &T, judge: impl FnOnce(Vec<T>) -> R) -> Result<R, EngineError>
    where
        T: Serialize + DeserializeOwned,
        R: Serialize + DeserializeOwned,
    {
        self.ranks.together(|world| judged_by_first(world, own, judge))
    }

    /// The first rank of the first process of which something holds.
    ///
    /// # Errors
    /// When a rank, or another process, stops.
    pub fn first_process(&mut self, holds: bool) -> Result<Option<usize>, EngineError> {
        let own = self.first_rank();
        let mut words = vec![0; self.plan.grid().world_size()];
        words[own] = u64::from(holds);
        self.ranks.together(|world| world.add_words(&mut words))?;
        Ok(words.iter().position(|&word| word > 0))
    }
}
