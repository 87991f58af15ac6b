//! `pipezero simulate`: how long a step takes, of a whole run or of a schedule without a model.

mod args;
mod cluster;
mod critical_path;
mod error;
mod factor;
mod output;
mod picture;
mod ranks;
mod result_file;
mod schedule;
mod schedule_name;
mod step;
mod what_if;

use pipezero_files::partial::Existing;

use self::args::Request;
pub(super) use self::args::{EXAMPLES, SimulateArgs};
use self::result_file::RESULT_FILE;
use super::failure::Failure;
use super::out_file::OutFile;
use super::output::{note, print};

pub(super) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let simulate = || match args.request()? {
        Request::Step(request) => step::run(&request).map(|(text, notices)| (text, Some(notices))),
        Request::Schedule(request) => Ok((schedule::run(&request)?, None)),
    };
    let Some(path) = &args.out else {
        let (text, _notices) = simulate()?;
        return Ok(print(text)?);
    };
    args.format().check_name(path)?;
    let out = OutFile::new(path, Existing::of(args.overwrite), RESULT_FILE)?;
    let (text, _notices) = simulate()?;
    out.write(&text)?;
    note(format_args!("wrote {}", path.display()));
    Ok(())
}
