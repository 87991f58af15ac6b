//! A model of one's own on a grid of 2 pipeline ranks and 2 data ranks with ZeRO-3, its blocks written with candle_nn:
//!
//! ```text
//! cargo run --release --example custom_model
//! ```

#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::Arc;

use candle_core::{DType, Device, Module, Result as TensorResult, Tensor};
use candle_nn::{VarBuilder, linear};
use pipezero::models::adapter::{CandleLayer, Parameters};
use pipezero::models::layer::Layer;
use pipezero::models::parameter::ParameterSpec;
use pipezero::models::shared::chain;
use pipezero::run::data::TokenBatch;
use pipezero::{Engine, Plan, Resources, Run, RunFile};

const WIDTH: usize = 32;
const HIDDEN: usize = 64;
const SEQ_LENGTH: usize = 16;

/// Of `model` counts what is around the blocks: a token embedding, and a head with cross-entropy. The text is not read: the data is [`words`].
const RUN: &str = r#"{
    "model": { "family": "mlp", "num_layers": 4, "hidden_size": 32, "seq_length": 16, "vocab_size": 256 },
    "data": { "text": "unread.txt" },
    "parallel": { "pipeline": 2, "data": 2, "schedule": "1f1b" },
    "zero_optimization": { "stage": 3 },
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "optimizer": { "type": "AdamW", "params": { "lr": 0.01, "weight_decay": 0 } },
    "gradient_clipping": 0,
    "device": "cpu",
    "steps": 60
}"#;

/// A block: what the two tokens before say, through two linear maps, added to the token. `[B, T, WIDTH]` to the same.
fn block(parameters: VarBuilder<'_>, input: &Tensor) -> TensorResult<Tensor> {
    let up = linear(3 * WIDTH, HIDDEN, parameters.pp("up"))?;
    let down = linear(HIDDEN, WIDTH, parameters.pp("down"))?;
    let earlier = |by| input.narrow(1, 0, SEQ_LENGTH - by)?.pad_with_zeros(1, by, 0);
    let seen = Tensor::cat(&[&earlier(2)?, &earlier(1)?, input], 2)?;
    input + down.forward(&up.forward(&seen)?.gelu()?)?
}

/// The same as a layer of the engine's, which knows the parameters, shards them and gathers them for each use.
fn layer(index: usize) -> Result<Arc<dyn Layer>, Box<dyn Error>> {
    let parameters = vec![
        ParameterSpec::normal("up.weight", [HIDDEN, 3 * WIDTH], 0.1),
        ParameterSpec::zeros("up.bias", [HIDDEN]),
        ParameterSpec::normal("down.weight", [WIDTH, HIDDEN], 0.1),
        ParameterSpec::zeros("down.bias", [WIDTH]),
    ];
    let module = |parameters: &Parameters, input: &Tensor| {
        block(VarBuilder::from_tensors(parameters.to_map(), DType::F32, &Device::Cpu), input)
    };
    Ok(Arc::new(CandleLayer::new(format!("h.{index}"), [WIDTH; 2], SEQ_LENGTH, parameters, module)?))
}

fn run() -> Result<Run, Box<dyn Error>> {
    Ok(RunFile::parse("custom_model", RUN)?.resolve(Resources::this_host())?.0)
}

fn engine(run: Run) -> Result<Engine, Box<dyn Error>> {
    let sizes = run.model.gpt().ok_or("the family reads tokens")?.clone();
    let blocks = (0..sizes.num_layers).map(layer).collect::<Result<_, _>>()?;
    let plan = Plan::with_model(run, chain(&sizes, blocks, None)?)?;
    Ok(Engine::new(plan, Arc::new(words))?)
}

/// Words, one behind the other, of which each micro-batch sees another part.
fn words(
    step: u64,
    data_rank: usize,
    micro_batch: usize,
    batch: &mut TokenBatch,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let text = b"the cat sat on the mat and the rat sat on the cat ";
    let start = 7 * step as usize + 11 * data_rank + 13 * micro_batch;
    for (position, (input, target)) in batch.inputs.iter_mut().zip(&mut batch.targets).enumerate() {
        *input = text[(start + position) % text.len()].into();
        *target = text[(start + position + 1) % text.len()].into();
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut engine = engine(run()?)?;
    for _ in 0..engine.plan().run().steps {
        let report = engine.train_batch()?;
        println!("step {:>2}  loss {:.4}", report.step, report.loss.ok_or("tokens carry loss")?);
    }
    Ok(())
}
