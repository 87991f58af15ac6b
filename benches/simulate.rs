//! How fast is a step simulated? Instructions a second on one core, of computes and transfers alone and with gathers,
//! reductions and memory; the largest pipelines that are planned; and what a step of many micro-batches costs beside one of
//! a few.
//!
//! ```text
//! cargo bench -p benches --bench simulate
//! ```
//!
//! Programs are made before the clock starts, but for the last table, where making them is most of the work. Each figure is
//! of the fastest run of two seconds: it is work without a device or a network, and all that slows it down is other work on the
//! machine. The exit status is 1 if a target is missed.

use std::error::Error;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pipezero_schedule::simulate::{
    Costs, Links, MemoryCosts, MessageCost, RankTimes, UnitCosts, UnitMemory, memory, simulate, study,
    study_long,
};
use pipezero_schedule::{
    CheckedProgram, ComputeOrder, LowerOptions, Residency, Stage, UnitFacts, generate, lower,
};

/// Runs of which the fastest counts, at least; and for how long there are more. A shared machine is slower for moments that are
/// longer than a few runs.
const NUM_RUNS_MIN: usize = 25;
const MEASURED_MIN: Duration = Duration::from_secs(2);

/// Instructions a second.
const COMPUTES_AND_TRANSFERS: f64 = 20e6;
const WITH_COLLECTIVES_AND_MEMORY: f64 = 5e6;

/// Of 16 ranks with 8 stages each and 128 micro-batches.
const LARGE_STEP_MAX: Duration = Duration::from_millis(10);

/// A step of 32,768 micro-batches is predicted from two steps with about 6 micro-batches per rank, 12 together; it may
/// cost as much as this many steps with 4 per rank.
const LONG_STEP_MAX: f64 = 5.0;

type Outcome = Result<bool, Box<dyn Error>>;

/// An order of so many micro-batches.
type Generator = dyn Fn(u32) -> Result<ComputeOrder, generate::SizeError>;

fn main() -> ExitCode {
    benches::exit_code(measure())
}

fn measure() -> Outcome {
    println!("{:<44}{:>14}{:>12}{:>12}", "computes and transfers", "instructions", "time", "M/s");
    let mut all_met = true;
    for (name, order) in [
        ("1f1b, p 8, m 1024", generate::one_f_one_b(8, 1024)?),
        ("gpipe, p 8, m 1024", generate::gpipe(8, 1024)?),
        ("zb-h1, p 8, m 1024", generate::zb_h1(8, 1024)?),
        ("1f1b, p 64, m 256", generate::one_f_one_b(64, 256)?),
        ("interleaved, p 16, v 8, m 128", generate::interleaved(16, 8, 128, 16)?),
    ] {
        let program = program(&order, 1, &LowerOptions::ZERO_0)?;
        all_met &= report(name, &program, false, COMPUTES_AND_TRANSFERS)?;
    }
    println!(
        "\n{:<44}{:>14}{:>12}{:>12}",
        "with gathers, reductions and memory", "instructions", "time", "M/s"
    );
    let two_resident = Residency::Units(NonZeroU32::new(2).ok_or("2 is not 0")?);
    for (name, order, residency) in [
        ("1f1b, p 8, m 128, 8 units, strict", generate::one_f_one_b(8, 128)?, Residency::Strict),
        ("1f1b, p 8, m 128, 8 units, 2 resident", generate::one_f_one_b(8, 128)?, two_resident),
        ("interleaved, p 16, v 8, m 64, 2 units", generate::interleaved(16, 8, 64, 16)?, Residency::Strict),
    ] {
        let units_per_stage = if order.placement.num_stages() > 8 { 2 } else { 8 };
        let program = program(&order, units_per_stage, &LowerOptions::zero_3(residency, 1))?;
        all_met &= report(name, &program, true, WITH_COLLECTIVES_AND_MEMORY)?;
    }
    println!();
    all_met &= large_step()?;
    all_met &= long_steps()?;
    Ok(all_met)
}

fn program(
    order: &ComputeOrder,
    units_per_stage: u32,
    options: &LowerOptions,
) -> Result<CheckedProgram, Box<dyn Error>> {
    let num_units = order.placement.num_stages() as u32 * units_per_stage;
    let units: Vec<UnitFacts> =
        (0..num_units).map(|unit| UnitFacts::new(Stage(unit / units_per_stage), 1 << 20)).collect();
    Ok(CheckedProgram::new(lower(order, &units, options)?)?)
}

/// Times of different length, so that ranks wait; messages take of their ranks' own time, as all that was measured do.
fn costs(program: &CheckedProgram) -> Costs {
    let message = |occupied, latency| MessageCost { issue: 3, occupied, latency, landing: 2 };
    let unit = UnitCosts {
        gather: message(700, 10),
        reduce: message(1300, 20),
        reduce_last: message(1300, 20),
        ..UnitCosts::of_compute(1000, 1100, 900)
    };
    Costs { links: Links::SharedByCollectives, ..Costs::uniform(program, unit, message(50, 100)) }
}

fn report(name: &str, program: &CheckedProgram, with_memory: bool, target: f64) -> Outcome {
    let costs = costs(program);
    let of_unit = UnitMemory { saved_bytes: 1 << 22, weight_input_bytes: 1 << 20, gradient_bytes: 1 << 21 };
    let memory_costs = MemoryCosts::uniform(program, of_unit, 1 << 16);
    let time = fastest(|| {
        let timeline = simulate(program, &costs)?;
        if with_memory {
            memory(program, &timeline, &memory_costs)?;
        }
        Ok(())
    })?;
    let num_instructions: usize = program.program().rows.iter().map(Vec::len).sum();
    let rate = num_instructions as f64 / time.as_secs_f64();
    println!("{name:<44}{num_instructions:>14}{:>12}{:>12.1}", in_ms(time), rate / 1e6);
    Ok(met(rate >= target, &format!("{} M/s", target / 1e6)))
}

fn large_step() -> Outcome {
    let program = program(&generate::interleaved(16, 8, 128, 16)?, 1, &LowerOptions::ZERO_0)?;
    let costs = costs(&program);
    let time = fastest(|| Ok(simulate(&program, &costs)?))?;
    println!("{:<44}{:>26}", "16 ranks of 8 stages, 128 micro-batches", in_ms(time));
    Ok(met(time < LARGE_STEP_MAX, &in_ms(LARGE_STEP_MAX)))
}

fn long_steps() -> Outcome {
    println!("\n{:<44}{:>14}{:>12}{:>12}", "programs made and played", "m 4 p", "m 32,768", "ratio");
    let schedules: [(&str, u32, &Generator); 5] = [
        ("1f1b, p 8", 8, &|m| generate::one_f_one_b(8, m)),
        ("1f1b, p 64", 64, &|m| generate::one_f_one_b(64, m)),
        ("interleaved, p 16, v 8", 16, &|m| generate::interleaved(16, 8, m, 16)),
        ("bfs, p 16, v 4", 16, &|m| generate::bfs(16, 4, m)),
        ("zb-v, p 16", 16, &|m| generate::zb_v(16, m)),
    ];
    let times = RankTimes { forward: 1000, backward_input: 1100, backward_weight: 900, latency: 100 };
    let mut all_met = true;
    for (name, num_ranks, generate) in schedules {
        let few = fastest(|| Ok(study(&generate(4 * num_ranks)?, times)?))?;
        let generate_long = |m| generate(m).map_err(Box::<dyn Error>::from);
        let many = fastest(|| study_long(generate_long, 32_768, times))?;
        let ratio = many.as_secs_f64() / few.as_secs_f64();
        println!("{name:<44}{:>14}{:>12}{ratio:>12.1}", in_ms(few), in_ms(many));
        all_met &= met(ratio <= LONG_STEP_MAX, &format!("ratio {LONG_STEP_MAX}"));
    }
    Ok(all_met)
}

fn fastest<R>(mut run: impl FnMut() -> Result<R, Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let mut fastest = Duration::MAX;
    let begin = Instant::now();
    let mut num_runs = 0;
    while num_runs < NUM_RUNS_MIN || begin.elapsed() < MEASURED_MIN {
        let start = Instant::now();
        run()?;
        fastest = fastest.min(start.elapsed());
        num_runs += 1;
    }
    Ok(fastest)
}

fn in_ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// Says so if a target is missed.
fn met(is_met: bool, target: &str) -> bool {
    if !is_met {
        println!("  missed: the target is {target}");
    }
    is_met
}
