//! The memory of the process, as the system sees it, beside what was planned.

use pipezero_comm::world::World;
use pipezero_files::host;
use pipezero_plan::Plan;
use serde::Serialize;

/// Memory of this process, measured from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessMemory {
    /// What the ranks of this process were planned to hold together, with those of a teacher and the logits of its batches.
    pub planned_bytes: u64,
    /// What of it is a teacher's, and the logits of a batch; left out where there is none.
    #[serde(skip_serializing_if = "is_zero")]
    pub teacher_bytes: u64,
    /// Resident memory that belongs to no file, at the highest moment that was measured (the end of a step, of an evaluation and of
    /// saving), less what it was before the ranks allocated.
    pub grown_bytes: u64,
}

/// Memory of this process for a teacher.
#[derive(Clone, Copy, Debug)]
pub(super) struct TeacherMemory {
    /// What its ranks of this process were planned to hold, and the logits of a batch.
    pub(super) planned_bytes: u64,
    /// Resident memory before any of that was allocated, where the system tells it.
    pub(super) before_bytes: Option<u64>,
}

/// Measures the process's memory from time to time.
pub(super) struct MemoryWatch {
    planned_bytes: u64,
    teacher_bytes: u64,
    before_bytes: Option<u64>,
    highest_bytes: u64,
}

impl MemoryWatch {
    /// Before the ranks of this process allocate; those of a teacher have done so already.
    pub(super) fn start(plan: &Plan, world: &dyn World, teacher: Option<TeacherMemory>) -> Self {
        let own_bytes = plan.needed_bytes(world.local_ranks());
        let teacher_bytes = teacher.map_or(0, |of| of.planned_bytes);
        let before_bytes = teacher.map_or_else(host::resident_bytes, |of| of.before_bytes);
        let planned_bytes = own_bytes.saturating_add(teacher_bytes);
        Self { planned_bytes, teacher_bytes, before_bytes, highest_bytes: 0 }
    }

    /// Measures now.
    pub(super) fn measure(&mut self) {
        self.highest_bytes = self.highest_bytes.max(host::resident_bytes().unwrap_or(0));
    }

    /// What it has seen; `None` where the system does not tell.
    pub(super) fn memory(&self) -> Option<ProcessMemory> {
        let grown_bytes = self.highest_bytes.saturating_sub(self.before_bytes?);
        let Self { planned_bytes, teacher_bytes, .. } = *self;
        Some(ProcessMemory { planned_bytes, teacher_bytes, grown_bytes })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}
