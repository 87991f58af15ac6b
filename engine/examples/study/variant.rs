//! The ways to train the case that are compared: one row of the tables each.

use pipezero::config::{
    OverlapComm, ReductionPolicy, ResidencyConfig, Run, ShardingConfig, UnitLayers, ZeroConfig, ZeroLevel,
};

use crate::case::{self, PIPELINE};

use ReductionPolicy::{Every, Last};
use ResidencyConfig::{All, Level, Strict, Units};

/// One way to train the case.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// Its name in tables.
    pub(crate) name: &'static str,
    shape: Shape,
    zero: ZeroConfig,
}

/// Where the micro-batches of a step go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// 8 through 4 pipeline ranks.
    Pipeline,
    /// 2 on each of four times as many data ranks.
    DataRanks,
    /// The same as one micro-batch of two sequences.
    OneMicroBatch,
}

const fn zero(level: ZeroLevel, unit_layers: usize, reduce: ReductionPolicy) -> ZeroConfig {
    zero_of(level, unit_layers, reduce, ResidencyConfig::Strict, 0)
}

const fn zero_3(unit_layers: usize, resident_units: ResidencyConfig, prefetch_units: usize) -> ZeroConfig {
    zero_of(ZeroLevel::Zero3, unit_layers, ReductionPolicy::Every, resident_units, prefetch_units)
}

/// ZeRO-3 that reduces gradients once in a step.
const fn zero_3_last(resident_units: ResidencyConfig, prefetch_units: usize) -> ZeroConfig {
    zero_of(ZeroLevel::Zero3, 4, ReductionPolicy::Last, resident_units, prefetch_units)
}

const fn zero_of(
    level: ZeroLevel,
    unit_layers: usize,
    reduce: ReductionPolicy,
    resident_units: ResidencyConfig,
    prefetch_units: usize,
) -> ZeroConfig {
    ZeroConfig {
        level,
        unit_layers: UnitLayers::of_blocks(unit_layers).expect("units have layers"),
        resident_units,
        prefetch_units,
        sharding: ShardingConfig::SHARDED,
        reduce,
        overlap_comm: OverlapComm::True,
        param_persistence_threshold: 0,
        model_persistence_threshold: u64::MAX,
    }
}

const fn with_pipeline(name: &'static str, zero: ZeroConfig) -> Variant {
    Variant { name, shape: Shape::Pipeline, zero }
}

const fn without_pipeline(name: &'static str, zero: ZeroConfig) -> Variant {
    Variant { name, shape: Shape::DataRanks, zero }
}

/// ZeRO-1 with a pipeline, which the others are held against.
pub(crate) const ZERO_1: Variant = with_pipeline("ZeRO-1 + PP", zero(ZeroLevel::Zero1, 4, Last));
/// What a file is refused for; here it is lowered all the same.
pub(crate) const ZERO_2: Variant = with_pipeline("ZeRO-2 + PP (refused)", zero(ZeroLevel::Zero2, 4, Every));
/// As engine/configs/seed-48-layers.json has it: 3 units of 4 layers on a stage, gathered for every use when it comes.
pub(crate) const STRICT: Variant = with_pipeline("ZeRO-3 + PP, strict", zero_3(4, Strict, 0));
/// The same, gathered one use ahead.
pub(crate) const PREFETCH: Variant = with_pipeline("ZeRO-3 + PP, strict, prefetch 1", zero_3(4, Strict, 1));
/// As many bytes gathered as that holds, and the fewest gathers that can be had for them.
pub(crate) const RESIDENT: Variant =
    with_pipeline("ZeRO-3 + PP, resident 2, prefetch 1", zero_3(4, Units(2), 1));
/// The same, with gradients that accumulate unsharded.
pub(crate) const REDUCE_LAST: Variant =
    with_pipeline("ZeRO-3 + PP, resident 2, prefetch 1, reduce last", zero_3_last(Units(2), 1));
/// The default of the run file but for the units that stay.
pub(crate) const UNITS_OF_ONE: Variant = with_pipeline("ZeRO-3 + PP, units of 1", zero_3(1, Units(2), 1));
/// What the run file does by default.
pub(crate) const LEVEL: Variant = with_pipeline("ZeRO-3 + PP, units of 1, level", zero_3(1, Level, 1));

/// ZeRO-3 alone. As the run file has it by default, since on one pipeline rank `level` keeps no more than the fewest.
pub(crate) const WITHOUT_PIPELINE: Variant = without_pipeline("ZeRO-3, no pipeline", zero_3(1, Units(2), 1));

/// All of them, in the order of the tables. Without a pipeline units have 1 layer, else 4 where a name does not say otherwise;
/// units of 1 are gathered one use ahead, 2 of them resident where a name does not say otherwise.
pub(crate) const ALL: [Variant; 16] = [
    without_pipeline("ZeRO-2, no pipeline", zero(ZeroLevel::Zero2, 1, Every)),
    WITHOUT_PIPELINE,
    Variant {
        name: "ZeRO-3, no pipeline, 1 micro-batch of 2 sequences",
        shape: Shape::OneMicroBatch,
        zero: zero_3(1, Units(2), 1),
    },
    ZERO_1,
    ZERO_2,
    with_pipeline("ZeRO-2 + PP (refused), units of 1", zero(ZeroLevel::Zero2, 1, Every)),
    STRICT,
    PREFETCH,
    with_pipeline("ZeRO-3 + PP, resident 1", zero_3(4, Units(1), 0)),
    RESIDENT,
    with_pipeline("ZeRO-3 + PP, gather once (`all`), prefetch 1", zero_3(4, All, 1)),
    REDUCE_LAST,
    with_pipeline("ZeRO-3 + PP, gather once, prefetch 1, reduce last", zero_3_last(All, 1)),
    UNITS_OF_ONE,
    LEVEL,
    with_pipeline("ZeRO-3 + PP, units of 1, resident 6", zero_3(1, Units(6), 1)),
];

impl Variant {
    /// The run on as many ranks as the grid with this data degree has, and as many sequences.
    pub(crate) fn run(&self, data: usize) -> Run {
        match self.shape {
            Shape::Pipeline => case::run(PIPELINE, data, self.zero.clone()),
            Shape::DataRanks => case::run(1, PIPELINE * data, self.zero.clone()),
            Shape::OneMicroBatch => {
                let mut run = case::run(1, PIPELINE * data, self.zero.clone());
                run.batch.micro_batch_size *= run.batch.num_micro_batches;
                run.batch.num_micro_batches = 1;
                run
            }
        }
    }
}
