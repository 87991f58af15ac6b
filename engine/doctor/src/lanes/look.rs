//! All ranks of all processes send the messages of their groups and lanes.

use std::time::Duration;

use pipezero_comm::CommError;
use pipezero_plan::Plan;
use pipezero_run::world::{connect_first, world_spec};

use super::found::{LaneFacts, facts};
use super::lane::lanes;
use super::ranks::{Bounds, Stopped, exercised};
use crate::hosts::ProcessFacts;
use crate::team::Team;

/// How long this part may take.
const TIME_MAX: Duration = Duration::from_secs(20);
/// How long a wait may take.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Bytes of a message at most.
const BYTES_MAX: u64 = 64 << 20;
/// Buffers of a message for each rank, with copies for comparisons.
const NUM_BUFFERS: u64 = 4;

/// Sends messages over all groups and lanes of a plan.
pub(crate) fn look(team: &Team, plan: &Plan, processes: &[ProcessFacts]) -> Result<LaneFacts, CommError> {
    let bounds = Bounds { time: team.time_for(TIME_MAX), bytes_max: bytes_max(processes) };
    let bounds = team.decide(&bounds)?;
    let lanes = lanes(plan);
    let num_ranks = plan.grid().world_size();
    let world = connect_first(
        &world_spec(plan),
        num_ranks,
        WAIT_MAX.min(plan.run().comm.timeout),
        Some(team.world()),
    );
    let own = match world {
        Ok(world) => {
            let world = world.expect("the world is of all ranks");
            exercised(&*world, &lanes, plan.run().comm.links, bounds)
        }
        Err(error) => {
            let rank = team.world().local_ranks().start;
            vec![Err(Stopped { rank, is_stop: false, error: error.to_string() })]
        }
    };
    let all = team.gather(&own)?;
    Ok(facts(&lanes, all.into_iter().flatten().collect()))
}

/// What every host has room for.
fn bytes_max(processes: &[ProcessFacts]) -> u64 {
    let room = |of: &ProcessFacts| {
        let on_host: usize =
            processes.iter().filter(|other| other.host == of.host).map(|of| of.num_ranks).sum();
        Some(of.available_bytes? / 2 / NUM_BUFFERS / on_host.max(1) as u64)
    };
    processes.iter().filter_map(room).fold(BYTES_MAX, u64::min).max(1 << 10)
}
