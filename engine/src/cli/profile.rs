//! `pipezero profile`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::failure::Failure;
use super::out_file::{OutFile, Overwrite, Written};
use super::output::{note, print};
use super::progress::Progress;
use super::run_args::RunArgs;
use super::table::Table;
use super::units::{bytes, nanoseconds};
use super::whole::whole;
use crate::files::input::read_text;
use crate::measure::profile::{Profile, ProfileError, ProfileOptions, kept_bytes, profile};
use crate::plan::Plan;
use crate::plan::costs::{COSTS_BYTES_MAX, CostsFile, PredictError, Source, Step, UnitTimes, for_plan};
use crate::run::data::{BatchSource, Corpus, Zeros};
use crate::run::memory::available_bytes;
use crate::train::{TrainingError, batch_layout};

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero profile run.json --out costs.json
  pipezero simulate run.json --costs costs.json
  pipezero simulate run.json --costs costs.json --set parallel.schedule=zb-h1
  pipezero profile run.json --out costs.json --overwrite --steps 40

From the costs `simulate` predicts steps, of this run and of others like it. The run itself is measured, with its ranks, threads and links, and nothing of it is kept but the costs. Then its ranks send messages of other sizes, for some seconds at most. Let nothing else run meanwhile.";

/// Arguments of `profile`.
#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Where the costs go.
    #[arg(long, value_name = "COSTS.json")]
    out: PathBuf,
    /// Replace the costs file if it exists.
    #[arg(long)]
    overwrite: bool,
    /// Steps to record, after two that warm up; the middle half of them by their time counts.
    #[arg(long, value_name = "N", default_value_t = ProfileOptions::default().num_steps, value_parser = whole::<u64>, allow_negative_numbers = true)]
    steps: u64,
}

/// More steps than memory has room for.
#[derive(Debug, thiserror::Error)]
#[error(
    "--steps {num_steps}: what happens in them is kept until the last has ended, up to {}, and {} of memory are left; record \
     {fitting} or fewer",
    bytes(u64::try_from(*needed).unwrap_or(u64::MAX)),
    bytes(*available)
)]
pub(super) struct TooManySteps {
    num_steps: u64,
    needed: u128,
    available: u64,
    fitting: u128,
}

/// Whether what is kept of so many steps fits into memory, where the system says how much is left.
fn check_steps(plan: &Plan, num_steps: u64, available: Option<u64>) -> Result<(), TooManySteps> {
    let needed = kept_bytes(plan, num_steps);
    match available {
        Some(available) if needed > u128::from(available) => {
            let [of_none, of_one] = [0, 1].map(|num_steps| kept_bytes(plan, num_steps));
            let fitting = u128::from(available).saturating_sub(of_none) / (of_one - of_none).max(1);
            Err(TooManySteps { num_steps, needed, available, fitting })
        }
        _ => Ok(()),
    }
}

/// What is written.
const COSTS_FILE: Written =
    Written { name: "costs file", writer: "profile", example: "costs.json", is_such: looks_like_costs };

pub(super) fn run(args: &ProfileArgs) -> Result<(), Failure> {
    if args.steps == 0 {
        return Err(ProfileError::NoSteps.into());
    }
    let plan = args.run.plan()?;
    check_steps(&plan, args.steps, available_bytes())?;
    let source = batches(&plan)?;
    let out = OutFile::new(&args.out, Overwrite::of(args.overwrite), COSTS_FILE)?;
    let options = ProfileOptions { num_steps: args.steps, ..ProfileOptions::default() };
    let mut progress = Progress::new(options.num_warm_up_steps.saturating_add(options.num_steps), false);
    let profile =
        profile(plan.clone(), source, options, &mut |step| progress.timed_step(step.num_done, step.step_s))?;
    progress.finish();
    out.write(&profile.costs.to_json())?;
    print(report(&profile))?;
    print(against_itself(&plan, &profile)?)?;
    note(format_args!("\ncosts: {}", args.out.display()));
    Ok(())
}

/// What the run trains on.
fn batches(plan: &Plan) -> Result<Arc<dyn BatchSource>, TrainingError> {
    let run = plan.run();
    if !run.model.learns() {
        return Ok(Arc::new(Zeros));
    }
    let corpus = Corpus::load(&run.data, plan.micro_batch_shape().seq_length)?;
    corpus.check_vocabulary(plan.vocab_size())?;
    Ok(Arc::new(corpus.training_batches(batch_layout(plan), run.seed)?))
}

/// Whether a file has a costs file's keys, of whatever version: the run file that is measured has not.
fn looks_like_costs(path: &Path) -> bool {
    let text = read_text(path, COSTS_BYTES_MAX).unwrap_or_default();
    let found = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
    ["version", "workload", "units"].iter().all(|key| found.get(key).is_some())
}

fn report(profile: &Profile) -> String {
    let Profile { costs, step_s, num_steps } = profile;
    let probed = match costs.num_probed_sizes() {
        0 => "no size of a message was probed beside those of the run".to_owned(),
        1 => "1 size of a message was probed beside those of the run".to_owned(),
        num_sizes => format!("{num_sizes} sizes of messages were probed beside those of the run"),
    };
    format!(
        "{}\n{}\n{probed}\nstep: {:.1} ms, mean of the {num_steps} typical ones\n",
        units(costs),
        messages(costs),
        1e3 * step_s
    )
}

/// What the simulator makes of the costs for the very run that they are of: whoever predicts others from them knows how well
/// the model fits.
fn against_itself(plan: &Plan, profile: &Profile) -> Result<String, PredictError> {
    let predicted = for_plan(plan, Source::Measured(&profile.costs))?;
    let predicted_s = Step::new(plan, &predicted)?.step_s();
    let error = percent_off(predicted_s / profile.step_s - 1.0);
    Ok(format!("simulated from these costs: {:.1} ms, {error}\n", 1e3 * predicted_s))
}

fn percent_off(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

fn units(costs: &CostsFile) -> Table {
    let mut table = Table::new(["unit", "F", "B", "I", "W", "R", "optimizer"]);
    for unit in &costs.units {
        let UnitTimes {
            forward_ns, backward_ns, backward_input_ns, backward_weight_ns, recompute_ns, ..
        } = *unit;
        let measured = [backward_ns, backward_input_ns, backward_weight_ns, recompute_ns]
            .map(|ns| ns.map_or_else(|| "-".to_owned(), nanoseconds));
        let times = std::iter::once(nanoseconds(forward_ns)).chain(measured);
        let row = std::iter::once(unit.layers.join(", ")).chain(times);
        table.row(row.chain([nanoseconds(unit.optimizer_step.ns)]));
    }
    table
}

fn messages(costs: &CostsFile) -> Table {
    let mut table = Table::new(["message", "ranks", "size", "issue", "latency", "landing", "measured"]);
    for of in &costs.messages {
        for size in &of.sizes {
            table.row([
                of.kind.to_string(),
                of.ranks.to_string(),
                bytes(size.bytes),
                nanoseconds(size.issue_ns),
                nanoseconds(size.latency_ns),
                nanoseconds(size.landing_ns),
                if size.probed { "probe" } else { "run" }.to_owned(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Launch, RunFile};

    #[test]
    fn steps_are_recorded_as_far_as_they_fit() {
        let text = r#"{
            "model": {"family": "timed", "num_layers": 4, "seq_length": 4, "parameters_per_layer": 16,
                "activation_elements": 16, "forward_ms": 1},
            "parallel": {"pipeline": 2, "data": 2},
            "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "steps": 3
        }"#;
        let (run, _) =
            RunFile::parse("run.json", text).unwrap().resolve(Launch { cores: 1, ranks: None }).unwrap();
        let plan = Plan::new(run).unwrap();
        let num_instructions: usize = plan.training().program().rows.iter().map(Vec::len).sum();
        // Five moments of eight bytes each, on both data ranks; and the last step's events, of 24 bytes each.
        let (step_bytes, events_bytes) =
            (2 * 40 * num_instructions as u64, 2 * 5 * 24 * num_instructions as u64);
        assert!(check_steps(&plan, 12, Some(12 * step_bytes + events_bytes)).is_ok());
        assert!(check_steps(&plan, u64::MAX, None).is_ok());
        let available = 13 * step_bytes + events_bytes - 1;
        let error = check_steps(&plan, 13, Some(available)).unwrap_err();
        assert_eq!(
            (error.needed, error.available, error.fitting),
            (u128::from(available) + 1, available, 12)
        );
        assert!(check_steps(&plan, u64::MAX, Some(u64::MAX)).is_err());
    }
}
