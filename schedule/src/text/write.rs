//! Programs to text.

use core::fmt;

use super::VERSION;
use crate::options::{Reduction, Residency, Weights};
use crate::program::{Program, Purpose};
use crate::unit_facts::{Tying, UnitFacts};

/// The text form: see [`crate::text`].
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pipezero-program {VERSION}")?;
        f.write_str("placement")?;
        self.chain.placement().ranks_by_stage().iter().try_for_each(|rank| write!(f, " {rank}"))?;
        writeln!(f, "\nmicro-batches {}", self.num_micro_batches)?;
        writeln!(f, "purpose {}", purpose_word(self.purpose))?;
        match self.options.weights {
            Weights::Replicated => writeln!(f, "weights replicated")?,
            Weights::Sharded { residency: Residency::Strict, prefetch_units } => {
                writeln!(f, "weights sharded strict prefetch {prefetch_units}")?;
            }
            Weights::Sharded { residency: Residency::Units(units), prefetch_units } => {
                writeln!(f, "weights sharded units {units} prefetch {prefetch_units}")?;
            }
            Weights::Sharded { residency: Residency::All, prefetch_units } => {
                writeln!(f, "weights sharded all prefetch {prefetch_units}")?;
            }
        }
        writeln!(f, "reduction {}", reduction_word(self.options.reduction))?;
        writeln!(f, "gather-after-step {}", if self.options.gather_after_step { "yes" } else { "no" })?;
        writeln!(f, "units {}", self.chain.num_units())?;
        for (unit, facts) in self.chain.units().iter().enumerate() {
            let UnitFacts { stage, num_bytes, .. } = facts;
            write!(
                f,
                "  u{unit} {stage} bytes {num_bytes} reads {} {}",
                reads_word(facts),
                tying_word(facts.tying)
            )?;
            let words = [(facts.is_persistent, " persistent"), (facts.recomputes, " recomputes")];
            words.iter().filter(|(applies, _)| *applies).try_for_each(|(_, word)| f.write_str(word))?;
            writeln!(f)?;
        }
        for (rank, row) in self.rows.iter().enumerate() {
            writeln!(f, "row p{rank}")?;
            row.iter().try_for_each(|instruction| writeln!(f, "  {instruction}"))?;
        }
        writeln!(f, "end")
    }
}

fn purpose_word(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Training => "training",
        Purpose::Evaluation => "evaluation",
    }
}

fn reduction_word(reduction: Reduction) -> &'static str {
    match reduction {
        Reduction::AllReduceLast => "all-reduce-last",
        Reduction::ScatterLast => "scatter-last",
        Reduction::ScatterEvery => "scatter-every",
    }
}

fn reads_word(facts: &UnitFacts) -> &'static str {
    match (facts.forward_reads_weights, facts.backward_reads_weights) {
        (true, true) => "FB",
        (true, false) => "F",
        (false, true) => "B",
        (false, false) => "none",
    }
}

fn tying_word(tying: Tying) -> &'static str {
    match tying {
        Tying::Untied => "untied",
        Tying::Embedding => "embedding",
        Tying::Head => "head",
    }
}
