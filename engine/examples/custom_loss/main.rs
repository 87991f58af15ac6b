//! A loss of one's own, of two terms that it reports beside its value, and a run directory as `pipezero train` leaves it:
//!
//! ```text
//! cargo run --release --example custom_loss      # writes runs/custom_loss
//! ```

#[cfg(test)]
mod tests;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pipezero::models::kernels::cross_entropy::NUM_STATISTICS;
use pipezero::models::layer::{IGNORED_TARGET, LossSum};
use pipezero::models::{CrossEntropy, Loss, Queue, View, ViewMut, gpt2};
use pipezero::train::{EvalLine, Observer, RunDir, StepLine, Summary, Training};
use pipezero::{Plan, Resources, Run, RunFile};

const RUN: &str = r#"{
    "model": { "family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 2, "seq_length": 32 },
    "data": { "text": "docs/*.md", "validation": 0.1 },
    "evaluation": { "every": 0, "batches": 2 },
    "parallel": { "pipeline": 2, "data": 2 },
    "zero_optimization": { "stage": 3 },
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "optimizer": { "type": "AdamW", "params": { "lr": 0.01 } },
    "device": "cpu",
    "steps": 40
}"#;

/// `cross-entropy + weight * (ln Z)^2` of each token, with `Z` the sum of its exponentiated logits: it keeps `Z` near 1, so that logits do not
/// drift (PaLM, arXiv:2204.02311, section 5).
#[derive(Debug)]
struct WithZLoss {
    weight: f32,
}

impl Loss for WithZLoss {
    fn num_kept_per_row(&self) -> usize {
        CrossEntropy.num_kept_per_row()
    }

    fn part_names(&self) -> &[&'static str] {
        &["cross_entropy", "z_loss"]
    }

    fn forward(
        &self,
        queue: &dyn Queue,
        logits: View<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        mut per_row: ViewMut<'_>,
        mut loss: ViewMut<'_>,
    ) {
        // Nobody asks for the loss where the forward is computed once more for the backward.
        let num_words = loss.len().min(LossSum::NUM_WORDS);
        let sum = loss.reborrow().range(0..num_words);
        CrossEntropy.forward(queue, logits, targets, inputs, per_row.reborrow(), sum);
        let weight = f64::from(self.weight);
        let kernel = move |reads: &[View<'_>], writes: Vec<ViewMut<'_>>| {
            let z_loss = counted(reads).map(|(_, ln_z)| f64::from(ln_z) * f64::from(ln_z)).sum();
            for loss in writes {
                if let [loss, cross_entropy, z] = loss.slice::<u32>().as_chunks_mut().0 {
                    let found = LossSum::from_words(*loss);
                    let of = |sum| LossSum { sum, ..found }.to_words();
                    *loss = of(found.sum + weight * z_loss);
                    [*cross_entropy, *z] = [of(found.sum), of(z_loss)];
                }
            }
        };
        queue.on_host(&[targets, per_row.view()], vec![loss], Box::new(kernel));
    }

    fn backward(
        &self,
        queue: &dyn Queue,
        mut logits: ViewMut<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        per_row: View<'_>,
        seed: f32,
    ) {
        CrossEntropy.backward(queue, logits.reborrow(), targets, inputs, per_row, seed);
        let weight = self.weight;
        let kernel = move |reads: &[View<'_>], writes: Vec<ViewMut<'_>>| {
            let targets = reads[0].slice::<u32>();
            for logits in writes {
                let logits = logits.slice::<f32>();
                let width = logits.len() / targets.len();
                for (row, ln_z) in counted(reads) {
                    // The gradient of (ln Z)^2 is 2 ln Z softmax, and cross-entropy has left seed * (softmax - one_hot).
                    let (gradient, factor) = (&mut logits[row * width..][..width], 2.0 * weight * ln_z);
                    gradient.iter_mut().for_each(|x| *x *= 1.0 + factor);
                    gradient[targets[row] as usize] += factor * seed;
                }
            }
        };
        queue.on_host(&[targets, per_row], vec![logits], Box::new(kernel));
    }
}

/// Each row whose target counts, and the logarithm of its Z, which cross-entropy has kept first; of targets and what was kept.
fn counted<'a>(reads: &[View<'a>]) -> impl Iterator<Item = (usize, f32)> + use<'a> {
    let (targets, kept) = (reads[0].slice::<u32>(), reads[1].slice::<f32>());
    let rows = targets.iter().zip(kept.chunks_exact(NUM_STATISTICS)).enumerate();
    rows.filter(|(_, (target, _))| **target != IGNORED_TARGET).map(|(row, (_, kept))| (row, kept[0]))
}

fn run(changes: &[String]) -> Result<Run, Box<dyn Error>> {
    Ok(RunFile::parse("custom_loss", RUN)?.set(changes)?.resolve(Resources::this_host())?.0)
}

fn plan(run: Run) -> Result<Plan, Box<dyn Error>> {
    let sizes = run.model.gpt().ok_or("the family is gpt2")?;
    let model = gpt2::build_with_loss(sizes, Arc::new(WithZLoss { weight: 1e-2 }))?;
    Ok(Plan::with_model(run, model)?)
}

/// Says what became of each step.
struct Printed;

impl Observer for Printed {
    fn step(&mut self, line: &StepLine) {
        let parts: Vec<_> = line
            .loss_parts
            .iter()
            .map(|part| format!("{} {:.4}", part.name, part.mean.unwrap_or(f64::NAN)))
            .collect();
        println!("step {:>2}  loss {:.4}  {}", line.step, line.loss.unwrap_or(f64::NAN), parts.join("  "));
    }

    fn evaluation(&mut self, line: &EvalLine) {
        println!("validation loss {:.4}", line.validation_loss.unwrap_or(f64::NAN));
    }
}

fn train(run: Run, directory: &Path) -> Result<Summary, Box<dyn Error>> {
    let training = Training::new(plan(run)?)?;
    let directory = RunDir::create(directory, false)?;
    Ok(training.run(&directory, &AtomicBool::new(false), &mut Printed)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    train(run(&[])?, "runs/custom_loss".as_ref())?;
    Ok(())
}
