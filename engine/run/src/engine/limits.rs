//! Whether the limits that the system sets to this process leave what a plan needs, before anything is started.
//!
//! The memory that the ranks need is compared with what the host has beside this (`host_memory`). Here it is address space: what is mapped
//! counts from the beginning, used or not, and with it the stacks of threads. The program has one heap for all threads where its address
//! space is limited, since each further one would reserve 64 MiB.

use pipezero_config::{BackendName, DeviceName};
use pipezero_files::host::{Limit, LimitError};
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

/// The needs of this process for everything that the system limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limited {
    threads: u64,
    open_files: u64,
    mapped_bytes: u64,
}

impl Limited {
    /// The needs of a process of a plan, without the memory that it holds already.
    pub(super) fn of(plan: &Plan, needs: &ProcessNeeds, held: Held) -> Self {
        let threads = (needs.ranks * threads::of_rank(plan)) as u64 + OTHER_THREADS;
        let connections = match plan.run().comm.backend {
            BackendName::Threads => 0,
            BackendName::Mpi | BackendName::Nccl => (plan.grid().world_size() - needs.ranks) as u64,
        };
        // CUDA reserves more address space than there is memory.
        let mapped_bytes = if plan.run().device == DeviceName::Cpu {
            let needed = needs.bytes.saturating_sub(needs.held_bytes(held));
            needed.saturating_add(threads * STACK_BYTES).saturating_add(MARGIN_BYTES)
        } else {
            0
        };
        Self { threads, open_files: OPEN_FILES + connections, mapped_bytes }
    }

    /// The needs of both at once.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            threads: self.threads.saturating_add(other.threads),
            open_files: self.open_files.saturating_add(other.open_files),
            mapped_bytes: self.mapped_bytes.saturating_add(other.mapped_bytes),
        }
    }

    /// Refuses needs of which a limit leaves less.
    ///
    /// # Errors
    /// [`LimitError`] of the first such limit.
    pub(super) fn check(self) -> Result<(), LimitError> {
        self.each(|limit, needed| limit.check(needed))
    }

    /// Calls `check` with each limit and the need for it, until it fails.
    fn each<E>(self, mut check: impl FnMut(Limit, u64) -> Result<(), E>) -> Result<(), E> {
        let Self { threads, open_files, mapped_bytes } = self;
        check(Limit::Threads, threads)?;
        check(Limit::GroupThreads, threads)?;
        check(Limit::OpenFiles, open_files)?;
        if mapped_bytes > 0 {
            check(Limit::AddressSpace, mapped_bytes)?;
            check(Limit::Data, mapped_bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two engines that each have enough of every limit have too little together, of each limit in turn.
    #[test]
    fn the_needs_of_engines_add_up_for_every_limit() {
        let student = Limited { threads: 10, open_files: 20, mapped_bytes: 300 };
        let teacher = Limited { threads: 4, open_files: 16, mapped_bytes: 50 };
        let both = student.and(teacher);
        assert_eq!(both, Limited { threads: 14, open_files: 36, mapped_bytes: 350 });
        assert_eq!(both, teacher.and(student));
        let limits = [
            (Limit::Threads, 14),
            (Limit::GroupThreads, 14),
            (Limit::OpenFiles, 36),
            (Limit::AddressSpace, 350),
            (Limit::Data, 350),
        ];
        for (limited, needed) in limits {
            let check = |of: Limited, max: u64| {
                of.each(|limit, needed| if limit == limited && needed > max { Err(limit) } else { Ok(()) })
            };
            assert_eq!(check(both, needed), Ok(()));
            assert_eq!(check(both, needed - 1), Err(limited));
            assert_eq!([student, teacher].map(|alone| check(alone, needed - 1)), [Ok(()), Ok(())]);
        }
        // On a GPU no address space is compared.
        let on_gpu = Limited { mapped_bytes: 0, ..both };
        let compared = |limit, _| if limit == Limit::AddressSpace { Err(limit) } else { Ok(()) };
        assert_eq!(on_gpu.each(compared), Ok(()));
    }
}
