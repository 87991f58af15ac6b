//! What does a program cost before it runs? Instructions a second that are generated, lowered and checked, and the most
//! memory that takes, for the largest step that a real pipeline would plan.
//!
//! ```text
//! cargo bench -p benches --bench schedule [-- RANKS VIRTUAL MICRO_BATCHES UNITS]      64 4 512 8 if none is named
//! ```
//!
//! Interleaved 1F1B in groups of RANKS, UNITS units per stage, ZeRO-3: strict, and with memory for two units; both with a
//! prefetch of one. One core, each phase once: seconds are long beside what a clock misses.

use std::error::Error;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Instant;

use pipezero_schedule::{CheckedProgram, LowerOptions, Residency, Stage, UnitFacts, generate, lower};

/// Ranks, stages per rank, micro-batches, units per stage.
const LARGEST: [u32; 4] = [64, 4, 512, 8];

fn main() -> ExitCode {
    benches::exit_code(sizes().and_then(measure).map(|()| true))
}

fn sizes() -> Result<[u32; 4], Box<dyn Error>> {
    // Cargo adds `--bench`.
    let given = benches::arguments()
        .into_iter()
        .map(|arg| arg.parse::<u32>().map_err(|error| format!("`{arg}`: {error}")));
    match given.collect::<Result<Vec<_>, _>>()?[..] {
        [] => Ok(LARGEST),
        [p, v, m, units] if units > 0 => Ok([p, v, m, units]),
        _ => Err("give RANKS VIRTUAL MICRO_BATCHES UNITS, all at least 1, or nothing".into()),
    }
}

fn measure([p, v, m, units_per_stage]: [u32; 4]) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let order = generate::interleaved(p, v, m, p)?;
    let generated_s = start.elapsed().as_secs_f64();
    let num_actions: usize = order.rows.iter().map(Vec::len).sum();
    println!("{p} ranks of {v} stages, {m} micro-batches, {units_per_stage} units per stage");
    println!("{:<12}{num_actions:>14} actions{generated_s:>9.3} s", "generated");
    let unit = |unit| UnitFacts::new(Stage(unit / units_per_stage), 1 << 20);
    let units: Vec<UnitFacts> = (0..p * v * units_per_stage).map(unit).collect();
    let two_resident = Residency::Units(NonZeroU32::new(2).ok_or("2 is not 0")?);
    for (name, residency) in [("strict", Residency::Strict), ("2 resident", two_resident)] {
        let start = Instant::now();
        let program = lower(&order, &units, &LowerOptions::zero_3(residency, 1))?;
        let lowered_s = start.elapsed().as_secs_f64();
        let num_instructions: usize = program.rows.iter().map(Vec::len).sum();
        let start = Instant::now();
        let program = CheckedProgram::new(program)?;
        let checked_s = start.elapsed().as_secs_f64();
        drop(program);
        let rate = |seconds: f64| num_instructions as f64 / seconds / 1e6;
        println!(
            "{name:<12}{num_instructions:>14} instructions; lowered {lowered_s:>7.3} s ({:.1} M/s), checked \
             {checked_s:>7.3} s ({:.1} M/s)",
            rate(lowered_s),
            rate(checked_s),
        );
    }
    match peak_bytes() {
        Some(bytes) => println!("{:<12}{:>14.2} GiB", "peak memory", bytes as f64 / (1u64 << 30) as f64),
        None => println!("{:<12}{:>14}", "peak memory", "unknown"),
    }
    Ok(())
}

/// The most memory that the process has held, where the system reports it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}
