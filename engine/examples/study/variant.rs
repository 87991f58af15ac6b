//! The ways to train the case that are compared: one row of the tables each.

use pipezero::config::{ReductionPolicy, ResidencyConfig, Run, UnitLayersConfig, ZeroConfig, ZeroLevel};

use crate::case::{self, PIPELINE};

/// One way to train the case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    /// Its name in tables.
    pub(crate) name: &'static str,
    has_pipeline: bool,
    zero: ZeroConfig,
}

const fn zero(level: ZeroLevel, unit_layers: usize, reduce: ReductionPolicy) -> ZeroConfig {
    ZeroConfig {
        level,
        unit_layers: UnitLayersConfig::Layers(unit_layers),
        resident_units: ResidencyConfig::Strict,
        prefetch_units: 0,
        reduce,
        param_persistence_threshold: 0,
        model_persistence_threshold: u64::MAX,
    }
}

const fn zero_3(unit_layers: usize, resident_units: ResidencyConfig, prefetch_units: usize) -> ZeroConfig {
    ZeroConfig {
        resident_units,
        prefetch_units,
        ..zero(ZeroLevel::Zero3, unit_layers, ReductionPolicy::Every)
    }
}

const fn with_pipeline(name: &'static str, zero: ZeroConfig) -> Variant {
    Variant { name, has_pipeline: true, zero }
}

const fn without_pipeline(name: &'static str, zero: ZeroConfig) -> Variant {
    Variant { name, has_pipeline: false, zero }
}

use ReductionPolicy::{Every, Last};
use ResidencyConfig::{All, Strict, Units};

/// ZeRO-1 with a pipeline, which the others are held against.
pub(crate) const ZERO_1: Variant = with_pipeline("ZeRO-1 + PP", zero(ZeroLevel::Zero1, 4, Last));
/// What a file is refused for; here it is lowered all the same.
pub(crate) const ZERO_2: Variant = with_pipeline("ZeRO-2 + PP (refused)", zero(ZeroLevel::Zero2, 4, Every));
/// The seed's example: 3 units of 4 layers on a stage, gathered for every use when it comes.
pub(crate) const STRICT: Variant = with_pipeline("ZeRO-3 + PP, strict", zero_3(4, Strict, 0));
/// The same, gathered one use ahead.
pub(crate) const PREFETCH: Variant = with_pipeline("ZeRO-3 + PP, strict, prefetch 1", zero_3(4, Strict, 1));
/// As many bytes gathered as that holds, and the fewest gathers that can be had for them.
pub(crate) const RESIDENT: Variant =
    with_pipeline("ZeRO-3 + PP, resident 2, prefetch 1", zero_3(4, Units(2), 1));
/// The same, with gradients that accumulate unsharded.
pub(crate) const REDUCE_LAST: Variant = with_pipeline(
    "ZeRO-3 + PP, resident 2, prefetch 1, reduce last",
    ZeroConfig { reduce: Last, ..zero_3(4, Units(2), 1) },
);
/// What the run file does by default.
pub(crate) const UNITS_OF_ONE: Variant =
    with_pipeline("ZeRO-3 + PP, units of 1, resident 2, prefetch 1", zero_3(1, Units(2), 1));

/// All of them, in the order of the tables. Units have 4 layers where a name does not say otherwise.
pub(crate) const ALL: [Variant; 13] = [
    without_pipeline("ZeRO-2, no pipeline, units of 1", zero(ZeroLevel::Zero2, 1, Every)),
    without_pipeline("ZeRO-3, no pipeline, units of 1, resident 2, prefetch 1", zero_3(1, Units(2), 1)),
    ZERO_1,
    ZERO_2,
    STRICT,
    PREFETCH,
    with_pipeline("ZeRO-3 + PP, resident 1", zero_3(4, Units(1), 0)),
    RESIDENT,
    with_pipeline("ZeRO-3 + PP, gather once (`all`), prefetch 1", zero_3(4, All, 1)),
    REDUCE_LAST,
    with_pipeline(
        "ZeRO-3 + PP, gather once, prefetch 1, reduce last",
        ZeroConfig { reduce: Last, ..zero_3(4, All, 1) },
    ),
    UNITS_OF_ONE,
    with_pipeline("ZeRO-3 + PP, units of 1, resident 6, prefetch 1", zero_3(1, Units(6), 1)),
];

impl Variant {
    /// The run on as many ranks as the grid with this data degree has.
    pub(crate) fn run(&self, data: usize) -> Run {
        let (pipeline, data) = if self.has_pipeline { (PIPELINE, data) } else { (1, PIPELINE * data) };
        case::run(pipeline, data, self.zero)
    }
}
