//! Gather buffers: how many a rank has, how large they are, and which one each gathered copy lies in.
//!
//! A rank that may hold c copies has a buffer for each of its c largest units. Any c different units find a place in
//! them, the copies of different units can never exceed the bytes of the c largest, and nothing is ever moved or
//! allocated during a step: a copy stays in its buffer from `UNSHARD` to `RESHARD`. So a huge unit beside small ones
//! (a tied embedding of 50k tokens beside transformer layers) costs one huge buffer, not c of them.
//!
//! Which buffer a copy takes is a function of the row, so it is not written in programs. Lowering, the checker and
//! the executor use the same function.

use alloc::vec::Vec;

use crate::chain::Chain;
use crate::dataflow::reads_weights;
use crate::id::{PipelineRank, Unit};
use crate::instruction::Instruction;
use crate::options::Weights;

/// Bytes of the buffers that a rank may have, descending.
pub(crate) fn allowed(chain: &Chain, rank: PipelineRank, weights: &Weights) -> Vec<u64> {
    allowed_for(chain, rank, chain.units_on(rank), weights)
}

/// The same if of its units the rank gathers no others than these.
pub(crate) fn allowed_for(
    chain: &Chain,
    rank: PipelineRank,
    units: impl Iterator<Item = Unit>,
    weights: &Weights,
) -> Vec<u64> {
    let gathered = units.map(|unit| chain.facts(unit)).filter(|facts| facts.is_gathered());
    let unit_bytes: Vec<u64> = gathered.map(|facts| facts.num_bytes).collect();
    let max_copies = weights.max_copies(rank, unit_bytes.len());
    gather_buffer_bytes(unit_bytes, max_copies)
}

/// Bytes of the buffers, descending, that a rank may have for its gathered copies if it gathers units of `unit_bytes` and holds
/// at most `max_copies` of them. A program may need fewer or smaller ones, see [`crate::CheckedProgram::gather_buffers`],
/// never more.
pub fn gather_buffer_bytes(mut unit_bytes: Vec<u64>, max_copies: usize) -> Vec<u64> {
    unit_bytes.sort_unstable_by(|a, b| b.cmp(a));
    unit_bytes.truncate(max_copies);
    round_up(&mut unit_bytes);
    unit_bytes
}

/// Makes buffers of nearly equal size equal, so that any of them holds any of their units: with prefetch, units take two
/// buffers in turn, and the largest unit would else often find only a slightly smaller one free and be gathered late.
/// A buffer grows to less than twice its size at most, so a huge unit still has its huge buffer alone.
pub(crate) fn round_up(bytes: &mut [u64]) {
    for place in 1..bytes.len() {
        let larger = bytes[place - 1];
        if larger / 2 < bytes[place] {
            bytes[place] = larger;
        }
    }
}

/// Which of the free buffers that are large enough a copy takes.
enum Choice {
    /// The smallest: large ones stay free for large units.
    Smallest,
    /// The one whose last unit is read again the latest: where a plan that evicts what is used farthest in the future
    /// puts it. Of those never read again, the smallest.
    FarthestLastUnit(NextReads),
}

/// The gather buffers of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GatherBuffers {
    /// Descending; each as large as the largest copy that ever lies in it.
    bytes: Vec<u64>,
    /// The gathers of the row with their buffers, ascending.
    gathers: Vec<(u32, u32)>,
}

/// A gather that finds no free buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoBuffer {
    /// Its position in the row.
    pub(crate) step: usize,
    /// Its unit.
    pub(crate) unit: Unit,
    /// Bytes of the copies held beside it.
    pub(crate) held_bytes: u64,
}

impl GatherBuffers {
    /// Finds a buffer for every gather of a row that reshards only what it holds.
    ///
    /// The smallest that fits is tried first; if that leaves a gather without a buffer, the one whose last unit is
    /// read again the latest. Which copies may be held together is hard to answer in general (interval colouring with
    /// nested machines), so a row may be rejected although some other choice of buffers would serve it; lowering
    /// makes no such row.
    ///
    /// # Errors
    /// [`NoBuffer`] for the first gather without a buffer, if the smallest is chosen.
    pub(crate) fn assign(chain: &Chain, row: &[Instruction], allowed: &[u64]) -> Result<Self, NoBuffer> {
        let smallest = Walk::new(chain, allowed, Choice::Smallest).row(row);
        smallest.or_else(|error| {
            let farthest = Choice::FarthestLastUnit(NextReads::of_row(chain, row));
            Walk::new(chain, allowed, farthest).row(row).map_err(|_| error)
        })
    }

    /// Bytes of each buffer, descending.
    pub(crate) fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// The gathers of the row in its order: where each stands, and the buffer that it fills.
    pub(crate) fn gathers(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.gathers.iter().map(|&(step, buffer)| (step as usize, buffer as usize))
    }

    /// The buffer that the gather at this position fills.
    ///
    /// # Panics
    /// If there is no gather.
    pub(crate) fn buffer(&self, step: usize) -> usize {
        let at = self.gathers.binary_search_by_key(&step, |&(gather, _)| gather as usize);
        self.gathers[at.expect("an UNSHARD stands at this position")].1 as usize
    }
}

/// A buffer during the walk along a row.
#[derive(Clone, Copy)]
struct Buffer {
    bytes: u64,
    is_free: bool,
    last_unit: Option<Unit>,
    /// The largest copy so far.
    used_bytes: u64,
}

struct Walk<'a> {
    chain: &'a Chain,
    choice: Choice,
    buffers: Vec<Buffer>,
    /// The copies held, oldest first: unit and buffer.
    held: Vec<(Unit, usize)>,
    gathers: Vec<(u32, u32)>,
}

impl<'a> Walk<'a> {
    fn new(chain: &'a Chain, allowed: &[u64], choice: Choice) -> Self {
        let buffer = |&bytes: &u64| Buffer { bytes, is_free: true, last_unit: None, used_bytes: 0 };
        let buffers = allowed.iter().map(buffer).collect();
        Self { chain, choice, buffers, held: Vec::new(), gathers: Vec::new() }
    }

    fn row(mut self, row: &[Instruction]) -> Result<GatherBuffers, NoBuffer> {
        for (step, &instruction) in row.iter().enumerate() {
            match instruction {
                Instruction::Unshard { unit } => self.gather(step, unit)?,
                Instruction::Reshard { unit } => self.free(unit),
                _ => {
                    if let Choice::FarthestLastUnit(reads) = &mut self.choice {
                        reads.pass(self.chain, step, instruction);
                    }
                }
            }
        }
        Ok(self.trimmed())
    }

    fn gather(&mut self, step: usize, unit: Unit) -> Result<(), NoBuffer> {
        let num_bytes = self.chain.facts(unit).num_bytes;
        let mut free = self.buffers.iter().enumerate().filter(|(_, of)| of.is_free && of.bytes >= num_bytes);
        // Buffers descend, so the last of equal ones is the smallest.
        let chosen = match &self.choice {
            Choice::Smallest => free.next_back(),
            Choice::FarthestLastUnit(reads) => {
                free.max_by_key(|(_, of)| of.last_unit.map_or(usize::MAX, |unit| reads.next(unit)))
            }
        };
        let Some((chosen, _)) = chosen else {
            let bytes = |&(unit, _): &(Unit, usize)| self.chain.facts(unit).num_bytes;
            let held_bytes = self.held.iter().map(bytes).fold(0, u64::saturating_add);
            return Err(NoBuffer { step, unit, held_bytes });
        };
        let buffer = &mut self.buffers[chosen];
        buffer.is_free = false;
        buffer.last_unit = Some(unit);
        buffer.used_bytes = buffer.used_bytes.max(num_bytes);
        self.held.push((unit, chosen));
        self.gathers.push((step as u32, chosen as u32));
        Ok(())
    }

    fn free(&mut self, unit: Unit) {
        let Some(oldest) = self.held.iter().position(|&(held, _)| held == unit) else { return };
        let (_, buffer) = self.held.remove(oldest);
        self.buffers[buffer].is_free = true;
    }

    /// The buffers as the row needs them, largest first, without those that are never filled.
    fn trimmed(self) -> GatherBuffers {
        let mut used: Vec<usize> = (0..self.buffers.len()).collect();
        used.retain(|&buffer| self.buffers[buffer].last_unit.is_some());
        used.sort_by(|&a, &b| self.buffers[b].used_bytes.cmp(&self.buffers[a].used_bytes));
        let mut new_numbers = vec![0; self.buffers.len()];
        for (number, &buffer) in used.iter().enumerate() {
            new_numbers[buffer] = number as u32;
        }
        let bytes = used.iter().map(|&buffer| self.buffers[buffer].used_bytes).collect();
        let renumbered =
            self.gathers.into_iter().map(|(step, buffer)| (step, new_numbers[buffer as usize])).collect();
        GatherBuffers { bytes, gathers: renumbered }
    }
}

/// Where each unit's weights are read next.
struct NextReads {
    /// `[unit]`: `usize::MAX` if never again.
    next: Vec<usize>,
    /// `[step]`: where the unit that is read there is read next.
    after: Vec<usize>,
}

impl NextReads {
    fn of_row(chain: &Chain, row: &[Instruction]) -> Self {
        let mut next = vec![usize::MAX; chain.num_units()];
        let mut after = vec![usize::MAX; row.len()];
        for (step, &instruction) in row.iter().enumerate().rev() {
            if let Some(unit) = reads_weights(chain, instruction) {
                after[step] = core::mem::replace(&mut next[unit.index()], step);
            }
        }
        Self { next, after }
    }

    fn next(&self, unit: Unit) -> usize {
        self.next[unit.index()]
    }

    fn pass(&mut self, chain: &Chain, step: usize, instruction: Instruction) {
        if let Some(unit) = reads_weights(chain, instruction) {
            self.next[unit.index()] = self.after[step];
        }
    }
}
