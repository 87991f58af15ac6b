//! The parts of a report as tables.

use pipezero_doctor::{
    DiskFacts, GpuFacts, LaneFacts, ParityFacts, ProcessClock, ProcessFacts, RunFacts, StepFacts, median,
};
use pipezero_plan::Plan;

use crate::figures::{bytes, named_ranks, nanoseconds};
use crate::table::Table;
use crate::train::measured_beside_planned;

/// What stands for a part that processes did not come to.
const MISSING: &str = "This part did not take place.";

pub(super) fn hosts(processes: &[ProcessFacts]) -> String {
    let mut table = Table::new(["ranks", "host", "cores", "memory", "available", "pipezero", "computes on"]);
    let of = |bytes_or_none: Option<u64>| bytes_or_none.map_or_else(|| "-".to_owned(), bytes);
    let mut lines = Vec::new();
    for process in processes {
        let ranks = ranks(process.first_rank, process.num_ranks);
        let memory = [process.memory_bytes, process.available_bytes].map(of);
        let cells = [process.host.clone(), process.cores.to_string()].into_iter().chain(memory);
        table.row(ranks, cells.chain([process.version.clone(), process.devices.clone()]));
        let variables: Vec<String> =
            process.variables.iter().map(|(name, value)| format!("    {name}={value}\n")).collect();
        let gpu = |gpu: &GpuFacts| {
            let [total, free] = [gpu.total_bytes, gpu.free_bytes].map(bytes);
            format!(
                "    GPU {} ({}): {}; {free} of {total} are free\n",
                gpu.number,
                gpu.name,
                named_ranks(&gpu.ranks)
            )
        };
        let gpus: Vec<String> = process.gpus.iter().map(gpu).collect();
        let line = format!(
            "  system {}; processor {}; kernels use {}; MPI: {}; driver of GPUs: {}\n{}{}",
            process.system,
            process.cpu.as_deref().unwrap_or("not known"),
            process.instruction_set,
            process.mpi.as_deref().unwrap_or("none"),
            process.gpu_driver.as_ref().map_or("none".to_owned(), |version| format!("CUDA {version}")),
            gpus.concat(),
            variables.concat()
        );
        lines.push((process.first_rank, process.num_ranks, line));
    }
    let alike = lines.chunk_by(|(.., one), (.., next)| one == next).map(|same| {
        let (first, last) = (&same[0], &same[same.len() - 1]);
        format!("ranks {}:\n{}", self::ranks(first.0, last.0 + last.1 - first.0), first.2)
    });
    format!("{table}\n{}", alike.collect::<String>())
}

fn ranks(first: usize, count: usize) -> String {
    if count == 1 { first.to_string() } else { format!("{first}-{}", first + count - 1) }
}

pub(super) fn lanes(facts: Option<&LaneFacts>) -> String {
    let Some(facts) = facts else { return MISSING.to_owned() };
    let header = [
        "kind",
        "lanes",
        "ranks",
        "small",
        "median",
        "slowest",
        "large",
        "median",
        "slowest",
        "MiB/s",
        "slowest lane",
    ];
    let mut table = Table::new(header);
    for row in &facts.rows {
        let is_transfer = row.kind == "activation" || row.kind == "gradient";
        let between = if is_transfer { " -> " } else { " " };
        let slowest: Vec<String> = row.slowest.iter().map(usize::to_string).collect();
        let both = |times: [u64; 2]| times.map(nanoseconds);
        let cells =
            [row.num_lanes.to_string(), row.num_ranks.to_string(), bytes(row.small_bytes)].into_iter();
        let cells = cells.chain(both(row.latency_ns)).chain([bytes(row.large_bytes)]);
        let rate = format!("{:.0}", row.bytes_per_s / 1_048_576.0);
        table.row(&row.kind, cells.chain(both(row.large_ns)).chain([rate, slowest.join(between)]));
    }
    let found = [&facts.stopped[..], &facts.faults, &facts.slow].concat();
    let found: String = found.iter().map(|finding| format!("{finding}\n")).collect();
    format!(
        "{table}\nThe time of a message of the smallest and the largest size; MiB/s is what each rank of the slowest lane sends with the\n\
         largest. Threads hand over a transfer without a copy. {} messages were compared with what they have to hold.\n\n{found}",
        facts.num_compared
    )
}

pub(super) fn parity(facts: Option<&ParityFacts>) -> String {
    let Some(facts) = facts else { return MISSING.to_owned() };
    let mut table = Table::new(["small model", "ranks", "beside one pipeline rank"]);
    for result in &facts.results {
        let difference = result.difference.clone().unwrap_or_else(|| "the same bits".to_owned());
        table.row(&result.case, [result.num_ranks.to_string(), difference]);
    }
    table.to_string()
}

pub(super) fn steps(plan: &Plan, facts: Option<&RunFacts>) -> String {
    let Some(facts) = facts else { return MISSING.to_owned() };
    match &facts.steps {
        Ok(steps) => of_steps(steps),
        Err(error) => {
            let planned =
                plan.forecast().into_iter().map(|of| (format!("rank {} planned", of.rank), of.memory));
            format!("{error}\n\n{}", Table::of_memory("peak memory", planned))
        }
    }
}

fn of_steps(steps: &StepFacts) -> String {
    let ms = |seconds: f64| format!("{:.1}", 1e3 * seconds);
    let mut times = Table::new(["milliseconds", "first", "median", "shortest", "longest", "simulated"]);
    let [shortest, longest] =
        [steps.timed_s.first(), steps.timed_s.last()].map(|s| s.copied().unwrap_or(0.0));
    let simulated = steps.simulated_s.map_or_else(|| "-".to_owned(), ms);
    let cells =
        [steps.first_s, median(&steps.timed_s), shortest, longest].map(ms).into_iter().chain([simulated]);
    times.row(format!("step, of {} timed", steps.timed_s.len()), cells);
    let memory = Table::of_memory("peak memory", measured_beside_planned(0, &steps.ranks, |of| of.memory));
    let traffic =
        Table::of_traffic("sent per step", measured_beside_planned(0, &steps.ranks, |of| of.traffic));
    let loss = steps.loss.map_or_else(|| "-".to_owned(), |loss| format!("{loss:.4}"));
    format!(
        "{times}\n{memory}\n{traffic}\nTokens were drawn at random; loss of the last step: {loss} nats per token. `pipezero profile` measures costs, from which\n\
         `pipezero simulate` predicts other grids and schedules.\n"
    )
}

pub(super) fn clocks(clocks: &[ProcessClock]) -> String {
    let mut table =
        Table::new(["ranks from", "ahead at first", "known to", "ahead at last", "known to", "drift"]);
    for clock in clocks {
        let [ppm, error_ppm] = clock.drift_ppm();
        let us = |ns: f64| format!("{:.1} µs", ns / 1e3);
        let cells = [clock.begin, clock.end].map(|of| [us(of.ahead_ns as f64), us(of.error_ns as f64)]);
        let drift = format!("{ppm:+.1} ppm, known to {error_ppm:.1}");
        table.row(clock.first_rank.to_string(), cells.into_iter().flatten().chain([drift]));
    }
    format!("{table}\nOf the clock that times events, beside that of rank 0's process.\n")
}

pub(super) fn disk(facts: Option<&DiskFacts>) -> String {
    let Some(facts) = facts else { return MISSING.to_owned() };
    let mut table = Table::new(["ranks from", "free", "sees rank 0's file", "wrote", "MiB/s", "read, MiB/s"]);
    for of in &facts.processes {
        let free = of.free_bytes.map_or_else(|| "-".to_owned(), bytes);
        let sees = if of.sees_first { "yes" } else { "no" }.to_owned();
        let rate =
            |bytes: u64, seconds: f64| format!("{:.0}", bytes as f64 / 1_048_576.0 / seconds.max(1e-9));
        let cells = match &of.speed {
            Ok(speed) => {
                [bytes(speed.bytes), rate(speed.bytes, speed.write_s), rate(speed.bytes, speed.read_s)]
            }
            Err(error) => [error.clone(), "-".to_owned(), "-".to_owned()],
        };
        table.row(of.first_rank.to_string(), [free, sees].into_iter().chain(cells));
    }
    let takes =
        facts.checkpoint_s.map_or_else(String::new, |seconds| format!(", written in about {seconds:.1} s"));
    format!(
        "run directory {}, tried in {}\n\n{table}\nweights {}; a checkpoint {}{takes}; all at once, at most {}\n",
        facts.directory.display(),
        facts.tried.display(),
        bytes(facts.weights_bytes),
        bytes(facts.checkpoint_bytes),
        bytes(facts.all_bytes)
    )
}
