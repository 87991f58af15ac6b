//! `pipezero doctor`: whether a run will do on the machines that it is for.

mod args;
mod sections;
mod text;

use std::path::Path;
use std::time::Duration;

use pipezero_config::Resources;
use pipezero_doctor::{Part, Verdict, examine};
use pipezero_files::input::{named, read_text};
use pipezero_plan::Plan;
use pipezero_train::RunDir;

pub(super) use self::args::{DoctorArgs, EXAMPLES};
use self::text::{HEAD, summary, whole_text};
use super::agreement::{place_in_job, rank_of, said_once};
use super::failure::Failure;
use super::figures::counted;
use super::nccl_variable::set_variable;
use super::out_file::{OutFile, Written};
use super::output::{note, print, print_json};
use super::terminal;

/// What is written.
const REPORT: Written = Written {
    name: "report of doctor",
    writer: "doctor",
    example: "doctor.txt",
    is_such: looks_like_a_report,
};

/// Bytes of an earlier report at most.
const REPORT_BYTES_MAX: u64 = 64 << 20;

/// Whether a file begins as a report does.
fn looks_like_a_report(path: &Path) -> bool {
    read_text(path, REPORT_BYTES_MAX).is_ok_and(|text| text.starts_with(HEAD))
}

pub(super) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let (launched, is_first) = place_in_job()?;
    let file = args.run.load()?;
    // Whether the text is there is found in each process.
    let (plan, _) = Plan::from_file(&file, Resources::this_host())?;
    set_variable(plan.run().comm.backend, &args.run.run)?;
    let name = named(&args.run.run);
    let stem = name.file_stem().unwrap_or(name.as_os_str()).to_string_lossy();
    let path = args.out.clone().unwrap_or_else(|| format!("doctor-{stem}.txt").into());
    let out = is_first.then(|| OutFile::replacing_own(&path, REPORT)).transpose()?;
    let run_dir = args.run_dir.clone().unwrap_or_else(|| RunDir::default_path(&args.run.run));
    let watch = &mut |part: Part, begun: Duration| {
        note(format_args!("{:5.1} s  {part}", begun.as_secs_f64()));
    };
    let report = examine(&plan, &run_dir, watch)
        .map_err(|error| said_once(error.into(), rank_of(launched.as_ref())))?;
    let (Some(report), Some(out)) = (report, out) else { return Ok(()) };
    out.write(&whole_text(&args.run.name(), &file.effective_json(&RunDir::COPIES), &plan, &report))?;
    if args.json {
        let json = serde_json::to_string_pretty(&report).expect("a report has string keys and finite depth");
        print_json(json + "\n")?;
    } else {
        print(summary(&report, terminal::width()))?;
    }
    note(format_args!("\nreport: {}", path.display()));
    match report.count(Verdict::Failed) {
        0 => Ok(()),
        failed => {
            let failed = counted(failed, "check");
            Err(Failure::Other(format!("{failed} failed: see {}", path.display()).into()))
        }
    }
}
