//! Variables of the environment that the driver and NCCL read when they begin, and with which lanes could wait for each other for ever.
//!
//! Operations of different lanes begin in whatever order their streams come to them, since all that can be under way fit on a GPU at once
//! (`engine/comm/src/nccl/link.rs`). Two variables take that away. Streams that share one of the driver's connections with the GPU wait for each
//! other (CUDA C++ Programming Guide, "CUDA Environment Variables"). And NCCL can be told to begin operations in the order of the calls (NCCL
//! documentation, `NCCL_LAUNCH_ORDER_IMPLICIT`): then a second message that a rank is ready to receive, which waits for the first, would keep back
//! a send that the first depends on.
//!
//! A process cannot change what its libraries have read, nor safely what its threads may read at that moment. So a command
//! sets the number of connections by starting itself again (`engine/cli/src/nccl_variable.rs`).

use std::env;

use super::super::spec::WorldSpec;
use crate::world::WorldError;

const LAUNCH_ORDER: &str = "NCCL_LAUNCH_ORDER_IMPLICIT";
/// The variable of the number of connections with a GPU, and the most that there can be.
const CONNECTIONS: (&str, &str) = ("CUDA_DEVICE_MAX_CONNECTIONS", "32");
/// How many there are where nothing says.
const DEFAULT_CONNECTIONS: usize = 8;

/// What is to be set, if nobody has set it.
pub fn missing_variable() -> Option<(&'static str, &'static str)> {
    env::var_os(CONNECTIONS.0).is_none().then_some(CONNECTIONS)
}

/// Whether the lanes of these ranks can be relied on.
///
/// # Errors
/// [`WorldError::Variable`] where a variable is missing or has another value.
pub(super) fn check(spec: &WorldSpec) -> Result<(), WorldError> {
    let value = |name| env::var(name).ok();
    check_values(spec.lanes.num_at_once(), value(LAUNCH_ORDER), value(CONNECTIONS.0))
}

fn check_values(
    num_lanes: usize,
    order: Option<String>,
    connections: Option<String>,
) -> Result<(), WorldError> {
    if order.as_deref().is_some_and(|order| order != "0") {
        return Err(WorldError::Variable {
            name: LAUNCH_ORDER,
            value: order,
            rule: "then a message that is not yet sent keeps back others, and ranks may wait for each other for ever".to_owned(),
            repair: "0",
        });
    }
    // Each lane has a stream, and so has compute.
    let num_streams = num_lanes + 1;
    let num_connections = match &connections {
        None => DEFAULT_CONNECTIONS,
        Some(text) => text.trim().parse().unwrap_or(0),
    };
    if num_streams > num_connections {
        let rule = format!(
            "a rank of this run uses {num_streams} streams, which need a connection each with its GPU; where 32 are not enough, use fewer \
             `parallel.virtual_stages`"
        );
        let (name, repair) = CONNECTIONS;
        return Err(WorldError::Variable { name, value: connections, rule, repair });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_need_a_connection_each_and_no_order() {
        let check = |num_lanes, order: Option<&str>, connections: Option<&str>| {
            let text = |value: Option<&str>| value.map(str::to_owned);
            check_values(num_lanes, text(order), text(connections)).err().map(|error| error.to_string())
        };
        assert_eq!(check(7, Some("0"), None), None);
        assert_eq!(check(31, None, Some("32")), None);
        for (num_lanes, order, connections, expected) in [
            (3, Some("1"), Some("32"), "NCCL_LAUNCH_ORDER_IMPLICIT is \"1\": then a message"),
            (8, None, None, "CUDA_DEVICE_MAX_CONNECTIONS is not set: a rank of this run uses 9 streams"),
            (3, None, Some("1"), "CUDA_DEVICE_MAX_CONNECTIONS is \"1\": a rank of this run uses 4 streams"),
            (3, None, Some("many"), "CUDA_DEVICE_MAX_CONNECTIONS is \"many\": a rank"),
        ] {
            let message = check(num_lanes, order, connections).unwrap();
            assert!(message.contains(expected), "{message}");
        }
    }
}
