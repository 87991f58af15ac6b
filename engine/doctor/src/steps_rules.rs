//! The rules that the run's steps are held to: bytes are those of the plan, to the byte, and times are steady.

use pipezero_plan::{Bytes, Plan};

use super::check::{Check, Part};
use super::steps::{RankFigures, RunFacts, StepFacts};

/// Steps that take so many times the median are worth a thought, if it is more than what a system does now and then.
const SPREAD_MAX: f64 = 2.0;
const NOISE_S: f64 = 0.02;
/// How far a simulated step may be from the measured ones.
const SIMULATED_MAX: f64 = 0.3;

/// What the steps and the text came to.
pub(super) fn judge(plan: &Plan, facts: &RunFacts) -> Vec<Check> {
    let mut checks = match &facts.steps {
        Ok(steps) => of_steps(plan, steps),
        Err(error) => {
            let check = Check::new(Part::Run, "steps", error.clone(), "the run does its steps");
            let repair = "see what the error says; the other parts are as if it had not been tried";
            vec![if facts.is_too_long {
                check.warns_unless(false, "measure a smaller batch: --set train_batch_size; memory and traffic are as `pipezero plan` says")
            } else {
                check.fails_unless(false, repair)
            }]
        }
    };
    let wrong =
        facts.text.iter().enumerate().find_map(|(process, text)| Some((process, text.as_ref().err()?)));
    let value = match wrong {
        Some((process, error)) => format!("process {process}: {error}"),
        None => facts.text.first().and_then(|text| text.as_ref().ok()).cloned().unwrap_or_default(),
    };
    checks.push(
        Check::new(Part::Run, "text", value, "every process can read the text")
            .fails_unless(wrong.is_none(), "name texts in `data.text` that are there on all hosts"),
    );
    checks
}

fn of_steps(plan: &Plan, steps: &StepFacts) -> Vec<Check> {
    let median_s = median(&steps.timed_s);
    let all_s = median_s * plan.run().steps as f64;
    let took = format!(
        "{:.1} ms is the median of {}; {} steps take about {}",
        1e3 * median_s,
        steps.timed_s.len(),
        plan.run().steps,
        duration(all_s)
    );
    let longest_s = steps.timed_s.last().copied().unwrap_or(0.0);
    let spread = format!("{:.1} ms is the longest, the median {:.1} ms", 1e3 * longest_s, 1e3 * median_s);
    let mut checks = vec![
        Check::new(Part::Run, "steps", took, "the run does its steps"),
        equal(
            &steps.ranks,
            "memory",
            |of| (of.memory[0].peak, of.memory[1].peak),
            |of| of.memory[0] == of.memory[1],
        ),
        equal(
            &steps.ranks,
            "traffic",
            |of| (of.traffic[0].total_bytes(), of.traffic[1].total_bytes()),
            |of| of.traffic[0] == of.traffic[1],
        ),
        Check::new(
            Part::Run,
            "spread",
            spread,
            format!("no step takes more than {SPREAD_MAX} times the median"),
        )
        .warns_unless(
            longest_s <= SPREAD_MAX * median_s || longest_s <= median_s + NOISE_S,
            "look at what else runs on these hosts",
        ),
    ];
    if let Some(simulated_s) = steps.simulated_s {
        let error = simulated_s / median_s - 1.0;
        let value =
            format!("{:.1} ms from the costs of these steps, {:+.0} %", 1e3 * simulated_s, 100.0 * error);
        let percent = 100.0 * SIMULATED_MAX;
        checks.push(
            Check::new(Part::Run, "simulated", value, format!("within {percent:.0} % of the median step"))
                .warns_unless(
                    error.abs() <= SIMULATED_MAX || (simulated_s - median_s).abs() <= NOISE_S,
                    "ranks wait for what is not in the program, such as cores: `pipezero compare` on a traced run says where",
                ),
        );
    }
    checks
}

fn equal(
    ranks: &[RankFigures],
    what: &str,
    bytes: impl Fn(&RankFigures) -> (u64, u64),
    is_equal: impl Fn(&RankFigures) -> bool,
) -> Check {
    let value = match ranks.iter().find(|of| !is_equal(of)) {
        Some(of) => {
            let (planned, measured) = bytes(of);
            format!("rank {}: {measured} bytes, planned {planned}, or in other parts", of.rank)
        }
        None => {
            let most = ranks.iter().map(|of| bytes(of).1).max().unwrap_or(0);
            format!("as planned on all {} ranks, {} at most", ranks.len(), Bytes(most))
        }
    };
    Check::new(Part::Run, what, value, "what is measured is what is planned, to the byte and by category")
        .fails_unless(ranks.iter().all(is_equal), "this is a fault of pipezero: please report this file")
}

/// Of ascending times.
pub fn median(ascending: &[f64]) -> f64 {
    ascending.get(ascending.len() / 2).copied().unwrap_or(0.0)
}

/// Seconds as people say them.
fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 120.0 => format!("{seconds:.1} s"),
        _ if seconds < 7200.0 => format!("{:.0} minutes", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.1} hours", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;
    use pipezero_config::{Resources, RunFile};

    fn plan() -> Plan {
        let text = r#"{"model": {"family": "mlp", "num_layers": 1, "hidden_size": 4, "seq_length": 4},
            "data": {"text": "a.txt"}, "steps": 100, "train_batch_size": 4, "parallel": {"data": 2}}"#;
        let file = RunFile::parse("run.json", text).unwrap();
        Plan::from_file(&file, Resources::this_host()).unwrap().0
    }

    /// Steps as planned, of 100 ms each.
    fn steps(plan: &Plan) -> StepFacts {
        let of_rank = |of: pipezero_plan::RankForecast| RankFigures {
            rank: of.rank,
            memory: [of.memory; 2],
            traffic: [of.traffic; 2],
        };
        let ranks = plan.forecast().into_iter().map(of_rank).collect();
        StepFacts { ranks, first_s: 0.02, timed_s: vec![0.1; 5], simulated_s: Some(0.1), loss: Some(1.0) }
    }

    fn not_ok(
        plan: &Plan,
        steps: Result<StepFacts, String>,
        text: Result<String, String>,
    ) -> Vec<(String, Verdict)> {
        let checks = judge(plan, &RunFacts { steps, is_too_long: false, text: vec![text] });
        let found = checks.into_iter().filter(|check| check.verdict != Verdict::Ok);
        found.map(|check| (check.what, check.verdict)).collect()
    }

    #[test]
    fn each_rule_is_broken_by_what_it_forbids() {
        let plan = plan();
        let text = || Ok("1 B were read".to_owned());
        let good = steps(&plan);
        assert_eq!(not_ok(&plan, Ok(good.clone()), text()), []);
        let one = |what: &str, verdict| vec![(what.to_owned(), verdict)];
        let mut other = good.clone();
        // The same peak, in other categories.
        other.ranks[1].memory[1].gradients += 4;
        other.ranks[1].memory[1].optimizer -= 4;
        assert_eq!(not_ok(&plan, Ok(other), text()), one("memory", Verdict::Failed));
        let mut other = good.clone();
        other.ranks[0].traffic[1].reduce_scatter.bytes += 1;
        assert_eq!(not_ok(&plan, Ok(other), text()), one("traffic", Verdict::Failed));
        let other = StepFacts { timed_s: vec![0.1, 0.1, 0.21], ..good.clone() };
        assert_eq!(not_ok(&plan, Ok(other), text()), one("spread", Verdict::Warning));
        let other = StepFacts { simulated_s: Some(0.05), ..good.clone() };
        assert_eq!(not_ok(&plan, Ok(other), text()), one("simulated", Verdict::Warning));
        assert_eq!(not_ok(&plan, Err("no memory".to_owned()), text()), one("steps", Verdict::Failed));
        assert_eq!(not_ok(&plan, Ok(good), Err("no such file".to_owned())), one("text", Verdict::Failed));
    }
}
