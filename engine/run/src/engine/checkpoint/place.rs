//! Where a process's ranks write their files: a folder that all processes see, or one on each host.

use pipezero_files::host;

use super::writing::Place;
use crate::checkpoint::Checkpoints;
use crate::engine::Engine;
use crate::engine::error::EngineError;

impl Engine {
    /// Makes the folder for the state after the last step. The first process that has none makes one and leaves a sign in it; those that see
    /// the sign write there too. So it goes on until every process has one.
    pub(super) fn place(&mut self, to: &Checkpoints) -> Result<Place, EngineError> {
        let (step, own) = (self.step, self.ranks.local().start);
        let sign = self.sign()?;
        let mut place: Option<Place> = None;
        let mut num_folders = 0;
        loop {
            let Some(maker) = self.first_process(place.is_none())? else { break };
            num_folders += 1;
            let sign = sign.as_ref().map(|sign| format!("{sign} {maker}"));
            let made = if maker == own { to.start(step, sign.as_deref()).map(Some) } else { Ok(None) };
            let made = self.agree(made.map_err(EngineError::from));
            if let (Err(_), Some(Place { new: Some(new), .. })) = (&made, &place) {
                new.clone().abandon();
            }
            let new = made?;
            let sees_it = match &sign {
                Some(sign) if place.is_none() && new.is_none() => to.has_sign(step, sign),
                _ => Ok(new.is_some()),
            };
            if self.agree(sees_it.map_err(EngineError::from))? && place.is_none() {
                place = Some(Place { folder: to.partial(step), new, host: None, number: num_folders - 1 });
            }
        }
        let mut place = place.expect("the loop ends when every process has a folder");
        place.host = (num_folders > 1).then(host::name);
        Ok(place)
    }

    /// What no other checkpoint's folder has in it; none where this process is the only one.
    fn sign(&mut self) -> Result<Option<String>, EngineError> {
        if self.ranks.are_all() {
            return Ok(None);
        }
        let sign = self.ranks.together(|world| world.broadcast(host::unique_sign().into_bytes()))?;
        Ok(Some(String::from_utf8_lossy(&sign).into_owned()))
    }
}
