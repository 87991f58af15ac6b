//! `pipezero profile`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use pipezero_files::host::available_bytes;
use pipezero_files::input::read_text;
use pipezero_files::json;
use pipezero_files::partial::Existing;
use pipezero_measure::profile::{Profile, ProfileError, ProfileOptions, Watched, check_steps, profile_in};
use pipezero_plan::Plan;
use pipezero_plan::costs::{COSTS_BYTES_MAX, CostsFile, PredictError, UnitTimes};
use pipezero_run::data::BatchSource;
use pipezero_train::whole_batches;

use super::agreement::{connected, place_in_job, rank_of, said_once};
use super::failure::Failure;
use super::figures::{bytes, nanoseconds};
use super::kernel_table::{self, KERNELS_FILE};
use super::nccl_variable::set_variable;
use super::out_file::{OutError, OutFile, Written};
use super::output::{note, print};
use super::progress::Progress;
use super::run_args::RunArgs;
use super::table::Table;
use super::terminal;
use super::whole::whole;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero profile run.json --out costs.json
  pipezero simulate run.json --costs costs.json
  pipezero simulate run.json --costs costs.json --set parallel.schedule=zb-h1
  pipezero profile run.json --out costs.json --overwrite --steps 40
  pipezero profile run.json --out costs.json --kernels kernels.csv

From the costs `simulate` predicts steps, of this run and of others like it. The run itself is measured, with its ranks, threads and links, and nothing of it is kept but the costs. Then its ranks send messages of other sizes, for some seconds at most. Let nothing else run meanwhile. With --kernels one more step is run, in which each kernel of a GPU is timed. Where a launcher has started several processes, they are measured: pipezero launch -n 4 -- profile run.json --out costs.json";

/// Arguments of `profile`.
#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Where the costs go.
    #[arg(long, value_name = "COSTS.json")]
    out: PathBuf,
    /// Replace the costs file if it exists.
    #[arg(long)]
    overwrite: bool,
    /// Also time each kernel of one more step, on a GPU, and write a line for each: its name, size, calls and nanoseconds.
    #[arg(long, value_name = "KERNELS.csv")]
    kernels: Option<PathBuf>,
    /// Steps to record, after two that warm up; the middle half of them by their time counts.
    #[arg(long, value_name = "N", default_value_t = ProfileOptions::default().num_steps, value_parser = whole::<u64>, allow_negative_numbers = true)]
    steps: u64,
}

/// What is written.
const COSTS_FILE: Written =
    Written { name: "costs file", writer: "profile", example: "costs.json", is_such: looks_like_costs };

pub(super) fn run(args: &ProfileArgs) -> Result<(), Failure> {
    if args.steps == 0 {
        return Err(ProfileError::NoSteps.into());
    }
    let (launched, is_first) = place_in_job()?;
    let (plan, _notices) = args.run.plan()?;
    set_variable(plan.run().comm.backend, &args.run.run)?;
    let ready = args.ready(&plan, is_first);
    let (world, (source, out)) = connected(&plan, launched.as_ref(), ready)?;
    let options = ProfileOptions {
        num_steps: args.steps,
        times_kernels: args.kernels.is_some(),
        ..ProfileOptions::default()
    };
    let mut progress = Progress::new(0, options.num_warm_up_steps.saturating_add(options.num_steps), false);
    let mut watch = |step: Watched| progress.timed_step(step.num_done, step.step_s);
    let profile = profile_in(plan.clone(), source, options, world, &mut watch);
    let profile = profile.map_err(|error| match error {
        ProfileError::Engine(error) => said_once(error.into(), rank_of(launched.as_ref())),
        error => error.into(),
    })?;
    let (Some(profile), Some(out)) = (profile, out) else { return Ok(()) };
    progress.finish();
    out.costs.write(&profile.costs.to_json())?;
    if let (Some(kernels), Some(out)) = (&profile.kernels, out.kernels) {
        out.write(&kernel_table::csv(kernels))?;
        print(kernel_table::table(kernels))?;
    }
    print(report(&profile))?;
    print(against_itself(&plan, &profile)?)?;
    note(format_args!("\ncosts: {}", args.out.display()));
    Ok(())
}

/// The files that are written.
struct Out {
    costs: OutFile,
    kernels: Option<OutFile>,
}

impl ProfileArgs {
    /// Opens the batches, and, in the process that writes them, the output files.
    fn ready(&self, plan: &Plan, is_first: bool) -> Result<(Arc<dyn BatchSource>, Option<Out>), Failure> {
        if self.kernels.is_some() && !plan.run().device.has_own_memory() {
            return Err(ProfileError::KernelsOfCpu.into());
        }
        check_steps(plan, self.steps, available_bytes())?;
        let source = whole_batches(plan)?;
        let existing = Existing::of(self.overwrite);
        let kernels = |path| OutFile::new(path, existing, KERNELS_FILE);
        let out = || -> Result<Out, OutError> {
            let kernels = self.kernels.as_deref().map(kernels).transpose()?;
            Ok(Out { costs: OutFile::new(&self.out, existing, COSTS_FILE)?, kernels })
        };
        Ok((source, is_first.then(out).transpose()?))
    }
}

/// Whether a file has a costs file's keys, of whatever version: the run file that is measured has not.
fn looks_like_costs(path: &Path) -> bool {
    let text = read_text(path, COSTS_BYTES_MAX).unwrap_or_default();
    let has_keys =
        |root: json::Node| ["version", "workload", "units"].iter().all(|key| root.find(key).is_some());
    json::parse_first(&json::Source::file("", &text)).is_ok_and(has_keys)
}

fn report(profile: &Profile) -> String {
    let Profile { costs, step_s, num_steps, .. } = profile;
    let probed = match costs.num_probed_sizes() {
        0 => "no size of a message was probed beside those of the run".to_owned(),
        1 => "1 size of a message was probed beside those of the run".to_owned(),
        num_sizes => format!("{num_sizes} sizes of messages were probed beside those of the run"),
    };
    format!(
        "{:width$}\n{:width$}\n{probed}\nstep: {:.1} ms, mean of the {num_steps} typical ones\n",
        units(costs),
        messages(costs),
        1e3 * step_s,
        width = terminal::width()
    )
}

/// What is simulated from the costs for the very run that they are of: it shows how well the costs predict others.
fn against_itself(plan: &Plan, profile: &Profile) -> Result<String, PredictError> {
    let predicted_s = profile.predicted_step_s(plan)?;
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
        let frozen = if unit.frozen { " (frozen)" } else { "" };
        let name = format!("{}{frozen}", unit.layers.join(", "));
        table.row(name, times.chain([nanoseconds(unit.optimizer_step.ns)]));
    }
    table
}

fn messages(costs: &CostsFile) -> Table {
    let mut table = Table::new(["message", "ranks", "size", "issue", "latency", "landing", "measured"]);
    for of in &costs.messages {
        for size in &of.sizes {
            let cells = [
                of.ranks.to_string(),
                bytes(size.bytes),
                nanoseconds(size.issue_ns),
                nanoseconds(size.latency_ns),
                nanoseconds(size.landing_ns),
                if size.probed { "probe" } else { "run" }.to_owned(),
            ];
            table.row(of.kind.to_string(), cells);
        }
    }
    table
}
