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
        let message = self.ranks.together(|world| world.broadcast(message)).map_err(EngineError::from)?;
        let found: Option<T> = postcard::from_bytes(&message).expect("every process runs this program");
        Ok(found.expect("the process of rank 0 gives it"))
    }
}
