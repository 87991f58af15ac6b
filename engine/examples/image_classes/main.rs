//! Which class an image is of, by a small vision transformer: patches of the image as vectors, a linear map, and GPT-2's blocks, as in "An Image is
//! Worth 16x16 Words" (arXiv:2010.11929), but that a token sees the patches before it, so that the last one says the class:
//!
//! ```text
//! cargo run --release --example image_classes
//! ```

#[cfg(test)]
mod tests;

use std::error::Error;
use std::f32::consts::TAU;
use std::sync::Arc;

use pipezero::models::layer::IGNORED_TARGET;
use pipezero::models::model::{LayerRole, ModelLayer, Tying};
use pipezero::models::shared::Linear;
use pipezero::models::{EncoderLimits, EncoderModule, InputEncoder, gpt2};
use pipezero::run::data::{BatchSource, EncoderInput, TokenBatch};
use pipezero::{Engine, Plan, Resources, Run, RunFile};

/// Pixels of a side of an image, of a side of a patch, and patches of a side.
const SIDE: usize = 16;
const PATCH: usize = 4;
const GRID: usize = SIDE / PATCH;
/// Stripes across the image, down it, and along either diagonal.
const CLASSES: [[f32; 2]; 4] = [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7], [0.7, -0.7]];
/// The token that holds the place of a patch. Those before it are the classes.
const PLACE: u32 = CLASSES.len() as u32;

/// A token for each patch. The text is not read: the data is [`images`].
const RUN: &str = r#"{
    "model": {
        "family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16, "vocab_size": 256
    },
    "data": { "text": "unread.txt" },
    "parallel": { "pipeline": 2, "data": 2 },
    "zero_optimization": { "stage": 3, "parameters": ["whole:^patches$"] },
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 2,
    "optimizer": { "type": "AdamW", "params": { "lr": 0.003 } },
    "device": "cpu",
    "steps": 150
}"#;

fn run() -> Result<Run, Box<dyn Error>> {
    Ok(RunFile::parse("image_classes", RUN)?.resolve(Resources::this_host())?.0)
}

fn plan(run: Run) -> Result<Plan, Box<dyn Error>> {
    let sizes = run.model.gpt().ok_or("the family is gpt2")?.clone();
    let mut model = gpt2::build(&sizes)?;
    let map = Linear::new("patches.map", [PATCH * PATCH, sizes.hidden_size], 0.1);
    let module = EncoderModule::new("patches", vec![Arc::new(map)])?;
    let limits = EncoderLimits { inputs_per_sequence: 1, rows_per_input: GRID * GRID };
    let encoder = InputEncoder::new("patches", vec![module], sizes.hidden_size, limits)?;
    // Behind the token embedding; the blocks are behind the positions, which say where a patch lies.
    model.layers.insert(1, ModelLayer::new(encoder, LayerRole::Embedding, Tying::Untied));
    Ok(Plan::with_model(run, model)?)
}

/// An image of a class with this number, row after row.
fn image(class: usize, number: u64) -> Vec<f32> {
    let draw = |of: u64| {
        let mixed = (number * 1024 + of + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) as u32 as f32 / u32::MAX as f32
    };
    let ([x, y], phase) = (CLASSES[class], draw(0));
    let place = |pixel: usize| [pixel % SIDE, pixel / SIDE].map(|place| place as f32 / 6.0);
    let wave = |[column, row]: [f32; 2]| (TAU * (x * column + y * row + phase)).sin();
    (0..SIDE * SIDE).map(|pixel| wave(place(pixel)) + draw(1 + pixel as u64) - 0.5).collect()
}

/// The same in patches, `[GRID * GRID, PATCH * PATCH]`.
fn patches(image: &[f32]) -> Vec<f32> {
    let of = |patch: usize| {
        let (first, rows) = (patch / GRID * PATCH * SIDE + patch % GRID * PATCH, 0..PATCH);
        rows.flat_map(move |row| &image[first + row * SIDE..][..PATCH])
    };
    (0..GRID * GRID).flat_map(of).copied().collect()
}

/// Images from a number on, another for each sequence of each step: only the last patch has a target.
fn images(first: u64, layout: &Plan) -> Arc<dyn BatchSource> {
    let [of_step, of_rank] = {
        let batch = &layout.run().batch;
        [batch.train_batch_size, batch.train_batch_size / layout.grid().data_degree]
    };
    Arc::new(move |step: u64, data_rank: usize, micro_batch: usize, batch: &mut TokenBatch| {
        batch.inputs.fill(PLACE);
        batch.targets.fill(IGNORED_TARGET);
        let num_sequences = batch.inputs.len() / (GRID * GRID);
        for sequence in 0..num_sequences {
            let place = data_rank * of_rank + micro_batch * num_sequences + sequence;
            let number = first + step * of_step as u64 + place as u64;
            let class = (number % CLASSES.len() as u64) as usize;
            let tokens: Vec<usize> = (sequence * GRID * GRID..(sequence + 1) * GRID * GRID).collect();
            batch.targets[tokens[GRID * GRID - 1]] = class as u32;
            batch.encoder_inputs.push(EncoderInput {
                module: 0,
                tokens: &tokens,
                values: &patches(&image(class, number)),
            });
        }
        Ok(())
    })
}

/// The loss on images that are not trained on.
fn validation_loss(engine: &mut Engine) -> Result<f64, Box<dyn Error>> {
    let unseen = images(1 << 40, engine.plan());
    Ok(engine.eval_batch(&unseen, 1)?.loss.ok_or("each image has a target")?)
}

fn engine(run: Run) -> Result<Engine, Box<dyn Error>> {
    let plan = plan(run)?;
    let source = images(0, &plan);
    Ok(Engine::new(plan, source)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut engine = engine(run()?)?;
    for _ in 0..engine.plan().run().steps {
        let report = engine.train_batch()?;
        println!("step {:>3}  loss {:.4}", report.step, report.loss.ok_or("each image has a target")?);
    }
    println!("on images that it has not seen: {:.4}", validation_loss(&mut engine)?);
    Ok(())
}
