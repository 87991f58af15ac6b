//! The run file and the files that it names, as a run directory keeps them.

use std::fs::{self, File};
use std::io;

use pipezero_config::hugging_face::Origin;
use pipezero_config::{Copies, Precision, RunFile, ScheduleConfig, ShardingConfig, ZeroLevel};
use pipezero_files::input::is_not_regular;
use pipezero_plan::Plan;

use super::copied_tokenizer::CopiedTokenizer;
use super::run_dir::RunDir;
use super::run_dir_error::RunDirError;

impl RunDir {
    /// The names of the files that go along with a run file.
    pub const COPIES: Copies = Copies { schedule: Self::SCHEDULE, tokenizer: Self::TOKENIZER };

    /// Writes the run that is about to start: an empty file of metrics, by which the folder is known as a run's, its run file, and its schedule
    /// and its tokenizer if it has those. What the plan made of a residency that was left to it is written too, so that another host plans the run
    /// as it ran. Where `memory` bounds the split it is not: the split is that of the fewest resident units, and with these numbers written it could
    /// be another. A list of what is sharded, on which bits depend, is written in any case, and so is the type to compute in where the device
    /// decided it.
    ///
    /// So is what the run keeps of the folder that its model came from; without `origin`, that of an earlier start stays.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn record(
        &self,
        file: &RunFile,
        plan: &Plan,
        tokenizer: Option<&CopiedTokenizer>,
        origin: Option<&Origin>,
    ) -> Result<(), RunDirError> {
        let run = plan.run();
        let metrics = self.file(Self::METRICS);
        let io = |source| RunDirError::Io { path: metrics.clone(), source };
        match File::create_new(&metrics) {
            // The lines that it has are still needed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if is_not_regular(&metrics) || !metrics.exists() {
                    self.write(Self::METRICS, "")?;
                }
            }
            made => drop(made.map_err(io)?),
        }
        // The schedule comes first, so that a run file never names one that is missing.
        if let ScheduleConfig::File { order, .. } = &run.parallel.schedule {
            self.write(Self::SCHEDULE, &order.to_csv())?;
        }
        let zero = &run.zero;
        let mut resolved = Vec::new();
        // The folder may be gone when the run is used.
        resolved.extend(file.model_in_full(&run.model).map(|section| format!("model={section}")));
        if file.leaves_bf16_open() {
            resolved.push(format!("bf16.enabled={}", run.precision == Precision::Bf16));
        }
        if zero.level == ZeroLevel::Zero3 && run.memory_bytes.is_none() {
            let residency = serde_json::to_string(&zero.resident_units).expect("a number, a list or a word");
            resolved.push(format!("zero_optimization.resident_units={residency}"));
        }
        if *plan.asked_sharding() == ShardingConfig::Auto {
            let list = zero.sharding.rules_as_json();
            resolved.push(format!("zero_optimization.parameters={list}"));
            resolved.push("zero_optimization.sharding=listed".to_owned());
            resolved.push("zero_optimization.stage3_param_persistence_threshold=0".to_owned());
        }
        if let Some(origin) = origin {
            origin.write_to(self.path()).map_err(|error| RunDirError::Io {
                path: self.path().to_owned(),
                source: io::Error::other(error.to_string()),
            })?;
        }
        resolved.extend(file.kept_batch(&run.batch));
        let end_token = tokenizer.map(|tokenizer| tokenizer.write_to(self)).transpose()?.flatten();
        // The data by which it was chosen may be gone when the run is used.
        if run.data.document_attention && !file.has("data.document_attention") {
            resolved.push("data.document_attention=true".to_owned());
        }
        if let Some(end_token) = end_token {
            resolved.push(format!("data.end_token={end_token}"));
        }
        let file = file.clone().set(&resolved).expect("the run file was valid");
        let text = file.effective_json(&Self::COPIES);
        self.write(Self::RUN_FILE, &text)?;
        // A run that goes on has not ended.
        let summary = self.file(Self::SUMMARY);
        match fs::remove_file(&summary) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(RunDirError::Io { path: summary, source });
            }
            _ => {}
        }
        let _ = self.recorded.set(text);
        Ok(())
    }
}
