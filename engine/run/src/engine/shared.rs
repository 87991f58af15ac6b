//! Values that one process finds and all use.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Engine;
use super::error::EngineError;

impl Engine {
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

    /// Every process gets the text that the process whose first rank is `rank` gives.
    ///
    /// # Errors
    /// When a rank, or another process, stops.
    pub fn told_by(&mut self, rank: usize, say: impl FnOnce() -> String) -> Result<String, EngineError> {
        let own = if self.first_rank() == rank { say() } else { String::new() };
        // The others give an empty text.
        let said = self.gather(own)?;
        self.shared(|| {
            Ok::<_, EngineError>(said.into_iter().find(|said| !said.is_empty()).unwrap_or_default())
        })
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
