//! The differences between a resumed run and the run that wrote its checkpoint.
//!
//! The checkpoint's own record of its run is compared, not the run file of the last start: that one may have ended before it wrote a checkpoint.

use std::cell::LazyCell;
use std::path::Path;

use pipezero_config::{ChangedKey, Effect, OptimizerConfig, Run, SchedulerConfig};
use pipezero_models::{CrossEntropy, Loss};
use pipezero_plan::Plan;
use pipezero_run::checkpoint::{Checkpoints, Manifest};
use pipezero_run::engine::AboutRun;
use pipezero_run::optimizer::LearningRate;
use serde::Serialize;
use serde_json::{Value, json};

use super::batches::Batches;
use super::teacher::{Teacher, TeacherWeights};

/// Steps, at most, among which one with another learning rate is looked for.
const STEPS_MAX: u64 = 1 << 20;

/// The differences between a resumed run and the run before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Changes to the training: the keys, and how it differs.
    pub learned: Vec<(Vec<ChangedKey>, String)>,
    /// Changed keys that do not affect the training.
    pub others: Vec<ChangedKey>,
}

/// The description of a run that a checkpoint keeps: the resolved run file, the loss, the teacher, and checksums of the data and the tokenizer.
pub(super) fn about(plan: &Plan, batches: &Batches, teacher: Option<&Teacher>) -> AboutRun {
    let mut run = serde_json::to_value(plan.run()).expect("a run has string keys and finite depth");
    if let Some(checksum) = &batches.tokenizer_checksum {
        run["data"]["tokenizer_checksum"] = checksum.as_str().into();
    }
    if let Some(checksum) = &batches.validation_checksum {
        run["data"]["validation_checksum"] = checksum.as_str().into();
    }
    if let Some(TeacherWeights { path, checksum }) = teacher.map(Teacher::weights) {
        run["teacher"] = json!({"weights": path.to_string_lossy(), "checksum": checksum});
    }
    if let Some(loss) = plan.loss_description() {
        run["loss"] = loss.into();
    }
    AboutRun { run, text_checksum: batches.text_checksum.clone(), start: None }
}

impl Changes {
    /// Compares the run of a checkpoint with `run`, which `now` describes as checkpoints do.
    pub(super) fn since(checkpoint: &Manifest, now: &AboutRun, run: &Run) -> Self {
        let has_other_data = checkpoint.text_checksum != now.text_checksum;
        let read = as_read_back(&now.run);
        // Many steps are looked at, and most resumed runs have changed no rate.
        let rate = LazyCell::new(|| OtherRate::of(&checkpoint.run, run, checkpoint.position.step + 1));
        let mut changes = Self::default();
        let mut is_data_named = false;
        let before = with_loss(&checkpoint.run, &read);
        let keys = ChangedKey::between(&before, &read);
        let changed: Vec<&str> = keys.iter().map(|key| key.key).collect();
        let is_changed = |beginning: &str| changed.iter().any(|key| key.starts_with(beginning));
        for key in keys {
            let how = match key.effect {
                Effect::Learned(how) => Some(how.to_owned()),
                Effect::Data(how) => {
                    is_data_named |= has_other_data;
                    has_other_data.then(|| how.to_owned())
                }
                Effect::RateThrough(others) if !is_changed(others) => None,
                Effect::Rate | Effect::RateThrough(_) => rate.as_ref().map(OtherRate::in_words),
                Effect::None | Effect::Content { .. } => None,
            };
            changes.add(key, how);
        }
        let held_out = |run: &Value| run.pointer("/data/validation_checksum").cloned();
        let has_other_validation =
            held_out(&before).zip(held_out(&read)).is_some_and(|(before, now)| before != now);
        if has_other_validation && !has_other_data && !changes.names("data.validation_tokens") {
            let how = "the validation text is not the one that the checkpoint's run read: validation losses are those of other text from here on";
            changes.learned.push((Vec::new(), how.to_owned()));
        }
        if has_other_data && !is_data_named {
            let how = "the training text is not the one that the checkpoint's run read: its order of samples is another one from here on";
            changes.learned.push((Vec::new(), how.to_owned()));
        }
        changes
    }

    /// Whether a key is among those with a warning.
    fn names(&self, key: &str) -> bool {
        self.learned.iter().flat_map(|(keys, _)| keys).any(|changed| changed.key == key)
    }

    fn add(&mut self, key: ChangedKey, how: Option<String>) {
        let Some(how) = how else { return self.others.push(key) };
        match self.learned.iter_mut().find(|(_, known)| *known == how) {
            Some((keys, _)) => keys.push(key),
            None => self.learned.push((vec![key], how)),
        }
    }

    /// A warning for each way in which something is learned otherwise.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.learned.iter().map(|(keys, how)| match keys.is_empty() {
            true => how.clone(),
            false => format!("{} since the checkpoint: {how}", listed(keys)),
        })
    }

    /// The line about all other keys, if there are any.
    pub fn note(&self) -> Option<String> {
        (!self.others.is_empty()).then(|| format!("since the checkpoint: {}", listed(&self.others)))
    }
}

/// The keys in which a run differs from the one that wrote the newest checkpoint of a run directory, in words; `None` where there is no difference, or no
/// checkpoint. Contents of files are not compared.
pub fn changed_keys(plan: &Plan, directory: &Path) -> Option<String> {
    let newest = Checkpoints::of_run(directory).newest_before(u64::MAX, &mut Vec::new()).ok().flatten()?;
    let now = as_read_back(plan.run());
    let mut keys = ChangedKey::between(&newest.manifest().run, &now);
    // Keys that a run file cannot have, such as the loss.
    keys.retain(|key| key.now.is_some());
    (!keys.is_empty()).then(|| listed(&keys))
}

/// A run as a checkpoint gives it back: writing numbers may round them.
fn as_read_back(run: &impl Serialize) -> Value {
    let text = serde_json::to_string(run).expect("a run has string keys and finite depth");
    serde_json::from_str(&text).expect("it was written as JSON")
}

/// The run of a checkpoint with its loss, if that of `now` says one: earlier versions named only losses other than cross-entropy.
fn with_loss(run: &Value, now: &Value) -> Value {
    let mut run = run.clone();
    if let Some(run) = run.as_object_mut()
        && !run.contains_key("loss")
        && now.get("loss").is_some()
    {
        run.insert("loss".to_owned(), CrossEntropy.description().into());
    }
    run
}

fn listed(keys: &[ChangedKey]) -> String {
    keys.iter().map(ChangedKey::to_string).collect::<Vec<_>>().join(", ")
}

/// The first step whose learning rate is another one than it would have been.
struct OtherRate {
    step: u64,
    before: f64,
    now: f64,
}

impl OtherRate {
    fn of(before: &Value, now: &Run, next_step: u64) -> Option<Self> {
        let optimizer: OptimizerConfig = serde_json::from_value(before["optimizer"].clone()).ok()?;
        let scheduler: SchedulerConfig = serde_json::from_value(before["scheduler"].clone()).ok()?;
        let old = LearningRate::new(&optimizer, &scheduler);
        let new = LearningRate::new(&now.optimizer, &now.scheduler);
        let mut steps = (next_step..=now.steps.min(next_step.saturating_add(STEPS_MAX))).map(|step| Self {
            step,
            before: old.at(step),
            now: new.at(step),
        });
        steps.find(|Self { before, now, .. }| before != now)
    }

    fn in_words(&self) -> String {
        let rounded = |rate: f64| format!("{rate:.5e}").parse().unwrap_or(rate);
        let (step, before, now) = (self.step, rounded(self.before), rounded(self.now));
        format!("the learning rate is another one from step {step} on, which has {now} instead of {before}")
    }
}

#[cfg(test)]
mod tests {
    use pipezero_config::RunFile;
    use pipezero_config::testing::{RESOURCES, file};
    use pipezero_run::checkpoint::Position;

    use super::*;

    fn resolved(changes: &[(&str, &str)]) -> Run {
        RunFile::parse("run.json", &file(changes)).unwrap().resolve(RESOURCES).unwrap().0
    }

    fn described(run: &Run, text: &str) -> AboutRun {
        AboutRun {
            run: serde_json::to_value(run).unwrap(),
            text_checksum: Some(text.to_owned()),
            start: None,
        }
    }

    /// The lines about a run that goes on after step 5 of another one.
    fn lines(before: &[(&str, &str)], now: &[(&str, &str)], texts: [&str; 2]) -> Vec<String> {
        let run = resolved(now);
        lines_of(described(&resolved(before), texts[0]), described(&run, texts[1]), &run)
    }

    fn lines_of(before: AboutRun, now: AboutRun, run: &Run) -> Vec<String> {
        let position = Position { step: 5, update: 5, num_samples: 40 };
        let mut checkpoint = Manifest::new(position);
        checkpoint.run = serde_json::from_str(&before.run.to_string()).unwrap();
        checkpoint.text_checksum = before.text_checksum;
        let changes = Changes::since(&checkpoint, &now, run);
        changes.warnings().map(|line| format!("warning: {line}")).chain(changes.note()).collect()
    }

    /// It names no loss but that of a distillation, and no contents but those of the training data.
    #[test]
    fn a_checkpoint_of_an_earlier_version_is_not_taken_for_another_run() {
        let run = resolved(&[]);
        let with_loss = |loss: &str| {
            let mut about = described(&run, "t");
            about.run["data"]["validation_checksum"] = "1".into();
            about.run["loss"] = loss.into();
            about
        };
        assert_eq!(lines_of(described(&run, "t"), with_loss("cross-entropy"), &run), [""; 0]);
        let how = "since the checkpoint: what is minimised is another sum from here on";
        assert_eq!(
            lines_of(described(&run, "t"), with_loss("another"), &run),
            [format!("warning: loss \"cross-entropy\" -> \"another\" {how}")]
        );
    }

    #[test]
    fn what_is_held_out_is_named_unless_the_training_data_is_another_too() {
        let run = resolved(&[]);
        let about = |text: &str, held_out: &str| {
            let mut about = described(&run, text);
            about.run["data"]["validation_checksum"] = held_out.into();
            about
        };
        let text =
            |what: &str| format!("warning: the {what} text is not the one that the checkpoint's run read: ");
        let said = |before: AboutRun, now: AboutRun| lines_of(before, now, &run);
        assert_eq!(said(about("t", "v"), about("t", "v")), [""; 0]);
        for (now, what) in [(about("t", "w"), "validation"), (about("u", "w"), "training")] {
            let lines = said(about("t", "v"), now);
            assert!(lines.len() == 1 && lines[0].starts_with(&text(what)), "{lines:?}");
        }
    }

    const DECAY: (&str, &str) = (
        "scheduler",
        r#"{"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0.5, "warmup_max_lr": 1, "warmup_num_steps": 2, "warmup_type": "linear"}}"#,
    );

    #[test]
    fn a_longer_run_is_warned_of_where_its_rate_is_another() {
        let longer = ("steps", "20");
        assert_eq!(lines(&[], &[], ["t"; 2]), [""; 0]);
        assert_eq!(lines(&[], &[longer], ["t"; 2]), ["since the checkpoint: steps 10 -> 20"]);
        // Step 6 is iteration 4: (10 - 4) / (10 - 2) of the way from 0.5 to 1, and (20 - 4) / (20 - 2) of it.
        let rate = "the learning rate is another one from step 6 on, which has 0.944444 instead of 0.875";
        assert_eq!(
            lines(&[DECAY], &[DECAY, longer], ["t"; 2]),
            [format!(
                "warning: steps 10 -> 20, scheduler.params.total_num_steps 10 -> 20 since the checkpoint: {rate}"
            )]
        );
    }

    #[test]
    fn a_rate_that_the_scheduler_replaces_changes_nothing() {
        let optimizer = ("optimizer", r#"{"params": {"lr": 0.5}}"#);
        assert_eq!(
            lines(&[DECAY], &[DECAY, optimizer], ["t"; 2]),
            ["since the checkpoint: optimizer.params.lr 0.001 -> 0.5"]
        );
        assert_eq!(
            lines(&[], &[optimizer, ("steps", "20")], ["t"; 2]),
            [
                "warning: optimizer.params.lr 0.001 -> 0.5 since the checkpoint: the learning rate is another one from step 6 on, which has 0.5 instead of 0.001",
                "since the checkpoint: steps 10 -> 20"
            ]
        );
    }

    #[test]
    fn data_is_another_only_if_its_contents_are() {
        let elsewhere = ("data", r#"{"text": "/b.md"}"#);
        let moved = "data.text [\"a.md\"] -> [\"/b.md\"]";
        assert_eq!(lines(&[], &[elsewhere], ["t"; 2]), [format!("since the checkpoint: {moved}")]);
        let how = "the training data is another: its order of samples is another one from here on";
        assert_eq!(
            lines(&[], &[elsewhere], ["t", "u"]),
            [format!("warning: {moved} since the checkpoint: {how}")]
        );
        let text = "warning: the training text is not the one that the checkpoint's run read: its order of samples is another one from here on";
        assert_eq!(lines(&[], &[], ["t", "u"]), [text]);
    }
}
