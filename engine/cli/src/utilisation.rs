//! How fast a predicted step is and what each rank achieves in it, for `simulate` and `plan`.

use pipezero_plan::Plan;
use pipezero_plan::costs::Step;
use pipezero_plan::what_if::{Simulation, Utilisation};
use serde_json::{Value, json};

use super::describe;
use super::figures::{counted, nanoseconds, percent};

/// The step, where its times come from, and what each rank achieves, a line each.
pub(super) fn of_step(simulation: &Simulation<'_>) -> String {
    let step = simulation.step();
    let outside = outside_program(step);
    let of_it = if outside.is_empty() { String::new() } else { format!("of it: {outside}\n") };
    format!(
        "predicted step {}, {:.0} tokens/s\n{of_it}times: {}\n{}",
        nanoseconds(step.step_ns()),
        step.tokens_per_s(),
        simulation.predicted().description,
        of_each_rank(simulation.plan(), &simulation.utilisation())
    )
}

/// The parts of the step's time that its timeline does not show.
fn outside_program(step: &Step) -> String {
    let named = [("waits for slow ranks", step.straggling_ns), ("beside its program", step.overhead_ns)];
    let parts: Vec<String> = named
        .into_iter()
        .filter(|&(_, ns)| ns > 0)
        .map(|(name, ns)| format!("{} {name}", nanoseconds(ns)))
        .collect();
    parts.join(", ")
}

/// Tokens, operations, MFU with its formula, and memory, a line each.
fn of_each_rank(plan: &Plan, of: &Utilisation) -> String {
    let mut text = String::new();
    let tokens = format!("{:.0} tokens/s", of.tokens_per_s());
    if of.model_flops == 0 {
        text += &format!("each rank: {tokens}\n");
    } else {
        let rate = flops(of.flops_per_s());
        let mfu = of.mfu().map_or_else(String::new, |mfu| format!(", {} MFU", percent(mfu)));
        text += &format!("each rank: {tokens}, {rate}/s of the model{mfu}\n");
    }
    if let (Some(_), Some(peak)) = (of.mfu(), of.peak_flops_per_s) {
        let (work, ranks) = (flops(of.model_flops as f64), counted(of.num_ranks, "rank"));
        let (step, peak) = (nanoseconds((of.step_s * 1e9).round() as u64), flops(peak));
        text += &format!(
            "MFU: {work} of the model in a step / ({ranks} x {step} x {peak}/s peak in {}); what is recomputed does not count\n",
            plan.run().precision.name()
        );
    }
    text + &format!("memory: {}\n", describe::memory(plan, of.memory_bytes))
}

/// The same figures.
pub(super) fn as_json(of: &Utilisation) -> Value {
    json!({
        "tokens_per_s": of.tokens_per_s(),
        "model_flops_per_s": of.flops_per_s(),
        "peak_flops_per_s": of.peak_flops_per_s,
        "mfu": of.mfu(),
        "peak_bytes": of.peak_bytes,
        "memory_bytes": of.memory_bytes,
        "headroom_bytes": of.headroom_bytes(),
    })
}

/// Operations with a decimal unit: `1.25 TFLOP`.
fn flops(count: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)];
    let (name, unit) = UNITS.into_iter().find(|(_, unit)| count >= *unit).unwrap_or(("FLOP", 1.0));
    format!("{:.2} {name}", count / unit)
}

#[cfg(test)]
mod tests {
    #[test]
    fn operations_are_written_in_the_largest_unit_that_keeps_them_above_one() {
        for (count, expected) in
            [(3.0, "3.00 FLOP"), (2.5e6, "2.50 MFLOP"), (9.894e14, "989.40 TFLOP"), (2e18, "2000.00 PFLOP")]
        {
            assert_eq!(super::flops(count), expected);
        }
    }
}
