//! Whether the limits that the system sets to this process leave what a plan needs, before anything is started.
//!
//! The memory that the ranks need is compared with what the host has beside this (`host_memory`). Here it is address space: what is mapped
//! counts from the beginning, used or not, and with it the stacks of threads. The program has one heap for all threads where its address
//! space is limited, since each further one would reserve 64 MiB.

use pipezero_config::{BackendName, DeviceName};
use pipezero_files::host::{Limit, LimitError};
use pipezero_partition::Purpose;
use pipezero_plan::Plan;

use super::host_memory::{Held, ProcessNeeds};
use super::threads;

/// The stack of a thread, as the standard library makes it whatever `ulimit -s` says, with its guard page and that of signal handlers.
const STACK_BYTES: u64 = (2 << 20) + (64 << 10);

/// Threads beside those of ranks: for signals, checkpoints, the control channel and MPI.
const OTHER_THREADS: u64 = 8;

/// Address space that the allocator's rounding and threads of other libraries take.
const MARGIN_BYTES: u64 = 16 << 20;

/// Files that a start and a checkpoint have open at once, beside those that are open when it begins.
const OPEN_FILES: u64 = 16;

/// Refuses a plan of which this process is to have these ranks, where a limit leaves less than that needs.
///
/// # Errors
/// [`LimitError`] of the first such limit.
pub(super) fn check(plan: &Plan, purpose: Purpose, ranks: &[usize], held: Held) -> Result<(), LimitError> {
    let num_threads = (ranks.len() * threads::of_rank(plan)) as u64 + OTHER_THREADS;
    for limit in [Limit::Threads, Limit::GroupThreads] {
        limit.check(num_threads)?;
    }
    let num_connections = match plan.run().comm.backend {
        BackendName::Threads => 0,
        BackendName::Mpi | BackendName::Nccl => (plan.grid().world_size() - ranks.len()) as u64,
    };
    Limit::OpenFiles.check(OPEN_FILES + num_connections)?;
    // CUDA reserves more address space than there is memory.
    if plan.run().device == DeviceName::Cpu {
        let needed = ProcessNeeds::of(plan, purpose, ranks).bytes;
        let needed = needed.saturating_sub(ProcessNeeds::held_bytes(plan, held));
        let needed = needed.saturating_add(num_threads * STACK_BYTES).saturating_add(MARGIN_BYTES);
        for limit in [Limit::AddressSpace, Limit::Data] {
            limit.check(needed)?;
        }
    }
    Ok(())
}
