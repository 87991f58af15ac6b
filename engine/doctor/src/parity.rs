//! Small models on this world, beside the same models on one pipeline rank in threads of the first process: the same bits.
//!
//! What a pipeline degree, a schedule, a level of ZeRO or a slice of the vocabulary may not change is losses and weights. So a host whose
//! kernels compute otherwise, or a transport that changes data now and then, is found by what it computes.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use pipezero_files::host::OwnFolder;
use pipezero_plan::Plan;
use pipezero_run::engine::{Engine, EngineError};
use pipezero_run::world::{World, connect_first, connect_threads, world_spec};
use serde::Serialize;

use super::check::{Check, Part};
use super::lost::{Lost, survived};
use super::parity_case::ParityCase;
use super::team::Team;
use super::tokens::DrawnTokens;

/// How long this part may take.
const TIME_MAX: Duration = Duration::from_secs(25);
/// How long a wait may take.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// How long the first process may compute what a case is compared with, while the others wait for it.
const REFERENCE_MAX: Duration = Duration::from_secs(5);
/// Steps of each model.
const NUM_STEPS: usize = 2;

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParityResult {
    /// The case in words.
    pub case: String,
    /// Its ranks.
    pub num_ranks: usize,
    /// What differs, or what stopped it; `None` where all bits are the same.
    pub difference: Option<String>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParityFacts {
    /// The cases that ran.
    pub results: Vec<ParityResult>,
    /// Cases for which there was no time.
    pub(crate) num_left: usize,
}

/// What came out of a case: losses and gradient norms as bits, and the file of weights.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    losses: Vec<u64>,
    norms: Vec<u64>,
    /// Of the process of rank 0 alone.
    weights: Vec<u8>,
}

/// Trains the cases that fit this world. `plan` says on what, and how ranks are connected.
pub(super) fn look(team: &Team, plan: &Plan) -> Result<ParityFacts, Lost> {
    let wait_max = WAIT_MAX.min(plan.run().comm.timeout).max(REFERENCE_MAX);
    let team = &team.again(plan, wait_max).map_err(Lost::Rank)?;
    let cases = ParityCase::of_world(plan.grid().world_size());
    let time = team.time_for(TIME_MAX);
    let begun = team.elapsed();
    let mut results = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let is_late = team.elapsed() - begun > time;
        if team.decide(&is_late)? {
            return Ok(ParityFacts { results, num_left: cases.len() - index });
        }
        // A process that has no part of the case has no error either.
        let own = match compared(team, plan, case) {
            Ok(difference) => difference,
            Err(error) => Some(survived(error)?),
        };
        let difference = team.gather(&own)?.into_iter().flatten().next();
        results.push(ParityResult { case: case.to_string(), num_ranks: case.num_ranks(), difference });
    }
    Ok(ParityFacts { results, num_left: 0 })
}

/// What differs; always `None` in other processes than the first.
fn compared(team: &Team, plan: &Plan, case: &ParityCase) -> Result<Option<String>, EngineError> {
    let planned = case.plan(plan.run());
    let timeout = WAIT_MAX.min(plan.run().comm.timeout);
    let Some(world) = connect_first(&world_spec(&planned), case.num_ranks(), timeout, Some(team.world()))?
    else {
        return Ok(None);
    };
    let found = trained(planned, world)?;
    if !team.is_first() {
        return Ok(None);
    }
    let reference = case.reference().plan(plan.run());
    let world = connect_threads(&world_spec(plan), reference.grid().world_size(), timeout)?;
    let expected = trained(reference, world)?;
    Ok(difference(&found, &expected))
}

/// The steps of a plan.
fn trained(plan: Plan, world: Arc<dyn World>) -> Result<Outcome, EngineError> {
    let source = Arc::new(DrawnTokens::of(&plan));
    let mut engine = Engine::in_world(plan, source, world)?;
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for _ in 0..NUM_STEPS {
        let report = engine.train_batch()?;
        losses.push(report.loss.unwrap_or(f64::NAN).to_bits());
        norms.push(report.gradient_norm.to_bits());
    }
    let home = std::env::temp_dir();
    let folder = OwnFolder::within(&home, "pipezero-doctor-");
    // Where there can be no folder there can be no file, which all processes are told when it is saved.
    let file = match &folder {
        Ok(folder) => folder.path().join("weights"),
        Err(_) => home.join("no-folder-could-be-made").join("weights"),
    };
    engine.save(&file)?;
    Ok(Outcome { losses, norms, weights: fs::read(&file).unwrap_or_default() })
}

/// The first of what differs.
fn difference(found: &Outcome, expected: &Outcome) -> Option<String> {
    let of_steps = |what: &str, found: &[u64], expected: &[u64]| {
        let step = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
        let [found, expected] = [found[step], expected[step]].map(f64::from_bits);
        Some(format!("the {what} of step {} is {found:?} instead of {expected:?}", step + 1))
    };
    let of_weights = || {
        let (found, expected) = (&found.weights, &expected.weights);
        let byte = found.iter().zip(expected).position(|(found, expected)| found != expected);
        let byte =
            byte.or_else(|| (found.len() != expected.len()).then_some(found.len().min(expected.len())))?;
        Some(format!("the weights differ from byte {byte} of {} on", expected.len()))
    };
    of_steps("loss", &found.losses, &expected.losses)
        .or_else(|| of_steps("gradient norm", &found.norms, &expected.norms))
        .or_else(of_weights)
}

/// Whether all cases gave the same bits.
pub(super) fn judge(facts: &ParityFacts) -> Vec<Check> {
    let rule = "losses and weights are those of one pipeline rank, to the bit";
    let wrong = facts.results.iter().find_map(|of| Some((of, of.difference.as_ref()?)));
    let value = match wrong {
        Some((of, difference)) => format!("{}: {difference}", of.case),
        None => format!("{} small models of {NUM_STEPS} steps are the same", facts.results.len()),
    };
    let mut checks = vec![Check::new(Part::Parity, "bits", value, rule).fails_unless(
        wrong.is_none(),
        "see whether the checks of hosts and contents name a rank that differs; where none does, please report this file",
    )];
    if facts.num_left > 0 {
        let value = format!("{} cases were left out", facts.num_left);
        checks.push(
            Check::new(Part::Parity, "time", value, "all cases end in time")
                .warns_unless(false, "the host is busy, or messages are slow: see the other parts"),
        );
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;
    use pipezero_config::{Resources, RunFile};

    fn outcome() -> Outcome {
        Outcome {
            losses: vec![1.0_f64.to_bits(); 2],
            norms: vec![2.0_f64.to_bits(); 2],
            weights: vec![7; 16],
        }
    }

    #[test]
    fn one_bit_anywhere_is_a_difference() {
        assert_eq!(difference(&outcome(), &outcome()), None);
        let expected = outcome();
        let mut other = outcome();
        other.losses[1] ^= 1;
        let loss = "the loss of step 2 is 1.0000000000000002 instead of 1.0";
        assert_eq!(difference(&other, &expected).as_deref(), Some(loss));
        let mut other = outcome();
        other.norms[0] ^= 1;
        assert!(
            difference(&other, &expected).is_some_and(|text| text.starts_with("the gradient norm of step 1"))
        );
        let mut other = outcome();
        other.weights[9] ^= 1;
        assert_eq!(difference(&other, &expected).as_deref(), Some("the weights differ from byte 9 of 16 on"));
        other.weights.truncate(9);
        assert!(difference(&other, &expected).is_some());
        let facts = |difference: Option<String>| {
            let result = ParityResult { case: "a".to_owned(), num_ranks: 2, difference };
            judge(&ParityFacts { results: vec![result], num_left: 0 })[0].verdict
        };
        assert_eq!(facts(None), Verdict::Ok);
        assert_eq!(facts(difference(&other, &expected)), Verdict::Failed);
    }

    /// So does a model that starts otherwise.
    #[test]
    fn every_case_is_the_same_as_its_reference_and_another_seed_is_not() {
        let text = r#"{"model": {"family": "mlp", "num_layers": 1, "hidden_size": 4, "seq_length": 4},
            "data": {"text": "a.txt"}, "steps": 1, "train_batch_size": 4, "parallel": {"data": 4}}"#;
        let file = RunFile::parse("run.json", text).unwrap();
        let (plan, _) = Plan::from_file(&file, Resources::this_host()).unwrap();
        let on_threads = |of: Plan| {
            let world = connect_threads(&world_spec(&plan), of.grid().world_size(), WAIT_MAX).unwrap();
            trained(of, world).unwrap()
        };
        let cases = ParityCase::of_world(4);
        assert!(cases.len() >= 5);
        for case in cases {
            let [found, expected] = [&case, &case.reference()].map(|case| on_threads(case.plan(plan.run())));
            assert_eq!(difference(&found, &expected), None, "{case}");
            assert!(found.weights.len() > 1000);
            let mut other = case.plan(plan.run()).run().clone();
            other.seed += 1;
            let other = on_threads(Plan::even_if_refused(other).unwrap());
            assert!(difference(&other, &expected).is_some(), "{case}");
        }
    }
}
