//! Whether this host has what the ranks of several engines need at once, before any of them allocates.
//!
//! Each engine is checked again, alone, when it starts. That is not enough: it would be found that the last one does not fit when the others hold
//! their memory, and what the system has granted is not missed before it is used.

use pipezero_comm::world::{RanksOnHosts, World};
use pipezero_files::host;
use pipezero_plan::Plan;

use super::error::EngineError;
use super::host_memory::{self, Held, ProcessNeeds};
use super::limits::Limited;
use super::share::{Share, sum};
use super::shared_memory::SharedMemory;
use super::threads;

/// An engine that is to start beside others.
#[derive(Clone, Copy, Debug)]
pub struct Together<'a> {
    /// By which messages know it.
    pub name: &'a str,
    /// Its plan. An engine for inference computes all logits of batches.
    pub plan: &'a Plan,
    /// Its world.
    pub world: &'a dyn World,
}

/// Logits of batches in the memory of this host.
#[derive(Clone, Copy, Debug)]
pub struct LogitsHere<'a> {
    /// The engine that computes them.
    pub name: &'a str,
    /// Its plan.
    pub plan: &'a Plan,
    /// What connects the processes that have them each.
    pub world: &'a dyn World,
}

/// A memory, with what is free of it and what engines need.
struct InDemand {
    memory: SharedMemory,
    free_bytes: Option<u64>,
    shares: Vec<Share>,
}

/// Checks that this host has the memory, that of its devices too, and the threads that all engines need together.
///
/// # Errors
/// [`EngineError::MemoryTogether`], [`EngineError::ThreadsTogether`] and [`EngineError::Limit`]; when a device does not say what it has.
pub fn check_together(engines: &[Together<'_>], logits: Option<LogitsHere<'_>>) -> Result<(), EngineError> {
    let threads = engines.iter().map(|engine| {
        let num_ranks = engine.world.local_ranks().len();
        let needed = num_ranks.saturating_mul(threads::of_rank(engine.plan));
        Share { engine: engine.name.to_owned(), num_ranks, needed: needed as u64 }
    });
    check_threads(threads.collect(), threads::max_threads())?;
    let limited = engines.iter().map(|engine| {
        let ranks: Vec<usize> = engine.world.local_ranks().collect();
        Limited::of(engine.plan, &ProcessNeeds::of(engine.plan, &ranks), Held::Program)
    });
    limited.fold(Limited::default(), Limited::and).check()?;
    let mut in_demand: Vec<InDemand> = Vec::new();
    for engine in engines {
        for of_device in engine.world.devices() {
            let (memory, free_bytes) = host_memory::of_device(of_device.number, &of_device.on)?;
            let needed = host_memory::still_needed_bytes(engine.plan, &of_device.ranks, &memory);
            let needed = needed.saturating_add(engine.micro_batch_bytes(&of_device.ranks));
            let share = Share { engine: engine.name.to_owned(), num_ranks: of_device.ranks.len(), needed };
            add(&mut in_demand, memory, free_bytes, share);
        }
    }
    if let Some(LogitsHere { name, plan, world }) = logits {
        let needed = plan.batch_logits_bytes().saturating_mul(processes_here(world) as u64);
        let (engine, num_ranks) = (format!("logits of {name}"), plan.grid().world_size());
        add(&mut in_demand, SharedMemory::Host, host::available_bytes(), Share { engine, num_ranks, needed });
    }
    in_demand.into_iter().try_for_each(check_memory)
}

/// Adds what an engine needs of a memory.
fn add(in_demand: &mut Vec<InDemand>, memory: SharedMemory, free_bytes: Option<u64>, share: Share) {
    match in_demand.iter_mut().find(|found| found.memory == memory) {
        // A device has less left once another engine has opened it.
        Some(found) => {
            found.free_bytes = found.free_bytes.min(free_bytes);
            found.shares.push(share);
        }
        None => in_demand.push(InDemand { memory, free_bytes, shares: vec![share] }),
    }
}

/// Processes of a world on this host, as far as it is known.
fn processes_here(world: &dyn World) -> usize {
    let is_alone = world.has_all_ranks();
    let each = world.on_hosts().and_then(RanksOnHosts::ranks_per_node);
    if is_alone { 1 } else { each.unwrap_or_else(|| world.size()) }
}

impl Together<'_> {
    /// The logits of a micro-batch, on ranks that compute all of a batch.
    fn micro_batch_bytes(&self, ranks: &[usize]) -> u64 {
        if self.plan.run().trains() { 0 } else { self.plan.micro_batch_logits_bytes(ranks.iter().copied()) }
    }
}

fn check_memory(InDemand { memory, free_bytes, shares }: InDemand) -> Result<(), EngineError> {
    match free_bytes {
        Some(available_bytes) if sum(&shares) > available_bytes => {
            Err(EngineError::MemoryTogether { shares, available_bytes, memory })
        }
        _ => Ok(()),
    }
}

fn check_threads(shares: Vec<Share>, max: Option<usize>) -> Result<(), EngineError> {
    match max {
        Some(max) if sum(&shares) > max as u64 => Err(EngineError::ThreadsTogether { shares, max }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(engine: &str, needed: u64) -> Share {
        Share { engine: engine.to_owned(), num_ranks: 2, needed }
    }

    #[test]
    fn what_fits_alone_may_not_fit_together() {
        let check = |free_bytes| {
            let shares = vec![share("student", 3 << 20), share("teacher", 2 << 20)];
            check_memory(InDemand { memory: SharedMemory::Host, free_bytes, shares })
        };
        assert!(check(None).is_ok() && check(Some(5 << 20)).is_ok());
        let error = check(Some((5 << 20) - 1)).unwrap_err();
        expect_test::expect!["the engines together need 5242880 bytes of memory (student: 3.00 MiB, ranks: 2; teacher: 2.00 MiB, ranks: 2), but 5242879 bytes is available on this host or to its control group; name fewer of them in a task, or lower what one needs, as `pipezero plan` of its run file says"].assert_eq(&error.to_string());
        let threads = |max| check_threads(vec![share("student", 6), share("teacher", 4)], max);
        assert!(threads(None).is_ok() && threads(Some(10)).is_ok());
        expect_test::expect!["the engines together need 10 threads (student: 6, ranks: 2; teacher: 4, ranks: 2), more than the 9 that the system lets this process have: name fewer of them in a task, lower `threads` where it is above 1, or raise the limit, for example sysctl vm.max_map_count=1000000"].assert_eq(&threads(Some(9)).unwrap_err().to_string());
    }
}
