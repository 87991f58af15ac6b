//! `parallel`: the grid of pipeline degree x data degree, and which layers each stage gets.

use crate::config::findings::Findings;
use crate::config::kind::{Auto, Either};
use crate::config::raw::RawParallel;
use crate::config::resolved::{ParallelConfig, PartitionConfig, ScheduleName};
use crate::config::run_file::World;
use crate::config::section::Field;
use crate::config::words::{PartitionWord, ScheduleWord, Unoffered, refuse};

use super::rules::at_least_one;

/// Schedules that the design knows and that are not there yet.
const LATER_SCHEDULES: Unoffered = Unoffered {
    later: &[
        "eager-1f1b",
        "interleaved",
        "bfs",
        "zb-h1",
        "zb-h2",
        "zb-1p",
        "zb-2p",
        "zb-v",
        "v-half",
        "v-min",
        "dualpipe-v",
    ],
    never: &[],
};

/// Partitions that are not there yet, and DeepSpeed's that are not its own either.
const LATER_PARTITIONS: Unoffered =
    Unoffered { later: &["balanced", "parameters", "type:"], never: &["profile", "best"] };

/// The grid with the layers of its stages.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// p.
    pub(super) pipeline: usize,
    /// d.
    pub(super) data: usize,
    /// L.
    pub(super) num_layers: usize,
    pub(super) partition: PartitionConfig,
    schedule: ScheduleName,
}

impl Grid {
    /// World size, p * d; that it fits is checked when the grid is made.
    pub(super) fn num_ranks(&self) -> usize {
        self.pipeline * self.data
    }

    /// The first stage with the fewest layers, and its layers.
    pub(super) fn smallest_stage(&self) -> (usize, usize) {
        match &self.partition {
            // The remainder goes to the first stages.
            PartitionConfig::Uniform => (self.num_layers % self.pipeline, self.num_layers / self.pipeline),
            PartitionConfig::Manual(layers) => {
                let smallest = layers.iter().enumerate().min_by_key(|(_, layers)| **layers);
                smallest.map_or((0, self.num_layers), |(stage, layers)| (stage, *layers))
            }
        }
    }

    /// The most layers of a stage.
    pub(super) fn largest_stage_layers(&self) -> usize {
        match &self.partition {
            PartitionConfig::Uniform => self.num_layers.div_ceil(self.pipeline),
            PartitionConfig::Manual(layers) => layers.iter().copied().max().unwrap_or(self.num_layers),
        }
    }

    pub(super) fn into_config(self) -> ParallelConfig {
        ParallelConfig {
            pipeline: self.pipeline,
            data: self.data,
            schedule: self.schedule,
            partition: self.partition,
        }
    }
}

pub(super) fn resolve(
    raw: &RawParallel,
    num_layers: &Field<usize>,
    world: World,
    findings: &mut Findings,
) -> Option<Grid> {
    let pipeline = at_least_one(&raw.pipeline, raw.pipeline.or(1), findings);
    let data = data(raw, pipeline, world, findings);
    let schedule = schedule(raw, findings);
    let num_layers = num_layers.given().filter(|&layers| layers > 0);
    let pipeline = pipeline.and_then(|pipeline| stages(pipeline, num_layers, raw, findings));
    let partition = partition(raw, pipeline, num_layers, findings);
    Some(Grid {
        pipeline: pipeline?,
        data: data?,
        num_layers: num_layers?,
        partition: partition?,
        schedule: schedule?,
    })
}

fn stages(
    pipeline: usize,
    num_layers: Option<usize>,
    raw: &RawParallel,
    findings: &mut Findings,
) -> Option<usize> {
    if let Some(layers) = num_layers.filter(|&layers| pipeline > layers) {
        let rule = format!("the model has {}: every stage needs at least one", counted(layers, "layer"));
        findings.broken(&raw.pipeline.place, pipeline, rule, format!("use at most {layers}"));
        return None;
    }
    Some(pipeline)
}

/// The data degree. A launcher's number of ranks must be p * d exactly: a rank left over would wait for ever.
fn data(raw: &RawParallel, pipeline: Option<usize>, world: World, findings: &mut Findings) -> Option<usize> {
    let written = raw.data.or(Auto::Auto)?.value();
    if written.is_some() {
        at_least_one(&raw.data, written, findings)?;
    }
    let pipeline = pipeline?;
    let data = match (written, world.ranks) {
        (Some(data), _) => data,
        (None, None) => 1,
        (None, Some(ranks)) if ranks > 0 && ranks.is_multiple_of(pipeline) => ranks / pipeline,
        (None, Some(ranks)) => {
            let rule = format!("the launcher started {}, which it does not divide", counted(ranks, "rank"));
            let repair = format!("start a multiple of {pipeline}, or use a divisor of {ranks}");
            findings.broken(&raw.pipeline.place, pipeline, rule, repair);
            return None;
        }
    };
    // Ranks are numbered in 32 bits.
    let Some(needed) = pipeline.checked_mul(data).filter(|&needed| u32::try_from(needed).is_ok()) else {
        let rule = format!("with `parallel.pipeline` {pipeline} that is more than 2^32 ranks");
        findings.broken(&raw.data.place, data, rule, "use a smaller grid");
        return None;
    };
    if let Some(ranks) = world.ranks.filter(|&ranks| ranks != needed) {
        let rule = format!(
            "with `parallel.pipeline` {pipeline} that is {needed} ranks, and the launcher started {ranks}"
        );
        let repair = format!("start {needed} ranks, or write \"auto\"");
        findings.broken(&raw.data.place, data, rule, repair);
        return None;
    }
    Some(data)
}

fn schedule(raw: &RawParallel, findings: &mut Findings) -> Option<ScheduleName> {
    let place = &raw.schedule.place;
    match raw.schedule.or(Either::First(ScheduleWord::OneFOneB))? {
        Either::First(ScheduleWord::GPipe) => Some(ScheduleName::GPipe),
        Either::First(ScheduleWord::OneFOneB) => Some(ScheduleName::OneFOneB),
        Either::First(ScheduleWord::Other(word)) => {
            refuse(findings, place, &word, ScheduleWord::OFFERED, &LATER_SCHEDULES);
            None
        }
        Either::Second(file) => {
            findings.not_yet(
                place,
                format!("file \"{}\"", file.0),
                "a schedule of one's own",
                "use \"gpipe\" or \"1f1b\"",
            );
            None
        }
    }
}

fn partition(
    raw: &RawParallel,
    pipeline: Option<usize>,
    num_layers: Option<usize>,
    findings: &mut Findings,
) -> Option<PartitionConfig> {
    let place = &raw.partition.place;
    let layers = match raw.partition.or(Either::First(PartitionWord::Uniform))? {
        Either::First(PartitionWord::Uniform) => return Some(PartitionConfig::Uniform),
        Either::First(PartitionWord::Other(word)) => {
            refuse(findings, place, &word, PartitionWord::OFFERED, &LATER_PARTITIONS);
            return None;
        }
        Either::Second(layers) => layers,
    };
    let spelled = format!("{layers:?}");
    let value = crate::config::source::shorten(&spelled);
    if let Some(pipeline) = pipeline.filter(|&pipeline| pipeline != layers.len()) {
        let rule = format!("`parallel.pipeline` is {pipeline}: the list has one number per stage");
        findings.broken(place, value, rule, format!("write {}", counted(pipeline, "number")));
        return None;
    }
    if let Some(stage) = layers.iter().position(|&layers| layers == 0) {
        let rule = format!("stage {stage} would have no layer: every stage needs at least one");
        findings.broken(place, value, rule, "use 1 or more for each");
        return None;
    }
    let sum = layers.iter().try_fold(0_usize, |sum, &layers| sum.checked_add(layers));
    if let Some(num_layers) = num_layers.filter(|&num_layers| sum != Some(num_layers)) {
        let sum = sum.map_or_else(|| "more than 2^64".to_owned(), |sum| sum.to_string());
        let rule = format!("its sum is {sum} and `model.num_layers` is {num_layers}");
        findings.broken(place, value, rule, format!("use numbers with sum {num_layers}"));
        return None;
    }
    Some(PartitionConfig::Manual(layers))
}

/// `1 layer`, `4 layers`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
