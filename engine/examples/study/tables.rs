//! The tables of the page, one for each question.

use std::error::Error;

use pipezero::plan::costs::Step;
use pipezero::plan::{Plan, RankMemory};
use pipezero::schedule::simulate::IdleCause;

use crate::case::{DATA_DEGREES, DEVICE_BYTES, PIPELINE, Placed};
use crate::markdown::{Table, gb, gib, percent};
use crate::outcome::{self, Needs, Timing};
use crate::schedules;
use crate::sweep::sweep;
use crate::tensor_parallel::tensor_parallel;
use crate::threshold::{Phase, Rates};
use crate::variant::{self, Variant};

/// Everything that is planned and simulated for a way to train the case on one grid.
pub(crate) struct Row {
    pub(crate) variant: Variant,
    pub(crate) plan: Plan,
    pub(crate) needs: Needs,
    /// By [`Placed::ALL`].
    pub(crate) steps: Vec<Step>,
    pub(crate) timings: Vec<Timing>,
}

/// The rows of one grid.
pub(crate) struct GridRows {
    pub(crate) data: usize,
    pub(crate) rows: Vec<Row>,
}

impl GridRows {
    pub(crate) fn new(data: usize) -> Result<Self, Box<dyn Error>> {
        let rows = variant::ALL.into_iter().map(|variant| Row::new(variant, data));
        Ok(Self { data, rows: rows.collect::<Result<_, _>>()? })
    }

    /// The row of a variant.
    pub(crate) fn row(&self, name: &str) -> &Row {
        let row = self.rows.iter().find(|row| row.variant.name == name);
        row.expect("every variant has a row")
    }
}

impl Row {
    fn new(variant: Variant, data: usize) -> Result<Self, Box<dyn Error>> {
        let plan = outcome::plan(&variant, data)?;
        let steps = Placed::ALL.map(|placed| outcome::step(&plan, placed));
        let steps = steps.into_iter().collect::<Result<Vec<_>, _>>()?;
        let timings = steps.iter().map(outcome::timing).collect();
        Ok(Self { variant, needs: outcome::needs(&plan), plan, steps, timings })
    }
}

/// A table with what the page has to be searched for.
pub(crate) struct Titled {
    pub(crate) title: String,
    pub(crate) table: Table,
}

/// All tables, in the order of the page.
pub(crate) fn all(grids: &[GridRows]) -> Result<Vec<Titled>, Box<dyn Error>> {
    let titled = |title: String, table| Titled { title, table };
    let mut tables = vec![titled("Step time and memory".to_owned(), summary(grids))];
    for grid in grids {
        tables.push(titled(format!("Memory, {}", grid_name(grid.data)), memory(grid)));
    }
    tables.push(titled("Traffic".to_owned(), traffic(grids)));
    for grid in grids {
        for (index, placed) in Placed::ALL.into_iter().enumerate() {
            let title = format!("Bubbles, {}, {}", grid_name(grid.data), placed_name(placed));
            tables.push(titled(title, bubbles(grid, index)));
        }
    }
    tables.push(titled("Thresholds".to_owned(), thresholds()?));
    tables.push(titled("Longer micro-batches".to_owned(), sweep()?));
    tables.push(titled("Schedules".to_owned(), schedules::table()?));
    tables.push(titled("TP x PP".to_owned(), tensor_parallel_lines(grids)));
    Ok(tables)
}

pub(crate) fn grid_name(data: usize) -> String {
    format!("{data} DP x {PIPELINE} PP")
}

pub(crate) fn placed_name(placed: Placed) -> &'static str {
    match placed {
        Placed::NodesOfEight => "nodes of 8",
        Placed::Apart => "everything far",
    }
}

/// Step times side by side, and whether the fullest rank fits.
fn summary(grids: &[GridRows]) -> Table {
    let mut table = Table::new(
        " | 2 DP x 4 PP: peak, GiB | nodes of 8, s | far, s | 8 DP x 4 PP: peak, GiB | nodes of 8, s | \
         far, s",
    );
    let of_grid = |row: &Row| {
        let peak = row.needs.memory.peak;
        let peak = if peak > DEVICE_BYTES { format!("**{}**", gib(peak)) } else { gib(peak) };
        let [near, far] = [0, 1].map(|placed: usize| format!("{:.3}", row.timings[placed].step_s));
        [peak, near, far]
    };
    for (two, eight) in grids[0].rows.iter().zip(&grids[1].rows) {
        let ([a, b, c], [d, e, f]) = (of_grid(two), of_grid(eight));
        table.push([two.variant.name.to_owned(), a, b, c, d, e, f]);
    }
    table
}

/// What the fullest rank holds.
fn memory(grid: &GridRows) -> Table {
    let mut table = Table::new(
        "GiB | parameters | gathered | gradients | optimizer | activations | messages | peak | fits \
         80 GiB",
    );
    for row in &grid.rows {
        let memory = row.needs.memory;
        let fits = if memory.peak <= DEVICE_BYTES { "yes" } else { "**no**" };
        let RankMemory {
            parameters, gathered, gradients, optimizer, activations, communication, peak, ..
        } = memory;
        let figures = [parameters, gathered, gradients, optimizer, activations, communication, peak];
        let cells = [row.variant.name.to_owned()].into_iter().chain(figures.map(gib));
        table.push(cells.chain([fits.to_owned()]));
    }
    table
}

/// What the busiest rank sends in a step.
fn traffic(grids: &[GridRows]) -> Table {
    let mut table = Table::new(
        "GB sent | gathers | reductions | 2 DP x 4 PP: gathered | reduced | to stages | 8 DP x 4 PP: \
         gathered | reduced | to stages",
    );
    for (two, eight) in grids[0].rows.iter().zip(&grids[1].rows) {
        let (a, b) = (two.needs.sent, eight.needs.sent);
        let counts = [a.all_gather.count, a.reduce_scatter.count].map(|count| count.to_string());
        let sent =
            [a, b].map(|sent| [sent.all_gather.bytes, sent.reduce_scatter.bytes, sent.send.bytes].map(gb));
        let cells = [two.variant.name.to_owned()].into_iter().chain(counts);
        table.push(cells.chain(sent.into_iter().flatten()));
    }
    table
}

/// Where a step's time goes.
fn bubbles(grid: &GridRows, placed: usize) -> Table {
    let causes = IdleCause::ALL.map(IdleCause::name).join(" | ");
    let heading = format!("% of the step | step, s | tokens/s and GPU | computes | {causes} | exposed");
    let mut table = Table::new(&heading);
    let num_ranks = (PIPELINE * grid.data) as f64;
    for row in &grid.rows {
        let timing = row.timings[placed];
        let [step_s, tokens_per_s] =
            [format!("{:.3}", timing.step_s), format!("{:.0}", timing.tokens_per_s / num_ranks)];
        let shares = [&[timing.busy][..], &timing.idle, &[timing.exposed()]].concat();
        let shares = shares.into_iter().map(percent);
        table.push([row.variant.name.to_owned(), step_s, tokens_per_s].into_iter().chain(shares));
    }
    table
}

/// Tokens of a micro-batch from which on gathers vanish, over link rates that are achieved.
fn thresholds() -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new(
        "link, GB/s | d | forward: formula | simulated | backward: formula | simulated | 1F1B: \
         simulated | 1F1B, recomputed: simulated",
    );
    let gflops_per_s = (Placed::Apart.device().half_flops_per_s / 1e9).round() as u64;
    // Near and far links of an H100, one between them and one below.
    for gb_per_s in [360, 100, 45, 20] {
        for data_degree in DATA_DEGREES {
            let rates = Rates { data_degree: data_degree as u64, gflops_per_s, gb_per_s };
            let formula = rates.formula();
            table.push([
                gb_per_s.to_string(),
                data_degree.to_string(),
                format!("{formula:.1}"),
                rates.simulated(Phase::Forward)?.to_string(),
                format!("{:.1}", 1.5 * formula),
                rates.simulated(Phase::Backward)?.to_string(),
                rates.simulated(Phase::Mixed)?.to_string(),
                rates.simulated(Phase::Recomputed)?.to_string(),
            ]);
        }
    }
    Ok(table)
}

/// What tensor parallelism would cost by its formula.
fn tensor_parallel_lines(grids: &[GridRows]) -> Table {
    let mut table = Table::new(
        "by formula | GPUs | all-reduced, GB sent | weights, gradients, optimizer, GiB | nodes of 8: \
         step, s | exposed, % | far: step, s | exposed, %",
    );
    for grid in grids {
        let zero_1 = grid.row(variant::ZERO_1.name);
        let of = |index: usize| tensor_parallel(&zero_1.plan, &zero_1.steps[index], Placed::ALL[index]);
        let (near, far) = (of(0), of(1));
        table.push([
            format!("TP {} x PP {PIPELINE}", grid.data),
            (PIPELINE * grid.data).to_string(),
            gb(near.sent_bytes as u64),
            gib(near.state_bytes as u64),
            format!("{:.3}", near.step_s),
            percent(near.exposed),
            format!("{:.3}", far.step_s),
            percent(far.exposed),
        ]);
    }
    table
}
