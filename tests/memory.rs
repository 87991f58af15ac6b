//! What the ranks' ledgers measure is what the plan says, by category; and all ledgers together are what the process grows
//! by.

use std::sync::Arc;

use pipezero_comm::memory::Category;
use pipezero_config::{Precision, ResidencyConfig, ZeroLevel};
use pipezero_plan::{Needs, Plan};
use pipezero_run::engine::Engine;
use pipezero_schedule::{PipelineRank, Unit};
use tests::{Mask, WeightOrder, assert_as_planned, plan_and_batches, spread, started, weights_of};

/// Evaluations, logits and saved weights hold and send too; a step's traffic and events are the step's alone.
#[test]
fn every_rank_holds_and_sends_what_the_plan_says_whatever_the_engine_does() {
    for case in spread() {
        let (plan, source) = plan_and_batches(case.run, Mask::Uneven);
        let planned = plan.forecast();
        let mut engine = Engine::recording(plan, Arc::clone(&source)).expect("ranks start");
        let first = engine.train_batch().expect("a step");
        assert_as_planned(&first.measured(), &planned, &case.name);
        engine.eval_batch(&source, 1).expect("an evaluation");
        engine.logits(&[1, 2, 3]).expect("logits");
        weights_of(&mut engine);
        let second = engine.train_batch().expect("a step");
        assert_as_planned(&second.measured(), &planned, &case.name);
        for rank in 0..planned.len() {
            let num_events = [&first, &second].map(|report| report.events(rank).len());
            assert_eq!(num_events[0], num_events[1], "events of rank {rank} of {}", case.name);
        }
    }
}

#[test]
fn inference_needs_what_is_planned_no_more_of_anything_than_training_and_no_gradients() {
    for case in spread() {
        // Training casts shards from the master copy, which inference does not have.
        let casts_shards = case.run.zero.level == ZeroLevel::Zero3 && case.run.precision != Precision::F32;
        let (plan, source) = plan_and_batches(case.run, Mask::None);
        let planned: Vec<_> = plan.forecast().into_iter().map(|rank| rank.memory).collect();
        let needs = plan.clone().without_training().needs();
        let mut engine = Engine::for_inference(plan, Arc::clone(&source)).expect("ranks start");
        engine.eval_batch(&source, 1).expect("an evaluation");
        engine.logits(&[1, 2, 3]).expect("logits");
        weights_of(&mut engine);
        for (rank, planned) in planned.iter().enumerate() {
            let peak = |category| engine.ledger(rank).peak_bytes(category);
            for (category, training) in Category::ALL.into_iter().zip(planned.figures()) {
                let is_cast = casts_shards && category == Category::Parameters;
                let training = if is_cast { training + planned.optimizer } else { training };
                let held = peak(category);
                assert!(held <= training, "rank {rank}: {held} bytes of {category:?} in {}", case.name);
            }
            if !casts_shards {
                assert_eq!(peak(Category::Parameters), planned.parameters, "rank {rank} of {}", case.name);
            }
            assert_eq!(peak(Category::Gradients) + peak(Category::Optimizer), 0, "rank {rank}");
        }
        let held: Vec<u64> = (0..planned.len()).map(|rank| engine.ledger(rank).total_peak_bytes()).collect();
        let held = Needs {
            rank_bytes: held.iter().copied().max().expect("a grid has ranks"),
            world_bytes: held.iter().sum(),
        };
        assert_eq!(held, needs, "{}", case.name);
    }
}

/// Of what ranks were recorded to gather: never more copies than the residency allows, never more bytes than the plan's
/// buffers have, and different units never more than so many of the largest. A buffer is smaller than twice its unit.
#[test]
fn no_more_is_gathered_at_once_than_the_residency_allows() {
    let mut num_gathers = 0;
    for case in spread().into_iter().filter(|case| case.run.zero.level == ZeroLevel::Zero3) {
        let mut engine = started(Engine::recording, case.run, Mask::None);
        let report = engine.train_batch().expect("a step");
        for (rank, order) in WeightOrder::of_ranks(&engine, &report).into_iter().enumerate() {
            num_gathers += order.copies.len();
            let limits = Limits::of(engine.plan(), rank);
            limits.assert_kept(engine.plan(), &order, &format!("rank {rank} of {}", case.name));
        }
    }
    assert!(num_gathers > 10_000, "only {num_gathers} gathers were looked at");
}

/// What the residency allows on a rank, in bytes, from the sizes of its units alone.
struct Limits {
    /// Copies at the same time.
    num_copies: usize,
    /// Bytes of the `num_copies` largest units that are gathered, descending.
    largest: Vec<u64>,
    /// Bytes of the plan's buffers, descending.
    buffers: Vec<u64>,
}

impl Limits {
    fn of(plan: &Plan, rank: usize) -> Self {
        let pipeline_rank = PipelineRank(plan.grid().pipeline_rank(rank) as u32);
        let gathered = plan.units_of(pipeline_rank).filter(|(_, unit)| unit.is_sharded());
        let mut largest: Vec<u64> = gathered.map(|(unit, _)| unit_bytes(plan, unit)).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let zero = &plan.run().zero;
        let num_copies = match &zero.resident_units {
            ResidencyConfig::Strict => 1 + zero.prefetch_units,
            ResidencyConfig::Units(units) => *units,
            ResidencyConfig::PerRank(units) => units[pipeline_rank.index()],
            ResidencyConfig::All => largest.len(),
            ResidencyConfig::Level | ResidencyConfig::Auto => unreachable!("a plan has resolved it"),
        };
        largest.truncate(num_copies);
        let buffers = plan.training().gather_buffers(pipeline_rank).to_vec();
        Self { num_copies, largest, buffers }
    }

    fn assert_kept(&self, plan: &Plan, order: &WeightOrder, case: &str) {
        assert!(self.buffers.len() <= self.largest.len(), "buffers of {case}");
        for (index, (&buffer, &unit)) in self.buffers.iter().zip(&self.largest).enumerate() {
            let allowed = if index == 0 { unit } else { 2 * unit };
            assert!(buffer <= allowed, "buffer {index} of {case}: {buffer} bytes for {unit}");
        }
        let bytes = |units: &[Unit]| units.iter().map(|&unit| unit_bytes(plan, unit)).sum::<u64>();
        for mut held in order.held() {
            assert!(held.len() <= self.num_copies, "{held:?} in {case}");
            assert!(bytes(&held) <= self.buffers.iter().sum(), "{held:?} in {case}");
            held.sort_unstable();
            held.dedup();
            assert!(bytes(&held) <= self.largest.iter().sum(), "{held:?} in {case}");
        }
    }
}

/// Bytes of a gathered copy.
fn unit_bytes(plan: &Plan, unit: Unit) -> u64 {
    let element_bytes = if plan.run().precision == Precision::F32 { 4 } else { 2 };
    element_bytes * plan.unit(unit).gathered_len() as u64
}

/// In a process of its own, since every other test of this binary allocates too.
#[cfg(target_os = "linux")]
mod process {
    use std::process::Command;

    use pipezero_config::{Checkpointing, GptConfig, ModelConfig, ReductionPolicy, Run, ZeroConfig};
    use tests::{Case, FP16, Sample, Schedule, small_gpt, small_run, zero};

    use super::*;

    /// Set in the process that measures itself, to the number of its run.
    const MEASURES_ITSELF: &str = "PIPEZERO_TEST_MEASURES_ITSELF";

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_ledgers_account_for_the_growth_of_a_process() {
        if let Ok(number) = std::env::var(MEASURES_ITSELF) {
            return measure(large_runs().swap_remove(number.parse().expect("a number")));
        }
        let this_test = "memory::process::the_ledgers_account_for_the_growth_of_a_process";
        let mut sample = Sample::one_in(4, "run of several hundred MiB, measured from outside");
        for number in (0..large_runs().len()).filter(|_| sample.takes_next()) {
            let output = Command::new(std::env::current_exe().expect("a running test has a file"))
                .args(["--exact", this_test, "--nocapture"])
                .env(MEASURES_ITSELF, number.to_string())
                .output()
                .expect("the test's own binary starts");
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            assert!(said.contains("1 passed"), "the process ran no test:\n{said}");
            said.lines().filter(|line| line.starts_with("planned")).for_each(|line| println!("{line}"));
        }
    }

    /// A step, an evaluation, a text that goes on, and saving: nothing large is allocated beside what the plan counts.
    fn measure(run: Run) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let before = status_bytes("VmRSS");
        let (plan, source) = plan_and_batches(run, Mask::None);
        let mut engine = Engine::new(plan, Arc::clone(&source)).expect("ranks start");
        engine.train_batch().expect("a step");
        engine.eval_batch(&source, 1).expect("an evaluation");
        engine.logits(&[1, 2, 3]).expect("logits");
        engine.save(&home.path().join("weights")).expect("saved weights");
        let growth = status_bytes("VmHWM") - before;
        let num_ranks = engine.plan().grid().world_size();
        let planned: u64 = engine.plan().needs().world_bytes;
        let held: u64 = (0..num_ranks).map(|rank| engine.ledger(rank).total_peak_bytes()).sum();
        assert_eq!(held, planned);
        assert!(planned >= 500 * MIB, "{} MiB are too few to compare", planned / MIB);
        // Pieces of parameters, and a row of logits.
        let vocab_bytes = 4 * engine.plan().vocab_size() as u64;
        for rank in 0..num_ranks {
            let beside = engine.ledger_between_steps(rank).total_peak_bytes();
            assert!(beside <= MIB + 2 * vocab_bytes, "rank {rank} holds {beside} bytes beside its plan");
        }
        // Pages that are touched in part, threads' stacks, and what the allocator keeps for itself.
        let allowed = planned / 20 + 64 * MIB;
        let said = format!("planned {} MiB, the process grew by {} MiB", planned / MIB, growth / MIB);
        println!("{said}");
        assert!(growth.abs_diff(planned) <= allowed, "{said}");
    }

    /// Every category weighs most in one of them: blocks, vocabularies, activations, master copies that are gathered to be saved.
    fn large_runs() -> Vec<Run> {
        let zero_3 = zero(ZeroLevel::Zero3, ResidencyConfig::Units(2), 1);
        let level = zero(ZeroLevel::Zero3, ResidencyConfig::Level, 1);
        let last = ZeroConfig { reduce: ReductionPolicy::Last, ..zero_3.clone() };
        let grid = |pipeline, data| Case { pipeline, data, num_layers: 6, ..Case::ONE_RANK };
        let half = Precision::Bf16;
        vec![
            large(Case { zero: zero_3.clone(), ..grid(2, 2) }, 512, 512),
            large(
                Case {
                    zero: zero(ZeroLevel::Zero1, ResidencyConfig::Units(1), 0),
                    precision: half,
                    tied: true,
                    ..grid(1, 2)
                },
                256,
                65_536,
            ),
            large(Case { num_layers: 2, ..grid(2, 1) }, 128, 131_072),
            large(Case { zero: level, precision: half, ..grid(2, 2) }, 256, 65_536),
            large(
                Case {
                    zero: zero(ZeroLevel::Zero2, ResidencyConfig::Units(1), 0),
                    precision: half,
                    ..grid(1, 2)
                },
                512,
                8192,
            ),
            large(Case { zero: last, precision: FP16, tied: true, ..grid(2, 2) }, 256, 65_536),
            large(Case { num_micro_batches: 8, schedule: Schedule::ZbH1, ..grid(3, 1) }, 384, 32_768),
            large(Case { zero: zero_3, checkpointing: Checkpointing::Unit, ..grid(1, 4) }, 512, 32_768),
        ]
    }

    fn large(case: Case, hidden_size: usize, vocab_size: usize) -> Run {
        let model = ModelConfig::Gpt2(GptConfig {
            num_layers: case.num_layers,
            hidden_size,
            num_attention_heads: 8,
            seq_length: 64,
            vocab_size,
            init_std: 0.02,
            ..small_gpt(case.tied)
        });
        Run { model, ..small_run(case) }
    }

    /// A figure of `/proc/self/status`, given there in KiB.
    fn status_bytes(key: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let line = status.lines().find(|line| line.starts_with(key)).expect("the key is there");
        let kib = line.split_whitespace().nth(1).expect("the key has a value");
        1024 * kib.parse::<u64>().expect("the value is a number")
    }
}
