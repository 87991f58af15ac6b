//! The arguments of every command that reads a run file.

use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::Failure;
use super::notices::Notices;
use crate::config::{DataPath, HostGpu, Launch, Notice, NoticeKind, Problem, RunFile};
use crate::files::input::named;
use crate::files::printable::printable;
use crate::plan::Plan;
use crate::plan::costs::DeviceSpec;
use crate::run::data::{find_text, inspect};
use crate::tokens::{TokenFile, Tokenizer};

/// A run file and its overrides.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The run file, JSON; `-` reads it from stdin.
    #[arg(value_name = "RUN.json")]
    pub(super) run: PathBuf,
    /// Change a key, as `--set parallel.pipeline=4`; the value is read as JSON, else as a string; `null` removes the key.
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    pub(super) set: Vec<String>,
}

/// What is wrong with a run's data, if its files cannot be found, or are damaged.
pub(super) fn fault_of_data(data: DataPath<'_>) -> Option<String> {
    match data {
        DataPath::Text(path) => find_text(path).err().map(|error| error.to_string()),
        DataPath::Tokens { path, token_type } => {
            TokenFile::open(path, token_type).err().map(|error| error.to_string())
        }
        DataPath::Tokenizer { path, end_token } => {
            Tokenizer::load(path, end_token).err().map(|error| error.to_string())
        }
    }
}

/// The plan of a run file whose data can be used as far as is known before it is read, and the notices on file, plan and data.
pub(super) fn plan_with_data(file: &RunFile) -> Result<(Plan, Vec<Notice>), Failure> {
    let (plan, mut notices) = Plan::from_file_with(file, Launch::this_host(), &fault_of_data)?;
    if !plan.run().model.learns() {
        return Ok((plan, notices));
    }
    let inspected = inspect(&plan.run().data, plan.micro_batch_shape().seq_length, plan.vocab_size());
    let inspected = inspected
        .map_err(|error| file.error_at(&[error.key()], Problem::Data { reason: error.to_string() }))?;
    if let Some(path) = inspected.json_lines {
        let place = file.place(&["data.text"]);
        notices.push(Notice::new(NoticeKind::Warning, &place, json_as_text(&path)));
    }
    if inspected.all_say_their_type && file.has(TOKEN_TYPE) {
        let place = file.place(&[TOKEN_TYPE]);
        let hint = "no effect here: each file of tokens says itself how it stores them".to_owned();
        notices.push(Notice::new(NoticeKind::Hint, &place, hint));
    }
    Ok((plan, notices))
}

/// What is said of a text that holds JSON on each line.
pub(super) fn json_as_text(path: &Path) -> String {
    let path = path.display();
    format!(
        "`{path}` is read as text, names of fields and all; `pipezero tokenize` makes tokens of the text in its fields"
    )
}

const TOKEN_TYPE: &str = "data.token_type";

impl RunArgs {
    /// The file with its overrides.
    pub(super) fn load(&self) -> Result<RunFile, Failure> {
        Ok(RunFile::load(&self.run)?.set(&self.set)?)
    }

    /// The plan for this host, and the notices on the file and the plan.
    pub(super) fn plan(&self) -> Result<(Plan, Notices), Failure> {
        self.plan_on(Launch::this_host())
    }

    /// The same for a device, if one is named: `"device": "auto"` is what that is.
    pub(super) fn plan_for(&self, device: Option<&str>) -> Result<(Plan, Notices), Failure> {
        let launch = Launch::this_host();
        let named = device.and_then(DeviceSpec::by_name);
        let gpu = named.map_or(launch.gpu, |device| match device.is_gpu() {
            true => HostGpu::Present,
            false => HostGpu::Absent,
        });
        self.plan_on(Launch { gpu, ..launch })
    }

    fn plan_on(&self, launch: Launch) -> Result<(Plan, Notices), Failure> {
        let (plan, notices) = Plan::from_file(&self.load()?, launch)?;
        Ok((plan, Notices::new(self.name(), notices)))
    }

    /// The file, as messages call it.
    pub(super) fn name(&self) -> String {
        printable(&named(&self.run).display().to_string()).into_owned()
    }
}
