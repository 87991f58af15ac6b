//! The host memory that a process of a run needs: the buffers of its ranks, which the plan counts to the byte, and all else, a row for each cause.
//!
//! The figures of the other rows are upper bounds that follow from what causes them; `benches/memory/limits.py` holds them against the smallest limits
//! under which runs live. Pages of the program's file and of texts are not counted: the system drops them when a process needs memory.

use pipezero_config::{BackendName, DeviceName};
use pipezero_plan::Plan;
use serde::Serialize;

use crate::data::{TextNeeds, text_needs};
use crate::executor::scratch_bytes;

const KIB: u64 = 1 << 10;

/// Pages that the program has written to before a rank exists: tables that the loader relocates, the run file, the plan and its programs, and what
/// counting the text has left with the allocator; with what the kernel keeps for a process (its page tables, its main thread's stacks, names of files).
const PROGRAM_BYTES: u64 = 5120 * KIB;

/// A thread: the pages that it touches of its stack (some 100 KiB in the deepest kernels), the kernel's stack, and the beginning of its heap, which
/// the allocator makes readable in steps of 132 KiB.
const THREAD_BYTES: u64 = 256 * KIB;

/// The buffers into which a thread that computes repacks operands of products: as much as the second-level cache of its core holds (512 KiB to 2 MiB on CPUs of today),
/// beside blocks that are given back.
const PRODUCTS_BYTES: u64 = 2048 * KIB;

/// A page of 4096 bytes has an entry of 8 in a page table.
const BYTES_PER_TABLE_BYTE: u64 = 512;

/// Rows that others ask for.
const TEXT: &str = "text";
const READING_THE_TEXT: &str = "reading the text";

/// The host memory that a process of a run needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessNeeds {
    /// Ranks of the process.
    pub ranks: usize,
    /// In all.
    pub bytes: u64,
    /// By cause.
    pub rows: Vec<ProcessRow>,
}

/// The memory that one cause takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// The cause.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: u64,
}

impl ProcessNeeds {
    /// The needs of the process with these ranks.
    pub fn of(plan: &Plan, ranks: &[usize]) -> Self {
        let is_on_host = plan.run().device == DeviceName::Cpu;
        let buffers = if is_on_host { plan.needed_bytes(ranks.iter().copied()) } else { 0 };
        let num_ranks = ranks.len() as u64;
        let num_computing = num_ranks.saturating_mul(plan.run().threads as u64);
        let has_rank_0 = u64::from(ranks.contains(&0));
        let pieces = (num_ranks + has_rank_0).saturating_mul(scratch_bytes(plan));
        let TextNeeds { held_bytes, reading_bytes } = text_of(plan);
        let mut rows = vec![
            ("buffers of ranks", buffers),
            ("program", PROGRAM_BYTES),
            ("threads", (num_ranks + num_computing).saturating_mul(THREAD_BYTES)),
            ("products", if is_on_host { num_computing.saturating_mul(PRODUCTS_BYTES) } else { 0 }),
            ("pieces of parameters", pieces),
            ("page tables", buffers / BYTES_PER_TABLE_BYTE),
            (TEXT, held_bytes),
        ];
        // The text is read before ranks allocate.
        rows.push((READING_THE_TEXT, reading_bytes.saturating_sub(buffers.saturating_add(pieces))));
        let rows: Vec<ProcessRow> =
            rows.into_iter().map(|(name, bytes)| ProcessRow { name, bytes }).collect();
        let bytes = rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.bytes));
        Self { ranks: ranks.len(), bytes, rows }
    }

    /// The needs of the process of a run that needs most: the one with all ranks, if they are threads; else the one with the fullest rank.
    pub fn of_fullest(plan: &Plan) -> Self {
        let all: Vec<usize> = (0..plan.grid().world_size()).collect();
        match plan.run().comm.backend {
            BackendName::Threads => Self::of(plan, &all),
            BackendName::Mpi | BackendName::Nccl => {
                let fullest = all.iter().max_by_key(|&&rank| plan.needed_bytes([rank]));
                Self::of(plan, &[*fullest.expect("a grid has a rank")])
            }
        }
    }

    /// Bytes that it needs beside the buffers of its ranks.
    pub fn beside_bytes(&self) -> u64 {
        self.rows[1..].iter().fold(0, |sum: u64, row| sum.saturating_add(row.bytes))
    }

    /// Bytes that it needs from now on, with what it holds: reading the text needs none any more once it has been read.
    pub(in crate::engine) fn bytes_from_now(&self, held: Held) -> u64 {
        match held {
            Held::Program => self.bytes,
            Held::ProgramAndText => self.bytes.saturating_sub(self.bytes_of(READING_THE_TEXT)),
        }
    }

    /// Bytes of it that the process holds already when it asks whether there is enough.
    pub(in crate::engine) fn held_bytes(&self, held: Held) -> u64 {
        match held {
            Held::Program => PROGRAM_BYTES,
            Held::ProgramAndText => PROGRAM_BYTES.saturating_add(self.bytes_of(TEXT)),
        }
    }

    fn bytes_of(&self, name: &str) -> u64 {
        self.rows.iter().filter(|row| row.name == name).map(|row| row.bytes).sum()
    }
}

/// The part of its needs that a process holds already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Held {
    /// The program itself.
    Program,
    /// And its text has been read.
    ProgramAndText,
}

fn text_of(plan: &Plan) -> TextNeeds {
    if plan.run().model.learns() { text_needs(&plan.run().data) } else { TextNeeds::default() }
}
