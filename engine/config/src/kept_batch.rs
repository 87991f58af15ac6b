//! The batch of a resumed run: a step has as many sequences as it had, on another grid too.

use super::batch_keys::BatchKeys;
use super::resolved::BatchConfig;
use super::run_file::RunFile;
use super::whole_number;

const TRAIN: &str = "train_batch_size";
const MICRO: &str = "train_micro_batch_size_per_gpu";
const STEPS: &str = "gradient_accumulation_steps";

impl RunFile {
    /// For a resumed run, whose steps had so many sequences: where the file has no `train_batch_size`, or has all three batch keys, there are as many
    /// micro-batches as make a step of that size, whatever the data degree is now. A batch key among the arguments of [`RunFile::set`] is obeyed.
    pub fn keeping_batch(self, train_batch_size: usize) -> Self {
        let sets_batch = |argument: &String| {
            let path = argument.split('=').next().unwrap_or_default();
            // The path of an engine of a master file begins with its name.
            path.rsplit('.').next().is_some_and(|key| [TRAIN, MICRO, STEPS].contains(&key))
        };
        let is_set = self.arguments.iter().any(sets_batch);
        Self { kept_batch: (!is_set).then_some(train_batch_size), ..self }
    }

    /// The `--set` argument that says into how many micro-batches a step is cut, where [`RunFile::keeping_batch`] may have decided it.
    pub fn kept_batch(&self, batch: &BatchConfig) -> Option<String> {
        let number =
            |key: &str| usize::try_from(whole_number::read(self.root.find(key)?.number()?).ok()?).ok();
        let keys = BatchKeys { train: number(TRAIN), micro: number(MICRO), steps: number(STEPS) };
        keys.micro_of_kept(self.kept_batch?)?;
        Some(format!("{STEPS}={}", batch.num_micro_batches))
    }
}
