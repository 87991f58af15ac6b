//! Programs to text.

use core::fmt;

use super::VERSION;
use super::words::{PURPOSES, READERS, REDUCTIONS, TYINGS, YES_OR_NO, word};
use crate::options::{Residency, UnreducedGradients, Weights};
use crate::program::Program;
use crate::unit_facts::{UnitFacts, UnitSharding};

/// The text form: see [`crate::text`].
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pipezero-program {VERSION}")?;
        f.write_str("placement")?;
        self.chain.placement().ranks_by_stage().iter().try_for_each(|rank| write!(f, " {rank}"))?;
        writeln!(f, "\nmicro-batches {}", self.num_micro_batches)?;
        writeln!(f, "purpose {}", word(PURPOSES, self.purpose))?;
        match &self.options.weights {
            Weights::Replicated => writeln!(f, "weights replicated")?,
            Weights::Sharded { residency, prefetch_units } => {
                match residency {
                    Residency::Strict => write!(f, "weights sharded strict")?,
                    Residency::Units(units) => write!(f, "weights sharded units {units}")?,
                    Residency::PerRank(units) => {
                        f.write_str("weights sharded units-per-rank")?;
                        units.iter().try_for_each(|units| write!(f, " {units}"))?;
                    }
                    Residency::All => write!(f, "weights sharded all")?,
                }
                writeln!(f, " prefetch {prefetch_units}")?;
            }
        }
        let in_turn = if self.options.unreduced == UnreducedGradients::One { " in-turn" } else { "" };
        writeln!(f, "reduction {}{in_turn}", word(REDUCTIONS, self.options.reduction))?;
        writeln!(f, "gather-after-step {}", word(YES_OR_NO, self.options.gather_after_step))?;
        writeln!(f, "units {}", self.chain.num_units())?;
        for (unit, facts) in self.chain.units().iter().enumerate() {
            let UnitFacts { stage, num_bytes, .. } = facts;
            let reads = word(READERS, (facts.forward_reads_weights, facts.backward_reads_weights));
            write!(f, "  u{unit} {stage} bytes {num_bytes} reads {reads} {}", word(TYINGS, facts.tying))?;
            match facts.sharding {
                UnitSharding::Sharded => {}
                UnitSharding::Persistent => f.write_str(" persistent")?,
                UnitSharding::Whole => f.write_str(" whole")?,
                UnitSharding::Mixed { persistent_bytes, whole_bytes } => {
                    write!(f, " mixed persistent {persistent_bytes} whole {whole_bytes}")?;
                }
            }
            let marks = [(facts.recomputes, " recomputes"), (facts.is_frozen, " frozen")];
            marks.iter().filter(|(applies, _)| *applies).try_for_each(|(_, mark)| f.write_str(mark))?;
            if facts.frozen_bytes > 0 {
                write!(f, " frozen {}", facts.frozen_bytes)?;
            }
            writeln!(f)?;
        }
        for (rank, row) in self.rows.iter().enumerate() {
            writeln!(f, "row p{rank}")?;
            row.iter().try_for_each(|instruction| writeln!(f, "  {instruction}"))?;
        }
        writeln!(f, "end")
    }
}
