//! A plan in words, for several commands.

use pipezero_config::{ReductionPolicy, ResidencyConfig, ScheduleConfig, UnitSharding, ZeroLevel};
use pipezero_plan::{InEffect, Plan};
use pipezero_run::engine::ProcessNeeds;

use super::figures::{bytes, count, counted, percent};

/// The schedule, and the number of stages on a rank if that is more than one.
pub(super) fn schedule(plan: &Plan) -> String {
    let parallel = &plan.run().parallel;
    let name = match &parallel.schedule {
        ScheduleConfig::GPipe => "gpipe".to_owned(),
        ScheduleConfig::OneFOneB => "1f1b".to_owned(),
        ScheduleConfig::EagerOneFOneB => "eager-1f1b".to_owned(),
        ScheduleConfig::Interleaved { group_size } if *group_size != parallel.pipeline => {
            format!("interleaved in groups of {group_size}")
        }
        ScheduleConfig::Interleaved { .. } => "interleaved".to_owned(),
        ScheduleConfig::Bfs => "bfs".to_owned(),
        ScheduleConfig::ZbH1 => "zb-h1".to_owned(),
        ScheduleConfig::ZbH2 => "zb-h2".to_owned(),
        ScheduleConfig::ZbV => "zb-v".to_owned(),
        ScheduleConfig::File { path, .. } => {
            format!("schedule file {}", path.file_name().unwrap_or(path.as_os_str()).display())
        }
    };
    let even = parallel.num_stages() == parallel.pipeline * parallel.virtual_stages;
    match (parallel.virtual_stages, even) {
        (1, _) => name,
        (stages, true) => format!("{name} with {stages} stages per rank"),
        (stages, false) => format!("{name} with up to {stages} stages per rank"),
    }
}

/// How many gathered units stay, where units are gathered.
pub(super) fn residency(plan: &Plan) -> Option<String> {
    if !plan.shards_parameters() || plan.grid().data_degree == 1 {
        return None;
    }
    let units = match &plan.run().zero.resident_units {
        ResidencyConfig::Strict => "units resharded after each use".to_owned(),
        ResidencyConfig::Units(units) => format!("at most {} gathered on a rank", counted(*units, "unit")),
        ResidencyConfig::PerRank(units) => format!("at most {units:?} units gathered on the pipeline ranks"),
        ResidencyConfig::All => "each unit gathered once in a step".to_owned(),
        ResidencyConfig::Level | ResidencyConfig::Auto => unreachable!("the plan has resolved it"),
    };
    Some(match plan.asked_residency() {
        word @ (ResidencyConfig::Level | ResidencyConfig::Auto) => format!("{units} (\"{word}\")"),
        _ => units,
    })
}

/// What is recomputed, if anything.
pub(super) fn checkpointing(plan: &Plan) -> Option<String> {
    let together = plan.run().checkpointing.recomputed_together()?;
    let auto = if plan.is_recomputation_auto() { " (\"auto\")" } else { "" };
    Some(format!("activations of {together} recomputed{auto}"))
}

/// Into how many slices the vocabulary's tables are cut, and what the head's logits cost, kept and recomputed: a line each.
pub(super) fn vocabulary(plan: &Plan) -> Option<String> {
    let cost = plan.head_logits_cost()?;
    let gpt = plan.run().model.gpt()?;
    let num_slices = gpt.vocabulary.num_slices;
    let slices = if num_slices > 1 {
        format!("vocabulary: each table in {num_slices} slices\n")
    } else {
        String::new()
    };
    let auto = if plan.run().vocabulary.head_logits.is_none() { " (\"auto\")" } else { "" };
    let rank = format!("pipeline rank {}", cost.pipeline_rank);
    let kept = bytes(cost.kept_peak_bytes);
    let more = percent(cost.recomputed_flops_share);
    let logits = match (cost.is_kept, cost.recomputed_peak_bytes) {
        (_, None) => format!("kept, as the schedule's weight gradients need them; {rank} needs {kept}"),
        (true, Some(recomputed)) => format!(
            "kept{auto}, {rank} needs {kept}; recomputed, for {more} more compute, {}",
            bytes(recomputed)
        ),
        (false, Some(recomputed)) => format!(
            "recomputed{auto} for {more} more compute, {rank} needs {}; kept {kept}",
            bytes(recomputed)
        ),
    };
    Some(format!("{slices}logits: {logits}\n"))
}

/// How many parameters are trained, where some are frozen.
pub(super) fn trained(plan: &Plan) -> Option<String> {
    let frozen = plan.num_frozen_parameters();
    let trained = plan.num_parameters() - frozen;
    (frozen > 0).then(|| {
        let front = match plan.num_stages_without_backward() {
            0 => String::new(),
            1 => "; stage 0 has no backward".to_owned(),
            num => format!("; stages 0 to {} have no backward", num - 1),
        };
        format!(
            "{} parameters are trained, {} are frozen (`train_only`){front}",
            count(trained),
            count(frozen)
        )
    })
}

/// What is sharded between micro-batches.
pub(super) fn at_rest(plan: &Plan) -> String {
    let text = match (plan.run().zero.level, plan.run().zero.reduce) {
        _ if plan.grid().data_degree == 1 => "nothing to shard (one data rank)",
        (ZeroLevel::Zero0, _) => "nothing sharded (ZeRO-0)",
        (ZeroLevel::Zero1, _) => "optimizer state sharded (ZeRO-1)",
        (ZeroLevel::Zero2, _) => "optimizer state and gradients sharded (ZeRO-2)",
        (ZeroLevel::Zero3, policy) => return at_rest_under_zero_3(plan, policy),
    };
    text.to_owned()
}

/// The same under ZeRO-3, where a list or thresholds may leave parameters whole, or all of them.
fn at_rest_under_zero_3(plan: &Plan, policy: ReductionPolicy) -> String {
    let shards = match plan.in_effect() {
        Some(InEffect::Zero1) => {
            return "optimizer state sharded, parameters and gradients whole (ZeRO-3 in name, ZeRO-1 in effect)"
                .to_owned();
        }
        Some(InEffect::Zero2) => {
            return "optimizer state and gradients sharded, parameters whole (ZeRO-3 in name, ZeRO-2 in effect)"
                .to_owned();
        }
        Some(InEffect::Between { num_sharded }) => {
            let gradients = count(num_sharded);
            return format!(
                "optimizer state sharded, and gradients of {gradients} parameters; parameters whole (ZeRO-3 in name)"
            );
        }
        None => match policy {
            ReductionPolicy::Every => "optimizer state, gradients and parameters sharded (ZeRO-3)",
            ReductionPolicy::Last => {
                "optimizer state and parameters sharded, gradients whole until the last micro-batch (ZeRO-3)"
            }
        },
    };
    let kept = [UnitSharding::Persistent, UnitSharding::Whole].map(|kind| plan.num_parameters_of_kind(kind));
    match kept.iter().sum() {
        0 => shards.to_owned(),
        kept => format!("{shards}, but {} of the parameters stay gathered all step", count(kept)),
    }
}

/// `1 micro-batch`, `4 micro-batches`.
pub(super) fn micro_batches(count: usize) -> String {
    if count == 1 { "1 micro-batch".to_owned() } else { format!("{count} micro-batches") }
}

/// What the fullest rank needs, and what that leaves of the memory that it may have.
pub(super) fn memory(plan: &Plan, limit_bytes: Option<u64>) -> String {
    let (pipeline_rank, peak) = plan.fullest_rank();
    let needed = format!("at most {} on a rank (pipeline rank {pipeline_rank})", bytes(peak));
    match limit_bytes {
        None => format!("{needed}; `memory` sets no limit"),
        Some(limit) if peak <= limit => {
            format!("{needed}, {} below the {} that it may have", bytes(limit - peak), bytes(limit))
        }
        Some(limit) => {
            format!("{needed}, {} more than the {} that it may have", bytes(peak - limit), bytes(limit))
        }
    }
}

/// The host memory that a process needs, by cause.
pub(super) fn process(plan: &Plan) -> String {
    let needs = ProcessNeeds::of_fullest(plan);
    let rows = needs.rows.iter().filter(|row| row.bytes > 0);
    let rows: Vec<String> = rows.map(|row| format!("{} {}", row.name, bytes(row.bytes))).collect();
    format!("{} with {}: {}", bytes(needs.bytes), counted(needs.ranks, "rank"), rows.join(", "))
}
