//! `parallel`: the grid of pipeline degree x data degree, and how many stages it has.

use std::path::Path;

use crate::kind::Auto;
use crate::raw::{RawParallel, RawRun};
use crate::resolved::{ModelConfig, ParallelConfig, ScheduleConfig};
use crate::resources::Resources;

use super::counted::counted;
use super::model;
use super::partition;
use super::schedule::{self, Scheduled};
use super::schedule_file::file_value;

pub(super) fn resolve(
    run: &RawRun,
    model: Option<&ModelConfig>,
    folder: &Path,
    resources: Resources,
) -> Option<ParallelConfig> {
    let (raw, num_layers) = (&run.parallel, model::num_layers(&run.model, model));
    let pipeline = raw.pipeline.at_least_one(raw.pipeline.or(1));
    let data = data(raw, pipeline, resources);
    let schedule = schedule::resolve(raw, pipeline, folder);
    let num_stages = match (pipeline, &schedule) {
        (Some(pipeline), Some(schedule)) => stages(pipeline, schedule, num_layers, raw),
        _ => None,
    };
    let partition = partition::resolve(raw, num_stages, num_layers);
    num_stages?;
    let Scheduled { schedule, virtual_stages } = schedule?;
    Some(ParallelConfig { pipeline: pipeline?, data: data?, schedule, virtual_stages, partition: partition? })
}

/// The number of stages, of which each needs a layer.
fn stages(
    pipeline: usize,
    scheduled: &Scheduled,
    num_layers: Option<usize>,
    raw: &RawParallel,
) -> Option<usize> {
    let Scheduled { schedule, virtual_stages } = scheduled;
    let Some(layers) = num_layers else {
        return pipeline.checked_mul(*virtual_stages);
    };
    let model = format!("the model has {}: every stage needs at least one", counted(layers, "layer"));
    if let ScheduleConfig::File { order, .. } = schedule {
        let stages = order.placement.num_stages();
        if stages > layers {
            let rule = format!("it has {}, and {model}", counted(stages, "stage"));
            let repair = "use a schedule of fewer stages, or a deeper model";
            return raw.schedule.broken(file_value(raw), rule, repair);
        }
        return Some(stages);
    }
    if pipeline > layers {
        return raw.pipeline.broken(pipeline, model, format!("use at most {layers}"));
    }
    let stages = pipeline.checked_mul(*virtual_stages).filter(|&stages| stages <= layers);
    stages.or_else(|| {
        let stages = pipeline as u128 * *virtual_stages as u128;
        let rule = format!("with `parallel.pipeline` {pipeline} that is {stages} stages, and {model}");
        let repair = match layers / pipeline {
            1 => format!("use a pipeline of at most {}", layers / virtual_stages.min(&layers)),
            most => format!("use at most {most}"),
        };
        raw.virtual_stages.broken(virtual_stages, rule, repair)
    })
}

/// The data degree. A launcher's number of ranks must be p * d exactly: a rank left over would wait for ever.
fn data(raw: &RawParallel, pipeline: Option<usize>, resources: Resources) -> Option<usize> {
    let written = raw.data.or(Auto::Auto)?.value();
    if written.is_some() {
        raw.data.at_least_one(written)?;
    }
    let pipeline = pipeline?;
    let given = resources.part.map_or(resources.ranks, |part| part.size);
    let data = match (written, given) {
        (Some(data), _) => data,
        (None, None) => 1,
        (None, Some(ranks)) if ranks > 0 && ranks.is_multiple_of(pipeline) => ranks / pipeline,
        (None, Some(ranks)) => {
            let number = counted(ranks, "rank");
            let (rule, start) = match resources.part {
                None => (format!("the launcher started {number}, which it does not divide"), "start"),
                Some(_) => {
                    (format!("`ranks` of the task gives it {number}, which it does not divide"), "give it")
                }
            };
            let repair = format!("{start} a multiple of {pipeline}, or use a divisor of {ranks}");
            return raw.pipeline.broken(pipeline, rule, repair);
        }
    };
    // Ranks are numbered in 32 bits.
    let Some(needed) = pipeline.checked_mul(data).filter(|&needed| u32::try_from(needed).is_ok()) else {
        let rule = format!("with `parallel.pipeline` {pipeline} that is more than 2^32 ranks");
        return raw.data.broken(data, rule, "use a smaller grid");
    };
    // What a task says of ranks is held against the grid where it stands.
    let launched = resources.ranks.filter(|_| resources.part.is_none());
    if let Some(ranks) = launched.filter(|&ranks| ranks != needed) {
        let rule = format!(
            "with `parallel.pipeline` {pipeline} that is {needed} ranks, and the launcher started {ranks}"
        );
        return raw.data.broken(data, rule, format!("start {needed} ranks, or write \"auto\""));
    }
    Some(raw.data.became(data))
}
