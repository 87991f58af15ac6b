//! Prices without measurements: operations and bytes over a device's rates.
//!
//! - A layer takes as long as its matrix products, or as long as the bytes that it reads and writes, whichever is longer (the
//!   roofline, Williams et al., CACM 52(4), 2009). A forward computes [`pipezero_models::Layer::forward_flops`], each half of a
//!   backward as much again, a full backward both halves, a recomputation the forward.
//! - Bytes are parameters, activations and what is kept, each moved once; nothing stays in caches from one layer to the next.
//! - What the executor does around a message is bytes too: a shard is copied before it is gathered, a reduced shard added.
//! - A gradient that overwrites its buffer is priced as one that is added to it, which also reads the buffer: the first of a step,
//!   and each that a backward makes for a reduction of its own. For these it is an upper bound. No buffer is cleared.
//! - A message occupies its link for the bytes that a rank sends. Links are those of the run file (`comm.links`) where it has
//!   any, the device's otherwise. Without `comm.links` a CPU has no links: a collective occupies the cores of its ranks.
//! - Layers of given times take these: they would on any device. Layers that were measured on a core of this host take what they took there.
//! - A frozen unit has no weight gradient.
//! - Left out: launches, fusion, and what shapes a kernel runs well at. That is what the achieved share stands for.

use std::ops::Range;

use pipezero_config::PassTimes;
use pipezero_models::{ElementType, Layer};
use pipezero_schedule::Unit;
use pipezero_schedule::simulate::{MessageCost, UnitCosts};

use super::core_times::{CorePasses, LayerKey};
use super::device_spec::DeviceSpec;
use super::error::PredictError;
use super::message_kind::MessageKind;
use super::messages::{Message, counted_elements, owned_elements};
use super::needs::UnitNeeds;
use super::prices::Prices;
use crate::{Plan, PlannedUnit};

/// Bytes of an f32, which gradients, master weights and optimizer state are.
const F32_BYTES: f64 = ElementType::F32.num_bytes() as f64;

/// The costs of a plan on a device.
pub(super) struct Analytic<'a> {
    pub(super) plan: &'a Plan,
    pub(super) device: &'a DeviceSpec,
    /// How many of the device's rates a rank has: on a CPU its cores.
    pub(super) rates: f64,
}

/// What a pass over a layer does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Work {
    /// Operations of products with weights.
    product_flops: f64,
    /// Operations of attention.
    attention_flops: f64,
    bytes: f64,
}

/// A layer's passes, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LayerTimes {
    forward: f64,
    backward_input: f64,
    backward_weight: f64,
    /// Of the last layer of a segment, whose output is not computed again.
    recompute: f64,
}

impl Analytic<'_> {
    /// The longer of computing and moving, nanoseconds.
    fn time(&self, work: Work) -> f64 {
        let precision = self.plan.run().precision;
        let computing = work.product_flops / self.device.flops_per_s(precision)
            + work.attention_flops / self.device.attention_flops_per_s(precision);
        let moving = work.bytes / self.device.memory_bytes_per_s;
        computing.max(moving) / self.rates * 1e9
    }

    fn moving(&self, bytes: f64) -> u64 {
        nanoseconds(self.time(Work { bytes, ..Work::default() }))
    }

    fn layer(&self, layer: &dyn Layer) -> LayerTimes {
        if let Some(times) = self.plan.run().model.facts().given_times {
            return times.into();
        }
        let measured = self.device.measured.as_ref();
        if let Some(passes) = measured.and_then(|core| core.layers.get(&LayerKey::of(layer))) {
            return LayerTimes::from(*passes).divided_by(self.rates);
        }
        let shape = self.plan.micro_batch_shape();
        let sizes = layer.sizes(shape);
        let [flops, attention_flops] =
            [layer.forward_flops(shape), layer.attention_flops(shape)].map(|flops| flops as f64);
        let element_bytes = self.plan.element_type().num_bytes() as f64;
        let parameters: f64 = layer.parameters().iter().map(|spec| spec.num_elements() as f64).sum();
        let [input, output] = [sizes.input, sizes.output].map(|len| len as f64);
        let weight_inputs =
            element_bytes * sizes.weight_inputs as f64 + F32_BYTES * sizes.exact_weight_inputs as f64;
        // Of what slices keep together, each reads and writes its own part.
        let num_slices = layer.table_slice().num_slices as f64;
        let saved = (element_bytes * sizes.saved as f64 + F32_BYTES * sizes.exact as f64) / num_slices;
        let forward = saved + element_bytes * (parameters + input + output);
        let backward_input =
            saved + element_bytes * parameters + weight_inputs + F32_BYTES * (output + input);
        let backward_weight = saved + element_bytes * input + weight_inputs + 2.0 * F32_BYTES * parameters;
        // A half of the backward has as much of attention as the forward.
        let attention_share = if flops > 0.0 { attention_flops / flops } else { 0.0 };
        let time = |flops: f64, bytes| {
            let attention_flops = flops * attention_share;
            self.time(Work { product_flops: flops - attention_flops, attention_flops, bytes })
        };
        LayerTimes {
            forward: time(flops, forward),
            // What is recomputed on the way is its work.
            backward_input: time(layer.backward_flops(shape) as f64 - flops, backward_input),
            backward_weight: time(flops, backward_weight),
            recompute: time(flops, forward),
        }
    }

    /// What is recomputed by the unit's `R`, its last segment, and what its `B` recomputes before each of the others.
    fn recomputed(unit: &PlannedUnit, layers: &[LayerTimes]) -> [f64; 2] {
        let of = |segment: &Range<usize>| {
            let (last, others) =
                layers[segment.clone()].split_last().expect("a segment has at least one layer");
            others.iter().map(|layer| layer.forward).sum::<f64>() + last.recompute
        };
        let Some((last, others)) = unit.unit.segments().split_last() else { return [0.0; 2] };
        [of(last), others.iter().map(of).sum()]
    }

    /// What the executor reads and writes around a message.
    fn around(&self, message: &Message) -> [u64; 2] {
        let data_degree = self.plan.grid().data_degree as f64;
        let bytes = message.bytes as f64;
        match message.kind {
            // The shard is copied into the gather buffer.
            MessageKind::Unshard => [self.moving(2.0 * bytes / data_degree), 0],
            // The shard is read and added to the sum; a step's first is copied there.
            MessageKind::Reduce => [0, self.moving(3.0 * bytes / data_degree)],
            // Within a rank the head's gradient is added to the embedding's.
            MessageKind::AddTied if message.num_ranks() == 1 => [0, self.moving(3.0 * bytes)],
            _ => [0, 0],
        }
    }

    /// Over the device's links: how long a message occupies the slowest of its groups', and how much later it arrives.
    fn over_network(&self, message: &Message) -> [u64; 2] {
        let num_others = (message.num_ranks() - 1) as f64;
        let steps = match message.kind {
            kind if kind.is_transfer() => 1.0,
            MessageKind::AllReduce | MessageKind::AddTied => 2.0 * num_others,
            // A few words go up a tree and down again.
            MessageKind::GradientNorm => 2.0 * (message.num_ranks() as f64).log2().ceil(),
            _ => num_others,
        };
        let over = |group: &Vec<usize>| {
            let link = self.device.network.ring(group);
            let occupied = message.sent_bytes as f64 / link.bytes_per_s * 1e9;
            [nanoseconds(occupied), nanoseconds(link.base_ns + steps * link.step_ns)]
        };
        let total = |time: &[u64; 2]| time[0].saturating_add(time[1]);
        message.groups.iter().map(over).max_by_key(total).expect("a message has ranks")
    }
}

impl LayerTimes {
    /// On so many cores, none of which waits for another.
    fn divided_by(self, rates: f64) -> Self {
        let Self { forward, backward_input, backward_weight, recompute } = self;
        let [forward, backward_input, backward_weight, recompute] =
            [forward, backward_input, backward_weight, recompute].map(|time| time / rates);
        Self { forward, backward_input, backward_weight, recompute }
    }
}

impl From<CorePasses> for LayerTimes {
    fn from(passes: CorePasses) -> Self {
        let CorePasses { forward_ns, backward_input_ns, backward_weight_ns } = passes;
        Self {
            forward: forward_ns,
            backward_input: backward_input_ns,
            backward_weight: backward_weight_ns,
            recompute: forward_ns,
        }
    }
}

impl From<PassTimes> for LayerTimes {
    fn from(times: PassTimes) -> Self {
        let [forward, backward_input, backward_weight, recompute] =
            [times.forward, times.backward_input, times.backward_weight, times.recompute]
                .map(|time| time.as_nanos() as f64);
        Self { forward, backward_input, backward_weight, recompute }
    }
}

/// To the nearest; what is beyond a `u64` becomes its largest, which the simulator refuses.
fn nanoseconds(time: f64) -> u64 {
    time.round() as u64
}

impl Prices for Analytic<'_> {
    fn computes(&mut self, id: Unit, _: UnitNeeds) -> Result<UnitCosts, PredictError> {
        let unit = self.plan.unit(id);
        let layers: Vec<LayerTimes> = unit.unit.layers().iter().map(|layer| self.layer(&**layer)).collect();
        let sum = |part: fn(&LayerTimes) -> f64| layers.iter().map(part).sum::<f64>();
        let input = if unit.has_backward { sum(|layer| layer.backward_input) } else { 0.0 };
        let weight = unit.trained_share().of_time(sum(|layer| layer.backward_weight));
        let [recompute, recompute_in_backward] = match unit.has_backward {
            true => Self::recomputed(unit, &layers),
            false => [0.0; 2],
        };
        Ok(UnitCosts {
            forward: nanoseconds(sum(|layer| layer.forward)),
            backward: nanoseconds(input + weight + recompute_in_backward),
            backward_input: nanoseconds(input),
            backward_weight: nanoseconds(weight),
            recompute: nanoseconds(recompute),
            gradient_norm: self.moving(F32_BYTES * counted_elements(self.plan, id) as f64),
            optimizer_step: self.moving(self.optimizer_bytes(id)),
            ..UnitCosts::default()
        })
    }

    fn message(&mut self, message: &Message) -> Result<MessageCost, PredictError> {
        let [issue, landing] = self.around(message);
        let [occupied, latency] = match self.plan.run().comm.links {
            _ if message.num_ranks() == 1 => [0, 0],
            Some(links) => message.over(&links),
            None => self.over_network(message),
        };
        // Without links of the run file, a collective on a CPU is a copy that one of its ranks makes, and its core computes nothing meanwhile. A transfer
        // copies nothing.
        let has_links = self.plan.run().comm.links.is_some();
        let is_copied = self.device.cores.is_some() && !has_links && !message.kind.is_transfer();
        let [issue, occupied] =
            if is_copied { [issue.saturating_add(occupied), 0] } else { [issue, occupied] };
        Ok(MessageCost { issue, occupied, latency, landing })
    }
}

impl Analytic<'_> {
    /// The gradient is read, weights and state are read and written, and in 16 bits a second copy of the weights is written.
    fn optimizer_bytes(&self, id: Unit) -> f64 {
        let owned = owned_elements(self.plan, id) as f64;
        let states = self.plan.run().optimizer.num_states() as f64;
        let copy = match self.plan.element_type() {
            ElementType::F32 => 0.0,
            half => half.num_bytes() as f64,
        };
        owned * (F32_BYTES * (1.0 + 2.0 + 2.0 * states) + copy)
    }
}
