//! Pictures of a step: who does what when, and what memory that takes.

use std::error::Error;
use std::path::PathBuf;

use pipezero::plan::what_if::memory_curves;
use pipezero::schedule::render::{Gantt, Shown, TimeScale, svg};

use crate::case::Placed;
use crate::page;
use crate::tables::{grid_name, placed_name};
use crate::variant::{self, Variant};
use crate::{case, outcome};

/// A picture and where it is kept.
pub(crate) struct Picture {
    pub(crate) path: PathBuf,
    pub(crate) svg: String,
}

/// Of the larger grid, whose links within nodes leave something to hide.
const DATA: usize = case::DATA_DEGREES[1];
const PLACED: Placed = Placed::NodesOfEight;

pub(crate) fn all() -> Result<Vec<Picture>, Box<dyn Error>> {
    let named = [
        ("zero-1", variant::ZERO_1),
        ("zero-2-refused", variant::ZERO_2),
        ("zero-3-strict", variant::STRICT),
        ("zero-3-prefetch", variant::PREFETCH),
    ];
    named.into_iter().map(|(name, variant)| picture(name, &variant)).collect()
}

fn picture(name: &str, variant: &Variant) -> Result<Picture, Box<dyn Error>> {
    let plan = outcome::plan(variant, DATA)?;
    let step = outcome::step(&plan, PLACED)?;
    let program = plan.training();
    let memory = memory_curves(&plan, &step)?;
    let title = format!("{}: {}, {}, simulated", variant.name, grid_name(DATA), placed_name(PLACED));
    let gantt = Gantt {
        title: &title,
        program,
        timeline: &step.timeline,
        memory: &memory,
        scale: TimeScale::nanoseconds(step.makespan_ns),
        shown: Shown::WholeStep,
    };
    Ok(Picture { path: page::folder().join(format!("pictures/study-{name}.svg")), svg: svg(&gantt) })
}
