//! What a core of this machine takes for the layers of a run, measured before a step on it is predicted.
//!
//! One layer of each kind computes a micro-batch of the run, forward and backward, in the order of a step, so that each finds in the caches what the
//! layers between have left there. The mean of several rounds counts: what else the machine does makes rounds longer, and steps of the run too.
//! Layers that are too large are computed on fewer tokens, or not at all.

mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipezero_models::kernels::linear::LinearShape;
use pipezero_models::queue::Onto;
use pipezero_models::{ElementType, Host, Layer, ModelError, Queue};
use pipezero_plan::Plan;
use pipezero_plan::costs::{CorePasses, CoreTimes, LayerKey};

use trial::{Trial, fill};

/// No round begins later than this.
const TIME: Duration = Duration::from_millis(400);
/// Cores that are measured at once, at most.
const CORES_MAX: usize = 16;
/// Bytes of the layers that all cores together work on, at most, unless one core alone needs more.
const BYTES_MAX: usize = 512 << 20;
/// How often a copy and a product are repeated.
const NUM_REPEATS: usize = 5;

/// Measures a core on the layers of a plan, within half a second or so, while as many others are at work as the run keeps busy: cores share caches,
/// memory and clocks, and what a system calls a core may be half of one. A kind of layers that needs what only a run has, such as the inputs of an
/// encoder, is left out.
///
/// # Errors
/// When a thread cannot be started, or there is no memory.
pub fn core_times(plan: &Plan, num_cores: usize) -> Result<CoreTimes, CoreTimesError> {
    let pool = one_thread()?;
    let copied_bytes_per_s = pool.install(copied_bytes_per_s)?;
    let mut of_cores = vec![trials(plan)?];
    let num_busy = plan.grid().world_size().saturating_mul(plan.run().threads).min(num_cores).min(CORES_MAX);
    let num_bytes = of_cores[0].values().map(Trial::num_bytes).sum::<usize>().max(1);
    let num_at_work = num_busy.min(BYTES_MAX / num_bytes).max(1);
    for _ in 1..num_at_work {
        of_cores.push(trials(plan)?);
    }
    let pools = of_cores.iter().map(|_| one_thread()).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        for (trials, pool) in of_cores.iter_mut().zip(&pools) {
            std::thread::Builder::new()
                .spawn_scoped(scope, move || pool.install(|| run_rounds(trials)))
                .map_err(|error| CoreTimesError::Thread(error.to_string()))?;
        }
        Ok::<(), CoreTimesError>(())
    })?;
    let layers = mean_passes(&of_cores);
    let flops_per_s = match flops_per_s(plan, &layers) {
        Some(rate) => rate,
        None => pool.install(product_flops_per_s)?,
    };
    Ok(CoreTimes { layers, flops_per_s, copied_bytes_per_s, num_at_work })
}

/// A pool for kernels of a rank with one thread.
fn one_thread() -> Result<rayon::ThreadPool, CoreTimesError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.map_err(|error| CoreTimesError::Thread(error.to_string()))
}

/// Why a core was not measured.
#[derive(Debug, thiserror::Error)]
pub enum CoreTimesError {
    /// No thread could be started.
    #[error("a core of this machine cannot be measured: no thread can be started: {0}")]
    Thread(String),
    /// There is no memory for a layer's buffers.
    #[error("a core of this machine cannot be measured: {0}")]
    Memory(#[from] ModelError),
}

/// Runs all layers, forward and backward, again and again. The first round does not count if there are others: it finds nothing in the caches, and its
/// memory has never been touched.
fn run_rounds(trials: &mut BTreeMap<usize, Trial>) {
    let start = Instant::now();
    for round in 0_u64.. {
        if round == 1 {
            trials.values_mut().for_each(Trial::begin_again);
        }
        trials.values_mut().for_each(Trial::forward);
        trials.values_mut().rev().for_each(Trial::backward);
        if trials.is_empty() || start.elapsed() > TIME {
            return;
        }
    }
}

/// The mean time of each kind of layers over the cores.
fn mean_passes(of_cores: &[BTreeMap<usize, Trial>]) -> BTreeMap<LayerKey, CorePasses> {
    let mut layers: BTreeMap<LayerKey, CorePasses> = BTreeMap::new();
    let share = 1.0 / of_cores.len() as f64;
    for trial in of_cores.iter().flat_map(BTreeMap::values) {
        let (sum, passes) = (layers.entry(trial.key.clone()).or_default(), trial.passes());
        sum.forward_ns += share * passes.forward_ns;
        sum.backward_input_ns += share * passes.backward_input_ns;
        sum.backward_weight_ns += share * passes.backward_weight_ns;
    }
    layers
}

/// A layer of each kind, by the place of the first in the model.
fn trials(plan: &Plan) -> Result<BTreeMap<usize, Trial>, ModelError> {
    let mut trials: BTreeMap<usize, Trial> = BTreeMap::new();
    for (place, layer) in layers(plan).enumerate() {
        let key = LayerKey::of(&**layer);
        if trials.values().all(|trial| trial.key != key)
            && let Some(trial) = Trial::new(plan, layer, key)?
        {
            trials.insert(place, trial);
        }
    }
    Ok(trials)
}

fn layers(plan: &Plan) -> impl Iterator<Item = &Arc<dyn Layer>> {
    plan.units().iter().flat_map(|unit| unit.unit.layers())
}

/// Operations of all layers that were measured over their time.
fn flops_per_s(plan: &Plan, layers_measured: &BTreeMap<LayerKey, CorePasses>) -> Option<f64> {
    let shape = plan.micro_batch_shape();
    let (mut flops, mut ns) = (0.0, 0.0);
    for layer in layers(plan) {
        if let Some(passes) = layers_measured.get(&LayerKey::of(&**layer)) {
            flops += (layer.forward_flops(shape) + layer.backward_flops(shape)) as f64;
            ns += passes.total_ns();
        }
    }
    (flops > 0.0 && ns > 0.0).then(|| flops / ns * 1e9)
}

/// Bytes that a core reads and writes in a second when it copies 16 MiB.
fn copied_bytes_per_s() -> Result<f64, ModelError> {
    const ELEMENTS: usize = 4 << 20;
    let mut from = Host.zeros(ELEMENTS, ElementType::F32)?;
    let mut to = Host.zeros(ELEMENTS, ElementType::F32)?;
    fill(&mut from)?;
    let least = least_of(NUM_REPEATS, || Host.copy(from.view(), to.view_mut()));
    Ok((2 * ELEMENTS * ElementType::F32.num_bytes()) as f64 / least)
}

/// Operations that a core achieves in a product of matrices, for runs whose layers are too large to be computed.
fn product_flops_per_s() -> Result<f64, ModelError> {
    let shape = LinearShape { num_rows: 256, num_inputs: 512, num_outputs: 512 };
    let mut x = Host.zeros(shape.num_rows * shape.num_inputs, ElementType::F32)?;
    let mut weight = Host.zeros(shape.num_inputs * shape.num_outputs, ElementType::F32)?;
    let mut y = Host.zeros(shape.num_rows * shape.num_outputs, ElementType::F32)?;
    fill(&mut x)?;
    fill(&mut weight)?;
    let least =
        least_of(NUM_REPEATS, || Host.linear(shape, x.view(), weight.view(), Onto::Nothing, y.view_mut()));
    Ok(shape.flops() as f64 / least)
}

/// The least seconds that something takes.
fn least_of(rounds: usize, mut run: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        run();
        least = least.min(start.elapsed().as_secs_f64());
    }
    // A clock that is too coarse.
    least.max(1e-9)
}

#[cfg(test)]
mod tests {
    use pipezero_plan::testing::{GPT2, plan};

    use super::trial::{TOKENS_MIN, shape_of};
    use super::*;

    #[test]
    fn every_kind_of_layer_is_measured_in_every_precision_and_family() {
        let llama = "model.family=llama";
        for changes in ["", "bf16.enabled=true", "model.dropout=0.1", llama] {
            let plan = plan(GPT2, changes);
            let found = core_times(&plan, 2).expect("a thread and some memory");
            for layer in layers(&plan) {
                let passes = found.layers[&LayerKey::of(&**layer)];
                assert!(passes.forward_ns > 0.0 && passes.total_ns() > passes.forward_ns, "{}", layer.name());
            }
            // From a core of a slow machine in a build without optimisation to what no core reaches.
            assert!((1e6..1e13).contains(&found.flops_per_s), "{found:?}");
            assert!((1e7..1e12).contains(&found.copied_bytes_per_s), "{found:?}");
        }
    }

    /// Blocks of 12 million parameters are not computed; a matrix product says how fast the core is.
    #[test]
    fn layers_that_are_too_large_are_not_computed() {
        let plan = plan(GPT2, "model.hidden_size=1600 model.seq_length=64");
        let found = core_times(&plan, 2).expect("a thread and some memory");
        assert!(found.layers.keys().all(|key| !format!("{key:?}").contains("mlp")), "{found:?}");
        assert!(found.flops_per_s > 1e6);
    }

    /// The tokens that are computed are as many as may take the time, and the scale makes up for the others.
    #[test]
    fn large_micro_batches_are_computed_in_part() {
        let plan = plan(GPT2, "model.hidden_size=256 model.seq_length=4096 train_micro_batch_size_per_gpu=8");
        let layer = layers(&plan).nth(1).expect("a block");
        let (whole, part) = (plan.micro_batch_shape(), shape_of(&**layer, plan.micro_batch_shape()));
        let part = part.expect("a few tokens are quick");
        assert!(part.num_tokens() < whole.num_tokens() && part.num_tokens() >= TOKENS_MIN);
    }
}
