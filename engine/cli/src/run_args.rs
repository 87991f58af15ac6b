//! The arguments of every command that reads a run file.

use std::path::{Path, PathBuf};

use clap::Args;
use pipezero_config::{DataPath, HostGpu, Notice, NoticeKind, Problem, Resources, RunFile};
use pipezero_files::input::named;
use pipezero_files::printable::printable;
use pipezero_models::Distillation;
use pipezero_plan::Plan;
use pipezero_plan::costs::DeviceSpec;
use pipezero_run::data::{Inspected, find_text, inspect};
use pipezero_tokens::{TokenFile, Tokenizer};

use super::failure::Failure;
use super::notices::Notices;

/// A run file and its overrides.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The run file, JSON; `-` reads it from stdin. For `train`, `check` and `plan` a master file of several models, too.
    #[arg(value_name = "RUN.json")]
    pub(super) run: PathBuf,
    /// Change a key, as `--set parallel.pipeline=4`; the value is read as JSON, else as a string; `null` removes the key. Of a master file: `--set engines.NAME.KEY=VALUE`.
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    pub(super) set: Vec<String>,
}

/// Why a file of a run's data cannot be found.
pub(super) fn not_found(data: DataPath<'_>) -> Option<String> {
    match data {
        DataPath::Text(path) => find_text(path).err().map(|error| error.to_string()),
        DataPath::Tokens(path) => TokenFile::find(path).err().map(|error| error.to_string()),
        DataPath::Tokenizer(path) => Tokenizer::find(path).err().map(|error| error.to_string()),
    }
}

/// A run file's plan and what was found of its data.
pub(super) struct PlannedData {
    pub(super) plan: Plan,
    /// Of the file, the plan and the data.
    pub(super) notices: Vec<Notice>,
    /// `None` of a model that reads no data.
    pub(super) data: Option<Inspected>,
}

/// Plans a run file whose data can be used, as far as that is known before it is read; of an engine that learns from a teacher's logits too, if
/// it does.
pub(super) fn plan_with_data_of(
    file: &RunFile,
    resources: Resources,
    distillation: Option<Distillation>,
) -> Result<PlannedData, Failure> {
    let (plan, mut notices) = match distillation {
        Some(distillation) => Plan::of_student(file, resources, &not_found, distillation)?,
        None => Plan::from_file_with(file, resources, &not_found)?,
    };
    if !plan.run().model.learns() {
        return Ok(PlannedData { plan, notices, data: None });
    }
    let config = &plan.run().data;
    let inspected = inspect(config, plan.micro_batch_shape().seq_length, plan.vocab_size());
    let inspected = inspected
        .map_err(|error| file.error_at(&[error.key()], Problem::Data { reason: error.to_string() }))?;
    let mut say = |kind, key, text| notices.push(Notice::new(kind, &file.place(&[key]), text));
    if let Some(path) = &inspected.json_as_text {
        say(NoticeKind::Warning, "data.text", json_as_text(path));
    }
    if let Some(path) = &inspected.dated_template {
        say(NoticeKind::Warning, "data.text", dated_template(path));
    }
    if !config.text.is_empty() && config.tokenizer.is_none() && plan.vocab_size() >= WORDS_VOCAB_SIZE {
        let rule = format!(
            "text is read as bytes, which are 256 of the {} tokens; name the model's tokenizer as `data.tokenizer`",
            plan.vocab_size()
        );
        say(NoticeKind::Warning, "data.text", rule);
    }
    if inspected.all_say_their_type && file.has(TOKEN_TYPE) {
        let hint = "no effect here: each file of tokens says itself how it stores them".to_owned();
        say(NoticeKind::Hint, TOKEN_TYPE, hint);
    }
    Ok(PlannedData { plan, notices, data: Some(inspected) })
}

/// A file that begins as JSON does, and whose name says that it is text.
pub(super) fn json_as_text(path: &Path) -> String {
    let path = path.display();
    format!(
        "`{path}` begins as JSON does and is read as text, names of fields and all, since a name says what a file is; give it the ending .jsonl or \
         .json, and each of its objects is a document"
    )
}

/// A chat template that writes the date into conversations.
pub(super) fn dated_template(path: &Path) -> String {
    format!(
        "the chat template `{}` writes the date into conversations, so their tokens are others tomorrow; set SOURCE_DATE_EPOCH to seconds since 1970 to \
         fix it, or make files of tokens with `pipezero tokenize`",
        path.display()
    )
}

/// A vocabulary of so many tokens is one of words and their parts.
const WORDS_VOCAB_SIZE: usize = 4096;

const TOKEN_TYPE: &str = "data.token_type";

/// This host, or one with a device, if one is named: `"device": "auto"` is what that is.
pub(super) fn resources_for(device: Option<&str>) -> Resources {
    let resources = Resources::this_host();
    let named = device.and_then(DeviceSpec::by_name);
    let gpu = named.map_or(resources.gpu, |device| match device.is_gpu() {
        true => HostGpu::Present,
        false => HostGpu::Absent,
    });
    Resources { gpu, ..resources }
}

impl RunArgs {
    /// The file with its overrides.
    pub(super) fn load(&self) -> Result<RunFile, Failure> {
        Ok(RunFile::load(&self.run)?.set(&self.set)?)
    }

    /// The plan for this host, and the notices on the file and the plan.
    pub(super) fn plan(&self) -> Result<(Plan, Notices), Failure> {
        self.plan_on(Resources::this_host())
    }

    /// The same for a device, if one is named.
    pub(super) fn plan_for(&self, device: Option<&str>) -> Result<(Plan, Notices), Failure> {
        self.plan_on(resources_for(device))
    }

    fn plan_on(&self, resources: Resources) -> Result<(Plan, Notices), Failure> {
        let (plan, notices) = Plan::from_file(&self.load()?, resources)?;
        Ok((plan, Notices::new(self.name(), notices)))
    }

    /// The file, as messages call it.
    pub(super) fn name(&self) -> String {
        printable(&named(&self.run).display().to_string()).into_owned()
    }
}
