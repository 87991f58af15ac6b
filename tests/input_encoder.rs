//! An unsharded input encoder before a sharded body: its inputs differ from micro-batch to micro-batch and from rank to rank, and nothing
//! that ranks send each other does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipezero_config::{
    Checkpointing, NoDecay, OptimizerConfig, Precision, ReductionPolicy, ResidencyConfig, Run,
    ShardingConfig, ShardingRule, UnitSharding, ZeroConfig, ZeroLevel,
};
use pipezero_plan::Plan;
use pipezero_run::data::{BatchError, BatchSource, EncoderInput, TokenBatch};
use pipezero_run::engine::{Engine, EngineError};
use tests::{
    Case, Draws, EncoderBatches, Lengths, Mask, RandomBatches, SGD, Sample, Schedule, Trained,
    assert_as_planned, assert_bit_identical, assert_close, plan_with_encoder, seed_of_draws, train_with,
    two_steps, weights_of, zero,
};

/// A sharded body behind an input encoder that every data rank holds whole.
fn only_the_body(residency: ResidencyConfig, prefetch: usize) -> ZeroConfig {
    let rule = ShardingRule { sharding: UnitSharding::Whole, pattern: "^encoder$".to_owned() };
    ZeroConfig { sharding: ShardingConfig::Listed(vec![rule]), ..zero(ZeroLevel::Zero3, residency, prefetch) }
}

fn trained_with(run: Run, lengths: Lengths, seed: u64) -> Trained {
    let plan = plan_with_encoder(run);
    let tokens = RandomBatches::for_plan(&plan, Mask::Uneven).with_lengths(lengths);
    let source = EncoderBatches::new(&plan, tokens, seed).shared();
    train_with(plan, source, |_| {})
}

fn trained(case: Case, lengths: Lengths, seed: u64) -> Trained {
    trained_with(two_steps(case), lengths, seed)
}

const GRIDS: [(usize, Schedule); 6] = [
    (1, Schedule::OneFOneB),
    (2, Schedule::OneFOneB),
    (4, Schedule::OneFOneB),
    (2, Schedule::Interleaved { virtual_stages: 2 }),
    (2, Schedule::ZbH1),
    (2, Schedule::ZbV),
];

fn levels() -> [ZeroConfig; 5] {
    [
        ZeroConfig { reduce: ReductionPolicy::Last, ..only_the_body(ResidencyConfig::Units(2), 0) },
        zero(ZeroLevel::Zero1, ResidencyConfig::Units(1), 0),
        zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1),
        only_the_body(ResidencyConfig::Strict, 0),
        only_the_body(ResidencyConfig::Units(3), 1),
    ]
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (pipeline, schedule) in GRIDS {
        for (data, zero) in [1, 2, 3].into_iter().flat_map(|data| levels().map(|zero| (data, zero))) {
            let case = Case {
                num_layers: 8,
                pipeline,
                data,
                num_micro_batches: 4,
                schedule,
                zero,
                ..Case::ONE_RANK
            };
            let recomputes =
                if schedule.splits_backwards() { Checkpointing::Off } else { Checkpointing::Unit };
            cases.push(case.clone());
            cases.push(Case { precision: Precision::Bf16, tied: true, ..case.clone() });
            cases.push(Case { checkpointing: recomputes, dropout: 0.1, document_attention: true, ..case });
        }
    }
    cases
}

/// The same on one pipeline rank. Where all gradients are reduced once, or all after every micro-batch, it shards nothing at all; and also
/// where an input encoder that is whole reduces its gradients once and the body after every micro-batch.
fn on_one_stage(case: &Case) -> Case {
    if case.zero.sharding == ShardingConfig::SHARDED || case.zero.reduce == ReductionPolicy::Last {
        return case.clone().reference();
    }
    let checkpointing = Checkpointing::Off;
    Case { pipeline: 1, schedule: Schedule::OneFOneB, checkpointing, ..case.clone() }
}

#[test]
fn every_grid_gives_the_bits_of_one_pipeline_rank() {
    let mut sample = Sample::one_in(4, "grid with an input encoder, to the bits of one pipeline rank");
    for (seed, case) in cases().into_iter().enumerate() {
        if !sample.takes_next() {
            continue;
        }
        let (name, lengths) = (format!("{case:?}"), [Lengths::Longest, Lengths::Drawn][seed % 2]);
        let reference = trained(on_one_stage(&case), lengths, seed as u64);
        assert_bit_identical(&trained(case, lengths, seed as u64), &reference, &name);
    }
}

/// The same batch on one data rank and on several: sums in another order.
#[test]
fn an_encoder_on_several_data_ranks_learns_what_the_unsharded_run_learns() {
    for (data, num_micro_batches) in [(2, 3), (3, 2), (6, 1)] {
        let of = |case: Case| trained_with(Run { optimizer: SGD, ..two_steps(case) }, Lengths::Longest, 7);
        let unsharded = of(Case { num_micro_batches: 6, ..Case::ONE_RANK });
        let zero = only_the_body(ResidencyConfig::Strict, 1);
        let sharded = of(Case { pipeline: 2, data, num_micro_batches, zero, ..Case::ONE_RANK });
        // f32 sums of a few micro-batches, through two steps.
        assert_close(&sharded, &unsharded, 1e-5, &format!("{data} data ranks"));
        let before = of_no_step(Case { num_micro_batches: 6, ..Case::ONE_RANK });
        for (name, values) in unsharded.weights.iter().filter(|(name, _)| name.starts_with("encoder.")) {
            assert_ne!(*values, before[name], "{name} learns");
        }
    }
}

fn engine_of(case: Case, source: impl BatchSource + 'static) -> Engine {
    Engine::new(plan_with_encoder(two_steps(case)), Arc::new(source)).expect("ranks start")
}

fn of_no_step(case: Case) -> tests::Weights {
    let source = |_: u64, _: usize, _: usize, _: &mut TokenBatch| Ok(());
    weights_of(&mut engine_of(case, source))
}

/// 200 steps of other inputs: grids, levels and schedules are drawn too, and so is which rank has none.
#[test]
fn random_inputs_on_random_grids_neither_hang_nor_differ() {
    let (mut draws, num_runs) = (Draws(seed_of_draws().unwrap_or(21)), 20);
    for number in 0..num_runs {
        let (pipeline, schedule) = GRIDS[draws.below(GRIDS.len())];
        let zero = levels()[draws.below(5)].clone();
        let (data, num_micro_batches) = (1 + draws.below(3), 1 + draws.below(5));
        let num_micro_batches = match schedule {
            Schedule::ZbV => num_micro_batches.max(4),
            _ => num_micro_batches,
        };
        let case =
            Case { num_layers: 8, pipeline, data, num_micro_batches, schedule, zero, ..Case::ONE_RANK };
        let run = |case: Case| Run { steps: 10, ..two_steps(case) };
        let seed = 1000 + number;
        let reference = trained_with(run(on_one_stage(&case)), Lengths::Drawn, seed);
        assert_bit_identical(
            &trained_with(run(case.clone()), Lengths::Drawn, seed),
            &reference,
            &format!("{case:?}"),
        );
    }
}

/// Whatever inputs the input encoder gets: calls, bytes and memory are those of the plan, which knows no input.
#[test]
fn what_ranks_hold_and_send_does_not_depend_on_the_inputs() {
    for ((pipeline, schedule), zero) in GRIDS.into_iter().flat_map(|grid| levels().map(|zero| (grid, zero))) {
        let case =
            Case { pipeline, schedule, data: 2, num_micro_batches: 4, zero, num_layers: 8, ..Case::ONE_RANK };
        let planned = plan_with_encoder(two_steps(case.clone())).forecast();
        for seed in 0..2 {
            let last = trained(case.clone(), Lengths::Longest, seed).last;
            assert_as_planned(&last.measured(), &planned, &format!("{case:?}"));
        }
    }
}

/// A module that no rank uses has a gradient of zero: it stays as it is, and no rank waits for another.
#[test]
fn an_encoder_that_nothing_is_given_stays_as_it_is() {
    let zero = only_the_body(ResidencyConfig::Strict, 1);
    let case = Case { pipeline: 2, data: 2, num_micro_batches: 3, zero, ..Case::ONE_RANK };
    let no_decay = NoDecay::OneDimensional;
    let optimizer = OptimizerConfig::Sgd { lr: 0.5, momentum: 0.0, weight_decay: 0.0, no_decay };
    let plan = plan_with_encoder(Run { optimizer, ..two_steps(case) });
    let tokens = RandomBatches::for_plan(&plan, Mask::None);
    // Data rank 0 alone uses the first module; nobody uses the second.
    let source = move |step: u64, data_rank: usize, micro_batch: usize, batch: &mut TokenBatch| {
        tokens.micro_batch(step, data_rank, micro_batch, batch)?;
        if data_rank == 0 {
            batch.encoder_inputs.push(EncoderInput { module: 0, tokens: &[1, 2], values: &[0.5; 10] });
        }
        Ok::<(), BatchError>(())
    };
    let mut engine = Engine::new(plan, Arc::new(source)).expect("ranks start");
    let before = weights_of(&mut engine);
    (0..2).for_each(|_| drop(engine.train_batch().expect("a step")));
    let of_encoder =
        |name: &str| ["encoder.0", "encoder.1", "h.5."].into_iter().find(|module| name.starts_with(module));
    let mut found = BTreeSet::new();
    for (name, values) in weights_of(&mut engine) {
        if let Some(module) = of_encoder(&name) {
            assert_eq!(values != before[&name], module == "encoder.0", "{name}");
            found.insert(module);
        }
    }
    assert_eq!(found.len(), 3, "{found:?}");
}

/// An input that the input encoder does not take leaves the step out, and the next one trains.
#[test]
fn an_input_that_cannot_be_leaves_the_step_out() {
    let case = Case { pipeline: 2, data: 2, num_micro_batches: 3, ..Case::ONE_RANK };
    let is_wrong = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_wrong);
    let source = move |_: u64, data_rank: usize, micro_batch: usize, batch: &mut TokenBatch| {
        let module = if asked.load(Ordering::Relaxed) && (data_rank, micro_batch) == (1, 2) { 2 } else { 0 };
        batch.encoder_inputs.push(EncoderInput { module, tokens: &[0], values: &[1.0; 5] });
        Ok::<(), BatchError>(())
    };
    let mut engine = engine_of(case, source);
    let before = weights_of(&mut engine);
    let error = engine.train_batch().unwrap_err();
    assert!(matches!(error, EngineError::Unread { .. }), "{error}");
    let expected =
        "micro-batch 2: input 0 of the input encoder is for module 2, and it has 2, counted from 0";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(weights_of(&mut engine), before);
    is_wrong.store(false, Ordering::Relaxed);
    engine.train_batch().expect("inputs that can be");
}

/// The list of names that says what is sharded applies to an input encoder, which is a unit of its own.
#[test]
fn an_encoder_is_a_unit_that_the_list_can_leave_whole() {
    let zero = only_the_body(ResidencyConfig::Strict, 1);
    let plan: Plan = plan_with_encoder(two_steps(Case { pipeline: 2, data: 2, zero, ..Case::ONE_RANK }));
    let whole: Vec<_> = plan.units().iter().filter(|unit| !unit.is_sharded()).collect();
    let [encoder] = whole[..] else { panic!("{} units are not sharded", whole.len()) };
    assert_eq!(encoder.layers.len(), 1);
    assert_eq!(plan.graph().layer(encoder.layers.start).name, "encoder");
}
