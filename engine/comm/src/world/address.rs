//! Where a process listens for others: that of rank 0 where all know it, that of another rank where it tells them.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

use pipezero_files::host::{LaunchedProcess, Master};

use super::World;
use super::control_channel::ControlChannelError;
use super::error::WorldError;

/// On the address that the launcher names, else on this host's loopback if all processes are on it, else on the address of this host's name; on
/// `port`, else on the one that the launcher names, else on any that is free (0).
pub(super) fn address_of_first(
    launched: Option<&LaunchedProcess>,
    port: Option<u16>,
    is_near: bool,
) -> Result<SocketAddr, ControlChannelError> {
    let master = launched.and_then(|launched| launched.master.clone());
    let port = port.or(master.as_ref().and_then(|master| master.port)).unwrap_or(0);
    let host = match master {
        Some(Master { host, .. }) => host,
        None if is_near => Ipv4Addr::LOCALHOST.to_string(),
        None => pipezero_files::host::name(),
    };
    // A host's own name often leads to its loopback address, at which no other host reaches it.
    let is_reached = |address: &SocketAddr| is_near || !address.ip().is_loopback();
    let reason = match (host.as_str(), port).to_socket_addrs().map(|mut found| found.find(is_reached)) {
        Ok(Some(address)) => return Ok(address),
        Ok(None) => {
            "it leads to no address at which other hosts reach it, and the launcher does not say that all processes are on this one".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(ControlChannelError::UnknownHost { host, reason })
}

/// Any port of the address by which this process reaches that of rank 0 in a world.
pub(super) fn own_address(around: &dyn World) -> Result<SocketAddr, ControlChannelError> {
    Ok(SocketAddr::new(around.local_ip()?, 0))
}

/// Broadcasts a text of the process of rank `rank` to all processes of a world in which each process has one rank.
pub(super) fn broadcast_from(around: &dyn World, rank: usize, own: String) -> Result<String, WorldError> {
    let all = around.gather(own.into_bytes()).map_err(WorldError::not_connected)?;
    // What other processes than that of rank 0 give does not count.
    let told = all.into_iter().nth(rank).unwrap_or_default();
    let told = around.broadcast(told).map_err(WorldError::not_connected)?;
    Ok(String::from_utf8_lossy(&told).into_owned())
}
