//! New inputs in front of a pretrained model: rows of an image become vectors by an embedder that is trained, whole on each data rank; behind it a pretrained
//! language model goes on under ZeRO-3, frozen or trained on.
//!
//! ```text
//! cargo run --release --example pretrained_body             # the body stays as it is
//! cargo run --release --example pretrained_body -- --train  # the body is trained too
//! ```

#[cfg(test)]
mod tests;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use pipezero::models::layer::IGNORED_TARGET;
use pipezero::models::model::{LayerRole, ModelLayer, Tying};
use pipezero::models::shared::Linear;
use pipezero::models::{EncoderLimits, EncoderModule, InputEncoder, gpt2};
use pipezero::run::data::{BatchSource, EncoderInput, TokenBatch};
use pipezero::{Engine, Plan, Resources, Run, RunFile};

const TOKENS: usize = 8;
/// Classes, which are the first tokens of the vocabulary. A text is a class, up to three times, and then the word of this class.
const CLASSES: usize = 4;
/// Rows of an image at most, and values of a row.
const ROWS: usize = 3;
const WIDTH: usize = 8;
/// The token that holds the place of a row of an image.
const PLACE: u32 = 8;

/// The text is not read: the data is [`texts`] and [`images`].
const RUN: &str = r#"{
    "model": { "family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 8, "vocab_size": 256 },
    "data": { "text": "unread.txt" },
    "parallel": { "pipeline": 2, "data": 2 },
    "zero_optimization": { "stage": 3 },
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 2,
    "optimizer": { "type": "AdamW", "params": { "lr": 0.01 } },
    "device": "cpu",
    "steps": 60
}"#;

fn run(changes: &[String]) -> Result<Run, Box<dyn Error>> {
    Ok(RunFile::parse("pretrained_body", RUN)?.set(changes)?.resolve(Resources::this_host())?.0)
}

/// Changes to the run: it begins with the weights at `body`, and the embedder is new.
fn with_embedder(body: &Path, trains_body: bool) -> Vec<String> {
    let mut changes = vec![
        format!("init.from={}", body.display()),
        "init.new=[\"^rows\"]".to_owned(),
        "zero_optimization.parameters=[\"whole:^rows\"]".to_owned(),
    ];
    if !trains_body {
        changes.push("train_only=[\"^rows\"]".to_owned());
    }
    changes
}

/// GPT-2 behind an embedder of rows.
fn plan(run: Run) -> Result<Plan, Box<dyn Error>> {
    let sizes = run.model.gpt().ok_or("the family is gpt2")?.clone();
    let mut model = gpt2::build(&sizes)?;
    let map = Linear::new("rows.map", [WIDTH, sizes.hidden_size], 0.1);
    let module = EncoderModule::new("rows", vec![Arc::new(map)])?;
    let limits = EncoderLimits { inputs_per_sequence: 1, rows_per_input: ROWS };
    let encoder = InputEncoder::new("rows", vec![module], sizes.hidden_size, limits)?;
    model.layers.insert(1, ModelLayer::new(encoder, LayerRole::Embedding, Tying::Untied));
    Ok(Plan::with_model(run, model)?)
}

/// The tokens and targets of a text: the first `length` tokens are `first`, and the word of the class follows.
fn text(class: usize, first: u32, length: usize) -> ([u32; TOKENS], [u32; TOKENS]) {
    let word = |place: usize| (16 + class * TOKENS + place) as u32;
    let mut tokens = [first; TOKENS];
    let mut targets = [IGNORED_TARGET; TOKENS];
    for place in length..TOKENS {
        tokens[place] = word(place - length);
        targets[place - 1] = word(place - length);
    }
    (tokens, targets)
}

/// The class of a sequence, and how often it stands at the beginning: both by its number.
fn of_sequence(number: u64) -> (usize, usize) {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed >> 33) as usize % CLASSES, 1 + (mixed >> 40) as usize % ROWS)
}

/// Fills a micro-batch, sequence after sequence.
fn source(
    plan: &Plan,
    fill: impl Fn(u64, usize, &mut TokenBatch) + Send + Sync + 'static,
) -> Arc<dyn BatchSource> {
    let [of_step, of_rank] = {
        let batch = &plan.run().batch;
        [batch.train_batch_size, batch.train_batch_size / plan.grid().data_degree]
    };
    Arc::new(move |step: u64, data_rank: usize, micro_batch: usize, batch: &mut TokenBatch| {
        let num_sequences = batch.inputs.len() / TOKENS;
        for sequence in 0..num_sequences {
            let place = data_rank * of_rank + micro_batch * num_sequences + sequence;
            fill(step * of_step as u64 + place as u64, sequence, batch);
        }
        Ok(())
    })
}

fn write(batch: &mut TokenBatch, sequence: usize, (tokens, targets): ([u32; TOKENS], [u32; TOKENS])) {
    let range = sequence * TOKENS..(sequence + 1) * TOKENS;
    batch.inputs[range.clone()].copy_from_slice(&tokens);
    batch.targets[range].copy_from_slice(&targets);
}

/// Texts alone: what the body learns before.
fn texts(plan: &Plan) -> Arc<dyn BatchSource> {
    source(plan, |number, sequence, batch| {
        let (class, length) = of_sequence(number);
        write(batch, sequence, text(class, class as u32, length));
    })
}

/// A row of the image of a class: a wave of its frequency.
fn row(class: usize, number: u64, row: usize) -> Vec<f32> {
    let phase = (number % 7) as f32 + row as f32;
    let wave =
        |place: usize| ((1 + class) as f32 * place as f32 * 0.7).sin() + 0.05 * (phase + place as f32).cos();
    (0..WIDTH).map(wave).collect()
}

/// Images of one to three rows in place of the classes; every fourth sequence is a text without an image.
fn images(plan: &Plan) -> Arc<dyn BatchSource> {
    source(plan, |number, sequence, batch| {
        let (class, length) = of_sequence(number);
        if number.is_multiple_of(4) {
            return write(batch, sequence, text(class, class as u32, length));
        }
        write(batch, sequence, text(class, PLACE, length));
        let places: Vec<usize> = (0..length).map(|place| sequence * TOKENS + place).collect();
        let rows: Vec<f32> = (0..length).flat_map(|place| row(class, number, place)).collect();
        batch.encoder_inputs.push(EncoderInput { module: 0, tokens: &places, values: &rows });
    })
}

/// Trains the body on texts and writes its weights.
fn pretrain(weights: &Path) -> Result<(), Box<dyn Error>> {
    let plan = Plan::new(run(&[])?)?;
    let source = texts(&plan);
    let mut engine = Engine::new(plan, source)?;
    for _ in 0..engine.plan().run().steps {
        engine.train_batch()?;
    }
    Ok(engine.save(weights)?)
}

/// An engine whose body begins with these weights, and its embedder with drawn ones.
fn engine(weights: &Path, trains_body: bool, changes: &[String]) -> Result<Engine, Box<dyn Error>> {
    let plan = plan(run(&[&with_embedder(weights, trains_body), changes].concat())?)?;
    let source = images(&plan);
    Ok(Engine::new(plan, source)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let trains_body = std::env::args().any(|argument| argument == "--train");
    let folder = tempfile::tempdir()?;
    let weights = folder.path().join("body.safetensors");
    pretrain(&weights)?;
    let mut engine = engine(&weights, trains_body, &[])?;
    let new: Vec<&str> = engine.plan().new_parameters().iter().map(String::as_str).collect();
    println!("read from the pretrained body, but for {}", new.join(", "));
    for _ in 0..engine.plan().run().steps {
        let report = engine.train_batch()?;
        println!("step {:>3}  loss {:.4}", report.step, report.loss.ok_or("each sequence has targets")?);
    }
    Ok(())
}
