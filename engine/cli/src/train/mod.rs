//! `pipezero train`: the model of a run file, or the engines of a task of a master file.

mod apart;
mod args;
mod connect;
mod job;
mod one;
mod options;
mod place;
mod planned;
mod ready;
mod report;
mod resume;
mod several;
mod several_report;
mod start;
mod teaching;
mod words;

pub(super) use self::args::{EXAMPLES, TrainArgs};
pub(super) use self::report::measured_beside_planned;
pub(super) use self::resume::{EXAMPLES as RESUME_EXAMPLES, ResumeArgs};
use pipezero_config::GivenFile;

use super::agreement::place_in_job;
use super::failure::Failure;

pub(super) fn run(args: &TrainArgs) -> Result<(), Failure> {
    let (launched, is_first) = place_in_job()?;
    match GivenFile::load(&args.run.run)? {
        GivenFile::Run(file) => one::run(args, &file.set(&args.run.set)?, launched.as_ref(), is_first),
        GivenFile::Master(master) => several::run(args, master, launched.as_ref()),
    }
}
