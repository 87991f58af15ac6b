//! A schedule without a model: how long a step takes if all ranks are alike.

use std::borrow::Cow;
use std::path::Path;

use pipezero_config::order::read_order;
use pipezero_schedule::simulate::{PlayedOrder, RankTimes, Study, study, study_long};
use pipezero_schedule::{ComputeOrder, PipelineRank};

use super::generator::GeneratedSchedule;
use super::lone_schedule_error::{LoneScheduleError, OrderRule};
use super::program_size::{MAX_SHOWN_FORWARDS, ProgramSize, SizeLimits};

/// A schedule that is simulated without a model.
#[derive(Clone, Debug)]
pub enum LoneSchedule {
    /// From a generator, of any length: a long step is extrapolated from shorter ones.
    Generated(GeneratedSchedule),
    /// From a file.
    File {
        /// The file's name.
        name: String,
        /// Its order.
        order: ComputeOrder,
    },
}

impl LoneSchedule {
    /// Reads a schedule file, in PyTorch's pipelining CSV.
    ///
    /// # Errors
    /// [`LoneScheduleError::File`] if it does not hold the order of a whole step, with as many stages on each rank, or is too
    /// large to be simulated.
    pub fn read(path: &Path) -> Result<Self, LoneScheduleError> {
        let order = read_order(path).map_err(OrderRule::Unread);
        let checked = order.and_then(|order| check(&order, SizeLimits::SIMULATED).map(|()| order));
        let order = checked.map_err(|rule| LoneScheduleError::File { path: path.to_owned(), rule })?;
        Ok(Self::File { name: path.display().to_string(), order })
    }

    /// Whether the halves of a backward are computed apart, each with its own time.
    pub fn splits_backwards(&self) -> bool {
        match self {
            Self::Generated(schedule) => schedule.generator.splits_backwards(),
            Self::File { order, .. } => order.first_half().is_some(),
        }
    }

    /// How long a step takes.
    ///
    /// # Errors
    /// [`LoneScheduleError`] if there is no such schedule, it is too large, or its work takes no time or too much.
    pub fn simulate(&self, times: RankTimes) -> Result<Study, LoneScheduleError> {
        self.check_times(times)?;
        match self {
            Self::Generated(schedule) => {
                study_long(|micro_batches| schedule.order(micro_batches), schedule.micro_batches, times)
            }
            Self::File { order, .. } => Ok(study(order, times)?),
        }
    }

    /// The order of the whole step, to be drawn.
    ///
    /// # Errors
    /// [`LoneScheduleError::TooLongToShow`] if it is too long for that; [`LoneScheduleError`] if there is no such schedule.
    pub fn order_to_show(&self) -> Result<Cow<'_, ComputeOrder>, LoneScheduleError> {
        let size = match self {
            Self::Generated(schedule) => schedule.program_size(schedule.micro_batches),
            Self::File { order, .. } => ProgramSize::of_order(order),
        };
        let num_forwards = size.num_forwards();
        if num_forwards > MAX_SHOWN_FORWARDS {
            return Err(LoneScheduleError::TooLongToShow { num_forwards });
        }
        match self {
            Self::Generated(schedule) => schedule.order(schedule.micro_batches).map(Cow::Owned),
            Self::File { order, .. } => Ok(Cow::Borrowed(order)),
        }
    }

    /// The whole step with its program and timeline, to be drawn or explained.
    ///
    /// # Errors
    /// As [`LoneSchedule::order_to_show`] and [`LoneSchedule::simulate`].
    pub fn simulate_to_show(&self, times: RankTimes) -> Result<PlayedOrder, LoneScheduleError> {
        self.check_times(times)?;
        Ok(PlayedOrder::new(self.order_to_show()?.as_ref(), times)?)
    }

    /// Its name and sizes, to stand above a picture.
    pub fn title(&self) -> String {
        match self {
            Self::Generated(schedule) => {
                let GeneratedSchedule { ranks, micro_batches, .. } = schedule;
                format!("{}, p = {ranks}, m = {micro_batches}", schedule.name())
            }
            Self::File { name, .. } => name.clone(),
        }
    }

    /// Work takes time: a time of 0 is more likely forgotten than meant. Only a message may take none, as over an ideal link,
    /// and one half of a backward that runs as a whole.
    fn check_times(&self, times: RankTimes) -> Result<(), LoneScheduleError> {
        let RankTimes { forward, backward_input, backward_weight, .. } = times;
        if forward == 0 {
            return Err(LoneScheduleError::NoTime("forward"));
        }
        match (backward_input, backward_weight) {
            (0, _) if self.splits_backwards() => Err(LoneScheduleError::NoTime("backward input")),
            (_, 0) if self.splits_backwards() => Err(LoneScheduleError::NoTime("backward weight")),
            (0, 0) => Err(LoneScheduleError::NoBackward),
            _ => Ok(()),
        }
    }
}

/// Whether the order is that of a whole step which can be simulated.
fn check(order: &ComputeOrder, limits: SizeLimits) -> Result<(), OrderRule> {
    if !order.has_backward() {
        return Err(OrderRule::NoBackward);
    }
    ProgramSize::of_order(order).check(limits)?;
    let placement = &order.placement;
    let num_stages = |rank| placement.stages(PipelineRank(rank as u32)).count();
    let first = num_stages(0);
    match (1..placement.num_ranks()).find(|&rank| num_stages(rank) != first) {
        Some(rank) => Err(OrderRule::Uneven { first, rank, found: num_stages(rank) }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two stages on each of two ranks, V-shaped: every micro-batch has 12 computes and 4 messages over each of two edges,
    /// and the end of the step has 10 instructions.
    const V_SHAPED: &str = "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n1F0,2F0,2B0,1B0,1F1,2F1,2B1,1B1\n";

    #[test]
    fn an_order_that_is_too_large_says_how_large_it_may_be() {
        let refused = |text, num_stages, num_instructions| {
            let order = ComputeOrder::from_csv(text).unwrap();
            check(&order, SizeLimits { num_stages, num_instructions }).map_err(|rule| {
                let text = rule.to_string();
                (text, LoneScheduleError::File { path: "own.csv".into(), rule }.is_too_large())
            })
        };
        assert!(refused(V_SHAPED, 4, 42).is_ok());
        let stages = "it has 4 stages, and at most 3 are simulated; use fewer";
        assert_eq!(refused(V_SHAPED, 3, 42).unwrap_err(), (stages.to_owned(), true));
        let instructions = "it has 42 instructions, messages included, and at most 41 are simulated; use fewer \
                            micro-batches, about 1";
        assert_eq!(refused(V_SHAPED, 4, 41).unwrap_err(), (instructions.to_owned(), true));
        // Orders that are wrong are not only too large.
        for wrong in ["0F0\n", "0F0,0B0\n1F0,2F0,2B0,1B0\n"] {
            assert!(!refused(wrong, 4, 41).unwrap_err().1, "{wrong}");
        }
    }
}
