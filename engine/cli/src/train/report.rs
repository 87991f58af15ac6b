//! The tables that `train` prints at its end: losses, speed, and the memory and traffic of every rank.
//!
//! Neighbouring ranks with the same figures are one row, as the data ranks of a stage usually are: so the table of 64 ranks is
//! short, and a rank that differs is visible.

use pipezero_run::data::NgramCrossEntropy;
use pipezero_run::engine::MeasuredRank;
use pipezero_train::{DeviceMemory, ProcessMemory, Summary};

use crate::figures::{bytes, named_ranks};
use crate::table::Table;
use crate::terminal;

/// The final tables. A run that learns nothing has step times instead of losses.
pub(super) fn report(summary: &Summary, learns: bool, elapsed_s: f64, width: usize) -> String {
    format!(
        "\n{:width$}\n{:width$}\n{}{:width$}{}\n{:width$}",
        if learns { loss_table(summary) } else { step_table(summary) },
        speed_table(summary, learns, elapsed_s),
        summary.loss_scale.map_or_else(String::new, |scale| format!("{}\n", scale_table(summary, scale))),
        memory_table(summary),
        process(summary)
            .into_iter()
            .chain(devices(&summary.devices))
            .map(|text| format!("{}\n", terminal::wrapped(&text, width)))
            .collect::<String>(),
        traffic_table(summary),
    )
}

/// With less, threads' stacks and what the allocator keeps for itself would be most of the figure.
const TOLD_FROM_BYTES: u64 = 64 << 20;

/// What the system says of the process's memory.
fn process(summary: &Summary) -> Option<String> {
    let of_process = summary.process.filter(|process| process.planned_bytes >= TOLD_FROM_BYTES);
    let ProcessMemory { planned_bytes, teacher_bytes, grown_bytes } = of_process?;
    let of_teacher = match teacher_bytes {
        0 => String::new(),
        of_teacher => format!(", {} of them for its teacher's and the logits of a batch", bytes(of_teacher)),
    };
    Some(format!(
        "the process grew by {} (resident memory), and {} were planned for its ranks{of_teacher}",
        bytes(grown_bytes),
        bytes(planned_bytes)
    ))
}

/// Devices of which each has a line.
const DEVICES_MAX: usize = 4;

/// Of many devices, the one that has least left.
fn devices(all: &[DeviceMemory]) -> Vec<String> {
    let left_bytes = |memory: &&DeviceMemory| {
        memory.total_bytes.saturating_sub(memory.buffer_bytes).saturating_sub(memory.beside_bytes)
    };
    match all.iter().min_by_key(left_bytes) {
        Some(fullest) if all.len() > DEVICES_MAX => {
            vec![format!("the fullest of {} devices, {}", all.len(), device(fullest))]
        }
        _ => all.iter().map(device).collect(),
    }
}

/// What a device's driver says of its memory.
fn device(memory: &DeviceMemory) -> String {
    format!(
        "{} of {}: of its {}, the ranks' buffers have {}; {} more are in use (the driver's context, kernels, libraries, other processes)",
        memory.device,
        named_ranks(&memory.ranks),
        bytes(memory.total_bytes),
        bytes(memory.buffer_bytes),
        bytes(memory.beside_bytes)
    )
}

fn loss_table(summary: &Summary) -> Table {
    let nats = |loss: Option<f64>| loss.map_or_else(|| "-".to_owned(), |loss| format!("{loss:.4}"));
    let baseline = |pick: fn(&NgramCrossEntropy) -> f64| nats(summary.baselines.as_ref().map(pick));
    let mut table = Table::new(["nats per token", "training", "validation", "unigram", "bigram"]);
    let cells = [
        nats(summary.training_loss),
        nats(summary.validation_loss),
        baseline(|baselines| baselines.unigram),
        baseline(|baselines| baselines.bigram),
    ];
    table.row("loss", cells);
    // Terms of one loss: both lists name the same, but for a run that has no validation text.
    for (index, part) in summary.training_loss_parts.iter().enumerate() {
        let validation = summary.validation_loss_parts.get(index).and_then(|part| part.mean);
        table.row(part.name, [nats(part.mean), nats(validation), String::new(), String::new()]);
    }
    table
}

/// The times of all steps; the first is included, and often the longest.
fn step_table(summary: &Summary) -> Table {
    let mut table = Table::new(["milliseconds per step", "median", "shortest", "longest"]);
    let times = summary.step_s.as_ref().map(|times| [times.median, times.shortest, times.longest]);
    let cells = times.map(|times| times.map(|seconds| format!("{:.1}", 1000.0 * seconds)));
    table.row("step", cells.into_iter().flatten());
    table
}

/// Tokens per second are those of the steps alone; the seconds include evaluations and saving.
fn speed_table(summary: &Summary, learns: bool, elapsed_s: f64) -> Table {
    let share = |share: f64| format!("{:.1}%", 100.0 * share);
    let header = ["", "steps", "seconds in all"]
        .into_iter()
        .chain(learns.then_some("tokens/s in steps"))
        .chain(["bubble of the schedule", "ranks waited", "for gathers, reductions"]);
    let mut table = Table::new(header);
    let cells = [summary.steps.to_string(), format!("{elapsed_s:.1}")]
        .into_iter()
        .chain(learns.then(|| format!("{:.0}", summary.tokens_per_s)))
        .chain([summary.bubble_share, summary.idle_share, summary.exposed_comm_share].map(share));
    table.row("run", cells);
    table
}

/// The result of fp16's loss scaling.
fn scale_table(summary: &Summary, scale: f64) -> Table {
    let mut table = Table::new(["fp16", "skipped steps", "last loss scale"]);
    table.row("run", [summary.skipped_steps.to_string(), scale.to_string()]);
    table
}

fn memory_table(summary: &Summary) -> Table {
    let planned = |rank: &MeasuredRank| [summary.planned[rank.rank].memory, rank.memory];
    let rows = measured_beside_planned(first_rank(summary), &summary.ranks, planned);
    Table::of_memory("peak memory", rows)
}

fn traffic_table(summary: &Summary) -> Table {
    let rows = alike(first_rank(summary), &summary.ranks, |rank| rank.traffic);
    Table::of_traffic("sent per step", rows.into_iter().map(|(name, rank)| (name, rank.traffic)))
}

/// The first rank that this process knows.
fn first_rank(summary: &Summary) -> usize {
    summary.ranks.first().map_or(0, |rank| rank.rank)
}

/// Planned and measured figures in one row where they are equal, neighbouring ranks with the same ones together.
pub(crate) fn measured_beside_planned<T, F: Copy + PartialEq>(
    first: usize,
    of_ranks: &[T],
    figures: impl Fn(&T) -> [F; 2],
) -> Vec<(String, F)> {
    let rows = alike(first, of_ranks, &figures).into_iter().flat_map(|(name, of)| match figures(of) {
        [planned, measured] if planned == measured => vec![(format!("{name} measured = planned"), measured)],
        [planned, measured] => {
            vec![(format!("{name} measured"), measured), (format!("{:1$} planned", "", name.len()), planned)]
        }
    });
    rows.collect()
}

/// Groups of neighbouring ranks with the same figures, from rank `first`: the name of each, and its first rank.
fn alike<T, F: PartialEq>(mut first: usize, of_ranks: &[T], figures: impl Fn(&T) -> F) -> Vec<(String, &T)> {
    let groups = of_ranks.chunk_by(|one, next| figures(one) == figures(next)).map(|group| {
        let last = first + group.len() - 1;
        let name = if first == last { format!("rank {first}") } else { format!("ranks {first}-{last}") };
        first = last + 1;
        (name, &group[0])
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use pipezero_partition::RankMemory;
    use pipezero_plan::RankForecast;
    use pipezero_train::StepSeconds;

    fn memory(peak: u64) -> RankMemory {
        let rest =
            RankMemory { parameters: 1, gradients: 2, optimizer: 3, activations: 4, ..Default::default() };
        RankMemory { communication: 5, peak, ..rest }
    }

    /// The summary of a run with one rank for each pair of peaks, measured and planned.
    fn summary(peaks: &[(u64, u64)]) -> Summary {
        let measured = |(rank, &(peak, _)): (usize, &(u64, u64))| {
            let mut measured = MeasuredRank { rank, memory: memory(peak), traffic: Default::default() };
            measured.traffic.all_gather.count = 6;
            measured.traffic.all_gather.bytes = 1024 * (rank as u64 / 2 + 1);
            measured
        };
        let planned = |&(_, peak): &(u64, u64)| RankForecast { memory: memory(peak), ..Default::default() };
        Summary {
            steps: 3,
            training_loss: Some(1.0),
            tokens_per_s: 1234.5,
            step_s: StepSeconds::of(&[0.5, 0.25, 0.3]),
            bubble_share: 0.2,
            idle_share: 0.3,
            exposed_comm_share: 0.1,
            ranks: peaks.iter().enumerate().map(measured).collect(),
            planned: peaks.iter().map(planned).collect(),
            ..Summary::default()
        }
    }

    #[test]
    fn neighbouring_ranks_with_the_same_figures_are_one_row() {
        let summary = summary(&[(15, 15), (15, 15), (15, 15), (16, 15), (16, 15), (15, 15)]);
        expect![[r#"

            nats per token  training  validation  unigram  bigram
            loss              1.0000           -        -       -

                 steps  seconds in all  tokens/s in steps  bubble of the schedule  ranks waited  for gathers, reductions
            run      3             2.0               1234                   20.0%         30.0%                    10.0%

            peak memory                   parameters  gathered  gradients  optimizer  activations  communication  peak
            ranks 0-2 measured = planned         1 B       0 B        2 B        3 B          4 B            5 B  15 B
            ranks 3-4 measured                   1 B       0 B        2 B        3 B          4 B            5 B  16 B
                      planned                    1 B       0 B        2 B        3 B          4 B            5 B  15 B
            rank 5 measured = planned            1 B       0 B        2 B        3 B          4 B            5 B  15 B

            sent per step     all-gather  reduce-scatter  all-reduce      send
            ranks 0-1      6 x, 1.00 KiB        0 x, 0 B    0 x, 0 B  0 x, 0 B
            ranks 2-3      6 x, 2.00 KiB        0 x, 0 B    0 x, 0 B  0 x, 0 B
            ranks 4-5      6 x, 3.00 KiB        0 x, 0 B    0 x, 0 B  0 x, 0 B
        "#]].assert_eq(&report(&summary, true, 2.0, 120));
    }

    /// A process of a job knows what its own rank has measured, and the plan of all.
    #[test]
    fn the_only_rank_of_a_process_is_held_against_its_own_plan() {
        let mut summary = summary(&[(15, 15), (16, 16)]);
        summary.ranks.remove(0);
        let report = report(&summary, true, 2.0, 120);
        assert!(report.contains("rank 1 measured = planned") && !report.contains("rank 0"), "{report}");
    }

    #[test]
    fn a_run_that_learns_nothing_has_step_times_instead_of_losses() {
        expect![[r#"

            milliseconds per step  median  shortest  longest
            step                    300.0     250.0    500.0

                 steps  seconds in all  bubble of the schedule  ranks waited  for gathers, reductions
            run      3             2.0                   20.0%         30.0%                    10.0%

            peak memory                   parameters  gathered  gradients  optimizer  activations  communication  peak
            ranks 0-1 measured = planned         1 B       0 B        2 B        3 B          4 B            5 B  15 B

            sent per step     all-gather  reduce-scatter  all-reduce      send
            ranks 0-1      6 x, 1.00 KiB        0 x, 0 B    0 x, 0 B  0 x, 0 B
        "#]].assert_eq(&report(&summary(&[(15, 15), (15, 15)]), false, 2.0, 120));
        let none = StepSeconds::of(&[]);
        assert_eq!(json!(none), json!(null));
    }
}
