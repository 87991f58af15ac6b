//! What computes for ranks.

use std::fmt;
use std::sync::Arc;

use pipezero_config::DeviceName;
use pipezero_models::queue::{Cuda, NoCuda};
use pipezero_models::{Device, Host};

use super::spec::WorldSpec;

/// A device, and what people call it.
#[derive(Clone, Debug)]
pub struct NamedDevice {
    /// What computes.
    pub device: Arc<dyn Device>,
    /// What people call it.
    pub name: String,
}

/// A device with the ranks of this process that compute on it.
#[derive(Clone, Debug)]
pub struct RanksOnDevice {
    /// What computes.
    pub on: NamedDevice,
    /// Which of the host's devices of its kind it is, as far as the process can tell.
    pub number: usize,
    /// Their world ranks.
    pub ranks: Vec<usize>,
}

impl NamedDevice {
    /// The host's cores.
    pub fn cpu() -> Self {
        Self { device: Arc::new(Host), name: "CPU".to_owned() }
    }
}

/// Opens the devices that ranks ask for: of GPUs all that the host has.
///
/// # Errors
/// When a GPU is asked for, and it or a library that it needs is missing.
pub(super) fn devices_of(spec: &WorldSpec) -> Result<Vec<NamedDevice>, NoCuda> {
    let named = |cuda: Cuda| Ok(NamedDevice { name: cuda.name()?, device: Arc::new(cuda) });
    match spec.device {
        DeviceName::Cpu => Ok(vec![NamedDevice::cpu()]),
        DeviceName::Cuda => Cuda::open_all(spec.f32_products)?.into_iter().map(named).collect(),
    }
}

/// Gives each rank the device of its place in the job modulo their number: rank 0 is the job's rank `first`.
pub(super) fn dealt(devices: &[NamedDevice], first: usize, num_ranks: usize) -> Vec<RanksOnDevice> {
    let num_devices = devices.len();
    let ranks = |index: usize| (0..num_ranks).filter(|rank| (first + rank) % num_devices == index).collect();
    let dealt = devices.iter().enumerate().map(|(index, on)| RanksOnDevice {
        on: on.clone(),
        number: number_on_host(index),
        ranks: ranks(index),
    });
    dealt.filter(|device| !device.ranks.is_empty()).collect()
}

/// Which GPU of the host a process sees as that of this number.
pub(super) fn number_on_host(ordinal: usize) -> usize {
    number_in(std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref(), ordinal)
}

/// The same by a list of those that it sees. Where GPUs are named otherwise than by numbers, nothing else is known.
fn number_in(visible: Option<&str>, ordinal: usize) -> usize {
    let listed = visible.and_then(|list| list.split(',').nth(ordinal)?.trim().parse().ok());
    listed.unwrap_or(ordinal)
}

/// The devices that are used, each name once: `2 x NVIDIA H100`.
pub struct Names<'a>(pub &'a [RanksOnDevice]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, same) in self.0.chunk_by(|one, other| one.on.name == other.on.name).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            match same {
                [one] => write!(f, "{separator}{}", one.on.name)?,
                several => write!(f, "{separator}{} x {}", several.len(), several[0].on.name)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_dealt_to_devices_in_turn() {
        let devices: Vec<_> =
            ["a", "b", "b"].map(|name| NamedDevice { name: name.to_owned(), ..NamedDevice::cpu() }).into();
        let ranks = |first, num_ranks| {
            dealt(&devices, first, num_ranks).into_iter().map(|device| device.ranks).collect::<Vec<_>>()
        };
        assert_eq!(ranks(0, 7), [vec![0, 3, 6], vec![1, 4], vec![2, 5]]);
        assert_eq!(ranks(0, 2), [[0], [1]]);
        assert_eq!(ranks(5, 3), [[1], [2], [0]]);
        let numbers = |first, num_ranks| {
            dealt(&devices, first, num_ranks).iter().map(|device| device.number).collect::<Vec<_>>()
        };
        assert_eq!((numbers(4, 2), numbers(2, 1)), (vec![1, 2], vec![2]));
        assert_eq!(Names(&dealt(&devices, 0, 7)).to_string(), "a, 2 x b");
        assert_eq!(Names(&dealt(&devices, 0, 1)).to_string(), "a");
    }

    #[test]
    fn gpus_have_the_numbers_by_which_a_process_is_shown_them() {
        for (visible, ordinal, expected) in [
            (None, 2, 2),
            (Some("3"), 0, 3),
            (Some("5, 7"), 1, 7),
            (Some("GPU-8f1c"), 0, 0),
            (Some(""), 0, 0),
        ] {
            assert_eq!(number_in(visible, ordinal), expected, "{visible:?}");
        }
    }
}
