//! The runs that are predicted and measured: on cores that they do not exceed, and far beyond them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use benches::{GPT2, each_pass, fixed_tokens, reduction, run};
use pipezero_config::*;
use pipezero_run::data::{BatchSource, Zeros};

/// Whether units compute or wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// GPT-2 on two cores: two ranks of one thread, or one of two.
    Cpu,
    /// Timed units: 8 to 64 ranks on as many cores as there are.
    Timed,
    /// Timed units, 8 on each rank, that save more than they weigh: what `level` can make use of.
    Level,
}

/// The links of a run of timed units. A unit of one layer is gathered by two ranks in about half of its forward over the
/// near one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkSpeed {
    /// As fast as memory.
    Memory,
    /// Near links within nodes of four ranks, far ones between.
    NearAndFar,
    /// The same, and gathers and reductions of a rank take turns.
    Shared,
    /// The same links, slower than computes: with two data ranks a gather takes a third longer than the layer's forward, with four
    /// twice as long.
    Slow,
    /// Far links alone, which are late.
    Late,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) family: Family,
    pub(crate) pipeline: usize,
    pub(crate) data: usize,
    pub(crate) schedule: &'static str,
    pub(crate) virtual_stages: usize,
    pub(crate) level: ZeroLevel,
    pub(crate) unit_layers: UnitLayers,
    pub(crate) resident_units: ResidencyConfig,
    pub(crate) prefetch_units: usize,
    pub(crate) checkpointing: Checkpointing,
    pub(crate) links: LinkSpeed,
}

/// Sequences of a step, but for the runs of `level`.
const TRAIN_BATCH_SIZE: usize = 16;

/// Of a timed unit of one layer: forward, and each half of its backward.
const FORWARD: Duration = Duration::from_millis(6);
const PARAMETERS_PER_LAYER: usize = 1 << 14;

impl Case {
    const CPU: Self = Self {
        family: Family::Cpu,
        pipeline: 1,
        data: 1,
        schedule: "1f1b",
        virtual_stages: 1,
        level: ZeroLevel::Zero0,
        unit_layers: UnitLayers::ONE,
        resident_units: ResidencyConfig::Strict,
        prefetch_units: 1,
        checkpointing: Checkpointing::Off,
        links: LinkSpeed::Memory,
    };

    const LEVEL: Self = Self {
        family: Family::Level,
        pipeline: 4,
        data: 2,
        level: ZeroLevel::Zero3,
        resident_units: ResidencyConfig::Units(2),
        links: LinkSpeed::Slow,
        ..Self::CPU
    };

    const TIMED: Self = Self { family: Family::Timed, links: LinkSpeed::NearAndFar, ..Self::CPU };

    /// The run.
    pub(crate) fn run(&self) -> Run {
        let mut run = run();
        let cpu = self.family == Family::Cpu;
        run.model = match self.family {
            Family::Cpu => gpt2(),
            Family::Timed => timed(16),
            Family::Level => timed(8 * self.pipeline),
        };
        run.parallel.pipeline = self.pipeline;
        run.parallel.data = self.data;
        run.parallel.schedule = self.schedule();
        run.parallel.virtual_stages = self.virtual_stages;
        let micro_batch_size = if cpu { 2 } else { 1 };
        let num_micro_batches = match self.family {
            Family::Cpu | Family::Timed => TRAIN_BATCH_SIZE / (micro_batch_size * self.data),
            Family::Level => 8,
        };
        run.batch = BatchConfig {
            train_batch_size: num_micro_batches * micro_batch_size * self.data,
            micro_batch_size,
            num_micro_batches,
        };
        run.zero.level = self.level;
        run.zero.unit_layers = self.unit_layers;
        run.zero.resident_units = self.resident_units.clone();
        run.zero.prefetch_units = self.prefetch_units;
        run.zero.reduce = reduction(self.level);
        run.checkpointing = self.checkpointing;
        run.comm.links = self.links();
        run.threads = if cpu { 2 / (self.pipeline * self.data) } else { 1 };
        run
    }

    /// Batches that are alike.
    pub(crate) fn source(&self) -> Arc<dyn BatchSource> {
        match self.family {
            Family::Cpu => fixed_tokens(VOCAB_SIZE),
            Family::Timed | Family::Level => Arc::new(Zeros),
        }
    }

    fn schedule(&self) -> ScheduleConfig {
        match self.schedule {
            "gpipe" => ScheduleConfig::GPipe,
            "1f1b" => ScheduleConfig::OneFOneB,
            "eager-1f1b" => ScheduleConfig::EagerOneFOneB,
            "interleaved" => ScheduleConfig::Interleaved { group_size: self.pipeline },
            "bfs" => ScheduleConfig::Bfs,
            "zb-h1" => ScheduleConfig::ZbH1,
            "zb-h2" => ScheduleConfig::ZbH2,
            "zb-v" => ScheduleConfig::ZbV,
            other => unreachable!("no case has the schedule {other}"),
        }
    }

    fn links(&self) -> Option<Links> {
        let (near, far, late) = (link(20, 9e6), link(50, 6e6), link(2000, 6e6));
        let links = Links { ranks_per_node: 4, near, far, shared: false };
        match self.links {
            LinkSpeed::Memory => None,
            LinkSpeed::NearAndFar => Some(links),
            LinkSpeed::Shared => Some(Links { shared: true, ..links }),
            LinkSpeed::Slow => Some(Links { near: link(20, 4e6), shared: true, ..links }),
            LinkSpeed::Late => Some(Links { ranks_per_node: 1, near: late, far: late, shared: false }),
        }
    }
}

fn link(latency_us: u64, bytes_per_s: f64) -> Link {
    Link { latency: Duration::from_micros(latency_us), bytes_per_s }
}

const VOCAB_SIZE: usize = 512;

fn gpt2() -> ModelConfig {
    ModelConfig::Gpt2(GptConfig {
        num_layers: 8,
        hidden_size: 192,
        num_attention_heads: 6,
        seq_length: 64,
        vocab_size: VOCAB_SIZE,
        ..GPT2
    })
}

fn timed(num_layers: usize) -> ModelConfig {
    ModelConfig::Timed(TimedConfig {
        num_layers,
        seq_length: 16,
        parameters_per_layer: PARAMETERS_PER_LAYER,
        activation_elements: 2048,
        times: each_pass(FORWARD),
    })
}

/// As a row of the table begins.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} {}", self.pipeline, self.data, self.schedule)?;
        if self.virtual_stages > 1 {
            write!(f, " v{}", self.virtual_stages)?;
        }
        write!(f, " ZeRO-{}", self.level as u8)?;
        match self.unit_layers {
            UnitLayers::ONE => {}
            UnitLayers::Blocks(layers) => write!(f, " units of {layers}")?,
            UnitLayers::Half => f.write_str(" half units")?,
            UnitLayers::Stage => f.write_str(" units of a stage")?,
        }
        if self.level == ZeroLevel::Zero3 {
            write!(f, " resident {} prefetch {}", self.resident_units, self.prefetch_units)?;
        }
        if self.checkpointing == Checkpointing::Unit {
            f.write_str(" recomputing")?;
        }
        match (self.family, self.links) {
            (Family::Cpu, _) | (_, LinkSpeed::NearAndFar) => Ok(()),
            (_, LinkSpeed::Memory) => f.write_str(" no links"),
            (_, LinkSpeed::Shared) => f.write_str(" shared links"),
            (_, LinkSpeed::Slow) => f.write_str(" slow shared links"),
            (_, LinkSpeed::Late) => f.write_str(" late links"),
        }
    }
}

use ResidencyConfig::{All, Level, Units};
use UnitLayers::Half;
use ZeroLevel::{Zero1, Zero2, Zero3};

const TWO: UnitLayers = UnitLayers::of_blocks(2).expect("2 is not 0");

/// Runs of one or two ranks that compute.
pub(crate) const CPU: [Case; 12] = [
    Case::CPU,
    Case { pipeline: 2, schedule: "gpipe", ..Case::CPU },
    Case { pipeline: 2, ..Case::CPU },
    Case { pipeline: 2, checkpointing: Checkpointing::Unit, unit_layers: TWO, ..Case::CPU },
    Case { pipeline: 2, schedule: "interleaved", virtual_stages: 2, ..Case::CPU },
    Case { pipeline: 2, schedule: "zb-h1", ..Case::CPU },
    Case { pipeline: 2, schedule: "zb-v", virtual_stages: 2, ..Case::CPU },
    Case { data: 2, level: Zero1, ..Case::CPU },
    Case { data: 2, level: Zero2, unit_layers: TWO, ..Case::CPU },
    Case { data: 2, level: Zero3, ..Case::CPU },
    Case { data: 2, level: Zero3, unit_layers: Half, prefetch_units: 0, ..Case::CPU },
    Case { data: 2, level: Zero3, unit_layers: TWO, resident_units: Units(2), ..Case::CPU },
];

/// Runs of 8 to 64 ranks that wait. None is one that a run file may not ask for: ZeRO-2 in a pipeline, or ZeRO-3 with one
/// unit for all layers of a rank.
pub(crate) const TIMED: [Case; 12] = [
    Case { pipeline: 8, links: LinkSpeed::Memory, ..Case::TIMED },
    Case { pipeline: 8, data: 2, level: Zero1, links: LinkSpeed::Late, ..Case::TIMED },
    Case { pipeline: 4, data: 2, schedule: "gpipe", level: Zero1, ..Case::TIMED },
    Case { pipeline: 4, data: 2, level: Zero3, ..Case::TIMED },
    Case { pipeline: 4, data: 2, level: Zero3, prefetch_units: 0, ..Case::TIMED },
    Case {
        pipeline: 4,
        data: 2,
        level: Zero3,
        resident_units: Units(2),
        links: LinkSpeed::Shared,
        ..Case::TIMED
    },
    Case {
        pipeline: 4,
        data: 4,
        schedule: "interleaved",
        virtual_stages: 2,
        level: Zero3,
        resident_units: All,
        ..Case::TIMED
    },
    Case { pipeline: 4, data: 4, schedule: "bfs", virtual_stages: 2, level: Zero3, ..Case::TIMED },
    Case { pipeline: 8, data: 2, schedule: "zb-h1", level: Zero3, ..Case::TIMED },
    Case { pipeline: 8, data: 2, schedule: "zb-v", virtual_stages: 2, level: Zero1, ..Case::TIMED },
    Case {
        pipeline: 4,
        data: 8,
        level: Zero3,
        unit_layers: TWO,
        checkpointing: Checkpointing::Unit,
        ..Case::TIMED
    },
    Case { pipeline: 8, data: 8, level: Zero3, ..Case::TIMED },
];

/// Pairs of runs: with 2 resident units on each rank, and with `level`.
pub(crate) const LEVEL: [Case; 4] = [
    Case::LEVEL,
    Case { resident_units: Level, ..Case::LEVEL },
    Case { pipeline: 8, data: 4, ..Case::LEVEL },
    Case { pipeline: 8, data: 4, resident_units: Level, ..Case::LEVEL },
];
