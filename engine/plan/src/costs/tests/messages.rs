//! What messages send, beside the traffic that the plan forecasts by its own formulas.

use pipezero_schedule::{InstructionKind, PipelineRank};

use crate::Plan;
use crate::costs::messages::Messages;
use crate::testing::{GPT2, MIXED, plan};
use pipezero_partition::{Traffic, Volume};

/// Calls and bytes of a rank, instruction by instruction.
fn counted(plan: &Plan, rank: PipelineRank) -> Traffic {
    let messages = Messages::of(plan);
    let mut traffic = Traffic::default();
    for &instruction in plan.training().row(rank) {
        let Some(message) = messages.get(instruction).filter(|message| message.num_ranks() > 1) else {
            continue;
        };
        let count: &mut Volume = match instruction.kind() {
            InstructionKind::Unshard | InstructionKind::GatherAfterStep => &mut traffic.all_gather,
            InstructionKind::Reduce | InstructionKind::ReduceLast => &mut traffic.reduce_scatter,
            InstructionKind::AllReduce | InstructionKind::AddTied | InstructionKind::GradientNorm => {
                &mut traffic.all_reduce
            }
            InstructionKind::Send => &mut traffic.send,
            _ => continue,
        };
        count.count += 1;
        count.bytes += message.sent_bytes;
    }
    traffic
}

/// The same bytes in no calls.
fn without_counts(mut traffic: Traffic) -> Traffic {
    let Traffic { all_gather, reduce_scatter, all_reduce, send } = &mut traffic;
    [all_gather, reduce_scatter, all_reduce, send].into_iter().for_each(|volume| volume.count = 0);
    traffic
}

#[test]
fn messages_send_what_the_plan_forecasts() {
    let mut num_plans = 0;
    for tied in [false, true] {
        for (pipeline, data) in [(1, 1), (1, 3), (2, 1), (2, 2), (4, 2)] {
            for zero in
                ["0", "1", "3", "3 zero_optimization.reduce=last", "3 zero_optimization.unit_layers=2", MIXED]
            {
                for half in [true, false] {
                    let changes = format!(
                        "model.tie_embeddings={tied} parallel.pipeline={pipeline} parallel.data={data} bf16.enabled={half} \
                         model.num_layers=16 zero_optimization.stage={zero}"
                    );
                    let plan = plan(GPT2, &changes);
                    for rank in 0..pipeline {
                        let forecast = plan.forecast()[plan.grid().rank(rank, 0)].traffic;
                        let counted = counted(&plan, PipelineRank(rank as u32));
                        // The operations for the parts of a unit are one message.
                        let figures = |of| if zero == MIXED { without_counts(of) } else { of };
                        assert_eq!(figures(counted), figures(forecast), "{changes}");
                    }
                    num_plans += 1;
                }
            }
        }
    }
    assert_eq!(num_plans, 120);
}

/// A message between nodes is as slow as the slowest of its data ranks.
#[test]
fn one_far_pair_makes_a_message_far() {
    let links = "comm.links.ranks_per_node=3 comm.links.near.gb_per_s=1 comm.links.near.latency_us=1 \
                 comm.links.far.gb_per_s=0.5 comm.links.far.latency_us=7";
    // Ranks 0 1 2 | 3: of the pairs 0-2 and 1-3 one is near; of the data groups 0-1 and 2-3 one.
    let plan = plan(GPT2, links);
    let shaping = plan.run().comm.links.unwrap();
    let messages = Messages::of(&plan);
    let mut num_messages = 0;
    for rank in [0, 1].map(PipelineRank) {
        for &instruction in plan.training().row(rank) {
            let Some(message) = messages.get(instruction) else { continue };
            let is_far = match instruction.kind() {
                InstructionKind::Unshard | InstructionKind::Reduce => rank == PipelineRank(1),
                _ => true,
            };
            // Nanoseconds a byte.
            let expected = if is_far { [2 * message.sent_bytes, 7000] } else { [message.sent_bytes, 1000] };
            assert_eq!(message.over(&shaping), expected, "{instruction}");
            num_messages += 1;
        }
    }
    assert!(num_messages > 20);
}
