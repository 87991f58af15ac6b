//! Frozen parameters: those that no pattern of `train_only` matches keep their weights, and cost nothing but their forward and the gradient
//! that runs through them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use pipezero_config::{
    Checkpointing, HeadLogits, NoDecay, OptimizerConfig, PartitionConfig, Precision, ReductionPolicy,
    ResidencyConfig, Run, SchedulerConfig, ShardingConfig, ShardingRule, UnitLayers, UnitSharding,
    VocabularyConfig, ZeroConfig, ZeroLevel,
};
use pipezero_models::layer::*;
use pipezero_models::parameter::ParameterSpec;
use pipezero_models::{Layer, Queue};
use pipezero_plan::{Plan, PlanError, PlannedUnit, UnmatchedNames};
use pipezero_run::checkpoint::{CheckpointError, CheckpointReader, Checkpoints};
use pipezero_run::data::{BatchError, BatchSource, TokenBatch};
use pipezero_run::engine::{AboutRun, Engine, EngineError};
use pipezero_schedule::{Edge, Instruction, Stage};
use tests::features::GRIDS;
use tests::{
    Case, FP16, Family, Mask, NO_ZERO, RandomBatches, Sample, Schedule, Trained, Weights, assert_as_planned,
    assert_bit_identical, assert_same_weights, pairwise, plan_and_batches, small_run, train, weights_in,
    weights_of, zero,
};

/// Layers at either end, in the middle, of each kind; units of every size are cut by them. Then parameters: vectors alone, matrices alone, and some
/// of either beside whole layers.
const LISTS: [&[&str]; 9] = [
    &[r"h\.[13]\."],
    &["lm_head"],
    &["attn"],
    &["mlp", "embedding|wte|wpe"],
    &["ln_f"],
    &["^(embedding|wte|wpe)", r"h\.0\."],
    &[r"bias|ln_[12]\.weight"],
    &[r"\.(attn|mlp)\.\w+\.weight"],
    &[r"h\.1\.|h\.[24]\.attn$", r"h\.[0369].*qkv", r"ln_2\.weight", "lm_head"],
];

/// Every level of ZeRO, and weights that stay whole.
fn zeros(pipeline: usize) -> [ZeroConfig; 6] {
    let strict = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
    let rule = |sharding, pattern: &str| ShardingRule { sharding, pattern: pattern.to_owned() };
    let stays = vec![
        rule(UnitSharding::Persistent, "bias|ln_"),
        rule(UnitSharding::Whole, r"h\.[12]\.|h\.3\..*bias"),
        rule(UnitSharding::Persistent, r"h\.5\."),
    ];
    [
        NO_ZERO,
        zero(ZeroLevel::Zero1, ResidencyConfig::Units(1), 0),
        if pipeline == 1 { zero(ZeroLevel::Zero2, ResidencyConfig::Units(1), 0) } else { strict.clone() },
        zero(ZeroLevel::Zero3, ResidencyConfig::Units(2), 0),
        ZeroConfig { reduce: ReductionPolicy::Last, unit_layers: UnitLayers::Stage, ..strict.clone() },
        ZeroConfig { sharding: ShardingConfig::Listed(stays), unit_layers: UnitLayers::Half, ..strict },
    ]
}

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::Bf16, FP16];
const MODELS: [(Family, bool); 4] =
    [(Family::Gpt2, false), (Family::Gpt2, true), (Family::Llama, false), (Family::Llama, true)];
const SIZES: [usize; 7] = [GRIDS.len(), LISTS.len(), 6, PRECISIONS.len(), MODELS.len(), 3, 3];

fn case_of([grid, list, zero, precision, model, data, work]: [usize; 7]) -> Case {
    let (pipeline, schedule) = GRIDS[grid];
    let (family, tied) = MODELS[model];
    let splits = schedule.splits_backwards();
    let checkpointing = [Checkpointing::Off, Checkpointing::Unit, Checkpointing::Layers(1)][work];
    let logits = [HeadLogits::Keep, HeadLogits::Recompute, HeadLogits::Recompute][work];
    Case {
        pipeline,
        schedule,
        data: data + 1,
        num_micro_batches: 5,
        num_layers: 12,
        zero: zeros(pipeline)[zero].clone(),
        family,
        tied,
        precision: PRECISIONS[precision],
        checkpointing: if splits { Checkpointing::Off } else { checkpointing },
        dropout: if family == Family::Gpt2 && work == 2 { 0.1 } else { 0.0 },
        vocab_size: 2100,
        vocabulary: VocabularyConfig::new(1 + work, if splits { HeadLogits::Keep } else { logits }),
        train_only: LISTS[list],
        ..Case::ONE_RANK
    }
}

fn run(case: Case) -> Trained {
    let mut run = small_run(case);
    run.steps = 3;
    train(run, Mask::Uneven)
}

/// The case on one pipeline rank, with what decides bits: which weights are reduced once.
fn reference(case: &Case) -> Case {
    let plain = case.clone().reference();
    match case.zero.sharding {
        ShardingConfig::Listed(ref rules) if !rules.is_empty() => Case {
            zero: ZeroConfig {
                resident_units: ResidencyConfig::Strict,
                prefetch_units: 0,
                ..case.zero.clone()
            },
            ..plain
        },
        _ => plain,
    }
}

#[test]
fn frozen_layers_give_the_same_bits_on_every_grid_and_ranks_hold_and_send_what_is_planned() {
    let mut references: HashMap<String, Trained> = HashMap::new();
    let mut sample =
        Sample::one_in(4, "grid x frozen layers x ZeRO x precision, to the bits of one pipeline rank");
    for choice in pairwise(SIZES).into_iter().filter(|_| sample.takes_next()) {
        let case = case_of(choice);
        let name = format!("{case:?}");
        let of_one = reference(&case);
        let wanted = references.entry(format!("{of_one:?}")).or_insert_with(|| run(of_one));
        let found = run(case.clone());
        assert_bit_identical(&found, wanted, &name);
        let plan = Plan::even_if_refused(small_run(case)).expect("a valid run");
        assert_as_planned(&found.last.measured(), &plan.forecast(), &name);
        assert!(plan.num_frozen_parameters() > 0 && plan.num_frozen_parameters() < plan.num_parameters());
    }
}

/// Plain gradient descent at a constant rate: a step follows from the weights before it and its batch alone.
fn descent(case: Case) -> Run {
    let no_decay = NoDecay::OneDimensional;
    let optimizer = OptimizerConfig::Sgd { lr: 0.5, momentum: 0.0, weight_decay: 0.01, no_decay };
    Run { optimizer, scheduler: SchedulerConfig::Constant, gradient_clipping: 0.0, ..small_run(case) }
}

/// The weights after one step of a run in which every layer is trained, from these weights and with a later batch.
fn step_of_all(case: Case, weights: &Path, num_earlier: u64) -> Weights {
    let plan = Plan::even_if_refused(descent(Case { train_only: &[], ..case })).expect("a valid run");
    let batches = RandomBatches::for_plan(&plan, Mask::Uneven);
    let later = move |step: u64,
                      data_rank: usize,
                      micro_batch: usize,
                      batch: &mut TokenBatch|
          -> Result<(), BatchError> {
        batches.micro_batch(step + num_earlier, data_rank, micro_batch, batch)
    };
    let mut engine = Engine::new(plan, Arc::new(later)).expect("ranks start");
    engine.load(weights).expect("weights are read");
    engine.train_batch().expect("a step");
    weights_of(&mut engine)
}

/// Names of the parameters that are trained.
fn trained_names(plan: &Plan) -> Vec<String> {
    let of_unit = |(_, unit): (_, &PlannedUnit)| {
        let trained = unit.unit.entries().iter().filter(|entry| !unit.parts[entry.part].is_frozen);
        trained.map(|entry| entry.spec.name.clone()).collect::<Vec<_>>()
    };
    plan.owned_units().flat_map(of_unit).collect()
}

/// Step by step, what is trained becomes what it becomes where every layer is trained, and what is frozen stays as it was, to the bit.
#[test]
fn trained_layers_take_the_steps_that_they_take_without_frozen_ones_which_keep_their_weights() {
    let grid = Case { pipeline: 2, data: 2, num_micro_batches: 3, ..Case::ONE_RANK };
    let strict = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
    for case in [
        Case { train_only: &[r"h\.[13]\."], zero: strict.clone(), ..grid.clone() },
        Case {
            train_only: &["lm_head"],
            tied: true,
            zero: strict.clone(),
            precision: Precision::Bf16,
            ..grid.clone()
        },
        Case { train_only: &["attn"], tied: true, schedule: Schedule::ZbH1, ..grid.clone() },
        Case {
            train_only: &["mlp"],
            zero: zero(ZeroLevel::Zero1, ResidencyConfig::Strict, 0),
            precision: FP16,
            ..grid.clone()
        },
        Case {
            train_only: LISTS[6],
            zero: zeros(2)[5].clone(),
            precision: Precision::Bf16,
            num_layers: 8,
            ..grid.clone()
        },
        // One buffer, which both parts are gathered in.
        Case {
            train_only: LISTS[6],
            zero: zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 0),
            ..grid.clone()
        },
        Case { train_only: LISTS[7], zero: strict, family: Family::Llama, ..grid.clone() },
        Case { train_only: LISTS[8], schedule: Schedule::ZbH1, num_layers: 10, ..grid },
    ] {
        let name = format!("{case:?}");
        let home = tempfile::tempdir().expect("a temporary folder");
        let (plan, source) = plan_and_batches(descent(case.clone()), Mask::Uneven);
        let trained = trained_names(&plan);
        let mut engine = Engine::new(plan, source).expect("ranks start");
        for step in 0..3 {
            let path = home.path().join(format!("{step}.safetensors"));
            engine.save(&path).expect("weights are saved");
            let mut expected = weights_in(&path);
            let of_all = step_of_all(case.clone(), &path, step);
            engine.train_batch().expect("a step");
            let mut num_changed = 0;
            for parameter in &trained {
                num_changed += usize::from(expected[parameter] != of_all[parameter]);
                expected.insert(parameter.clone(), of_all[parameter].clone());
            }
            assert!(num_changed > 0 && trained.len() < expected.len(), "something is trained in {name}");
            assert_same_weights(&weights_of(&mut engine), &expected, &name);
        }
    }
}

/// Squares are added exactly, so those of three runs that train a part each are those of the run that trains all.
#[test]
fn the_norm_is_that_of_what_is_trained() {
    let zero = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
    let case = Case { pipeline: 2, data: 2, tied: true, zero, ..Case::ONE_RANK };
    let norm = |train_only| {
        let (plan, source) = plan_and_batches(small_run(Case { train_only, ..case.clone() }), Mask::Uneven);
        let mut engine = Engine::new(plan, source).expect("ranks start");
        engine.train_batch().expect("a step").gradient_norm
    };
    let of_block = [norm(&[r"\.bias", r"ln_[12]\.weight"]), norm(&[r"\.(attn|mlp)\.\w+\.weight"])];
    let parts = [of_block[0], of_block[1], norm(&["wte|wpe", r"ln_f\.weight"])];
    let (sum, all) = (parts.iter().map(|norm| norm * norm).sum::<f64>(), norm(&[]).powi(2));
    assert!(parts.iter().all(|&norm| norm > 0.0) && (sum - all).abs() <= 1e-14 * all, "{parts:?}, {all}");
}

/// A layer that has a forward alone.
#[derive(Debug)]
struct WithoutBackward(Arc<dyn Layer>);

impl Layer for WithoutBackward {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        self.0.parameters()
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        self.0.sizes(shape)
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: ForwardArgs<'_>) {
        self.0.forward(queue, shape, args);
    }

    fn recompute(&self, _: &dyn Queue, _: MicroBatchShape, _: RecomputeArgs<'_>) {
        panic!("{} has no backward that would need it", self.name());
    }

    fn backward_input(&self, _: &dyn Queue, _: MicroBatchShape, _: BackwardInputArgs<'_>) {
        panic!("{} has no backward", self.name());
    }

    fn backward_weight(&self, _: &dyn Queue, _: MicroBatchShape, _: BackwardWeightArgs<'_>) {
        panic!("{} has no backward", self.name());
    }
}

/// As autograd, which follows nothing that leads to no trained weight: neither computed nor recomputed, and gathered for forwards alone.
#[test]
fn there_is_no_backward_in_front_of_all_that_is_trained() {
    let strict = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 0);
    let grid = Case {
        pipeline: 3,
        data: 2,
        num_micro_batches: 4,
        num_layers: 6,
        train_only: &[r"h\.3\..*bias", "lm_head"],
        zero: strict,
        ..Case::ONE_RANK
    };
    for case in [
        grid.clone(),
        Case { checkpointing: Checkpointing::Unit, precision: Precision::Bf16, ..grid.clone() },
        Case { schedule: Schedule::ZbH1, ..grid.clone() },
        Case { pipeline: 1, family: Family::Llama, ..grid },
    ] {
        let name = format!("{case:?}");
        let (plan, source) = plan_and_batches(small_run(case.clone()), Mask::Uneven);
        let is_in_front = |layer: &str| {
            layer.starts_with("embedding") || ["h.0.", "h.1.", "h.2."].iter().any(|of| layer.starts_with(of))
        };
        let mut model = plan.run().model.build().expect("a model");
        for layer in model.layers.iter_mut().filter(|layer| is_in_front(layer.layer.name())) {
            layer.layer = Arc::new(WithoutBackward(Arc::clone(&layer.layer)));
        }
        let bare = Plan::with_model(plan.run().clone(), model).expect("a valid run");
        for (id, unit) in plan.owned_units() {
            let names = unit.unit.layers().iter().map(|layer| layer.name());
            assert_eq!(unit.has_backward, !names.clone().any(is_in_front), "{name}");
            let instructions = plan.training().row(plan.pipeline_rank_of(unit.stage)).iter();
            let num_gathers = instructions.filter(|of| **of == Instruction::Unshard { unit: id }).count();
            assert_eq!(num_gathers, if unit.has_backward { 8 } else { 4 }, "{name}");
            assert_eq!(unit.has_backward, plan.training().chain().has_backward(id), "{name}");
        }
        let sent_to = |stage| {
            let of_stage = |of: &Instruction| matches!(of, Instruction::Send { edge, .. } if *edge == Edge::Down(Stage(stage)));
            let rows = plan.training().ranks().flat_map(|rank| plan.training().row(rank));
            rows.filter(|of| of_stage(of)).count()
        };
        let num_stages = plan.training().chain().num_stages() as u32;
        let sent: Vec<usize> = (0..num_stages - 1).map(sent_to).collect();
        assert_eq!(sent, [0, 4][..sent.len()], "gradients of four micro-batches, or none: {name}");
        let [mut wanted, mut found] =
            [plan, bare].map(|plan| Engine::new(plan, Arc::clone(&source)).expect("ranks start"));
        for _ in 0..2 {
            let [wanted, found] =
                [&mut wanted, &mut found].map(|engine| engine.train_batch().expect("a step"));
            assert_eq!(wanted.loss.map(f64::to_bits), found.loss.map(f64::to_bits), "{name}");
        }
        assert_same_weights(&weights_of(&mut found), &weights_of(&mut wanted), &name);
    }
}

fn checkpoint(engine: &mut Engine, to: &Path) -> CheckpointReader {
    let checkpoints = Checkpoints::of_run(to);
    engine.write_checkpoint(&checkpoints, &AboutRun::default()).expect("a checkpoint is written");
    CheckpointReader::open(&checkpoints.at(engine.position().step)).expect("a sound checkpoint")
}

/// All weights, and the optimizer's state of what is trained: another grid goes on from them with the same bits, from a copy in other
/// files too.
#[test]
fn a_run_with_frozen_layers_goes_on_on_another_grid() {
    for precision in PRECISIONS {
        let zero_3 = zero(ZeroLevel::Zero3, ResidencyConfig::Units(2), 1);
        let zero_3 = ZeroConfig { reduce: ReductionPolicy::Last, ..zero_3 };
        let one = Case {
            data: 2,
            num_micro_batches: 3,
            tied: true,
            precision,
            train_only: &[r"h\.[13]\.", "wte"],
            ..Case::ONE_RANK
        };
        let other = Case { pipeline: 2, zero: zero_3, ..one.clone() };
        let home = tempfile::tempdir().expect("a temporary folder");
        let engine = |case: &Case| {
            let (plan, source) = plan_and_batches(small_run(case.clone()), Mask::Uneven);
            Engine::new(plan, source).expect("ranks start")
        };
        let mut first = engine(&one);
        (0..2).for_each(|_| drop(first.train_batch().expect("a step")));
        let written = checkpoint(&mut first, &home.path().join("written"));
        let exported = home.path().join("exported.safetensors");
        written.export(&exported).expect("weights are written");
        assert_same_weights(&weights_in(&exported), &weights_of(&mut first), "the export");
        let copies = Checkpoints::of_run(&home.path().join("copied"));
        written.reshape(&copies, 3).expect("a copy in three files");
        let copied = CheckpointReader::open(&copies.at(2)).expect("a sound checkpoint");
        copied.verify().expect("sound files");
        let frozen = written.manifest().parameters.iter().filter(|of| of.is_frozen);
        assert!(frozen.count() > 0, "some are frozen");
        let mut second = engine(&other);
        second.resume(&Arc::new(copied)).expect("it goes on");
        for _ in 0..2 {
            let [one, other] =
                [&mut first, &mut second].map(|engine| engine.train_batch().expect("a step").loss);
            assert_eq!(one.map(f64::to_bits), other.map(f64::to_bits), "{precision:?}");
        }
        assert_same_weights(&weights_of(&mut second), &weights_of(&mut first), "both grids");
        // Evaluations read what is saved, of frozen layers too.
        let (plan, source) = plan_and_batches(small_run(Case { train_only: &[], ..other }), Mask::None);
        let mut inference = Engine::for_inference(plan, Arc::clone(&source)).expect("ranks start");
        let last = checkpoint(&mut second, &home.path().join("last"));
        inference.load_parameters(&Arc::new(last)).expect("weights are read");
        let trained = second.eval_batch(&source, 1).expect("an evaluation").loss;
        let read = inference.eval_batch(&source, 1).expect("an evaluation").loss;
        assert_eq!(trained.map(f64::to_bits), read.map(f64::to_bits), "{precision:?}");
    }
}

#[test]
fn other_trained_layers_are_refused_on_resuming_and_their_weights_can_be_read() {
    let case = |train_only| Case { train_only, ..Case::ONE_RANK };
    let engine = |train_only| {
        let (plan, source) = plan_and_batches(small_run(case(train_only)), Mask::None);
        Engine::new(plan, source).expect("ranks start")
    };
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut first = engine(&[r"h\.[13]\."]);
    first.train_batch().expect("a step");
    let written = Arc::new(checkpoint(&mut first, home.path()));
    for (train_only, parameter, was) in [
        (&[][..], "wte.weight", true),
        (&["attn"], "h.0.ln_1.weight", true),
        (&["h.1"], "h.3.ln_1.weight", false),
        (&["h.1", r"h\.3.*(bias|weight)", "wpe"], "wpe.weight", true),
        (&["h.1", r"h\.3.*weight"], "h.3.ln_1.bias", false),
    ] {
        let mut other = engine(train_only);
        match other.resume(&written) {
            Err(EngineError::Checkpoint(CheckpointError::OtherTrained { name, was_frozen, .. })) => {
                assert_eq!((name.as_str(), was_frozen), (parameter, was), "{train_only:?}");
            }
            found => panic!("{train_only:?}: {found:?}"),
        }
        other.load_parameters(&written).expect("weights alone are read");
        assert_same_weights(&weights_of(&mut other), &weights_of(&mut first), "the weights");
    }
    // Another spelling of the same list is the same.
    engine(&["h.1", "h.3"]).resume(&written).expect("it goes on");
}

#[test]
fn patterns_that_match_nothing_are_refused_and_one_use_or_slice_of_a_table_means_all() {
    let plan = |case: Case| Plan::even_if_refused(small_run(case));
    let fault = |train_only| match plan(Case { train_only, ..Case::ONE_RANK }) {
        Err(PlanError::TrainOnly(fault)) => *fault,
        found => panic!("{:?}", found.map(|plan| plan.units().len())),
    };
    let names = ["embedding", "h.0.attn", "lm_head"].map(str::to_owned);
    let entries = vec![(1, "h.9".to_owned()), (2, "qkv$".to_owned())];
    assert_eq!(fault(&["lm_head", "h.9", "qkv$"]), UnmatchedNames { entries, names });
    let trained = |case: Case| {
        let plan = plan(case).expect("a valid run");
        let units = plan.units().iter().filter(|unit| !unit.is_frozen);
        let layers =
            units.flat_map(|unit| unit.layers.clone().map(|layer| plan.graph().layer(layer).name.clone()));
        layers.collect::<Vec<_>>().join(" ")
    };
    let tied = Case { tied: true, ..Case::ONE_RANK };
    for train_only in [&["wte"], &["lm_head"], &[r"^lm_head\.weight$"]] {
        assert_eq!(trained(Case { train_only, ..tied.clone() }), "wte lm_head");
    }
    let sliced =
        Case { vocab_size: 2100, vocabulary: VocabularyConfig::new(2, HeadLogits::Keep), ..Case::ONE_RANK };
    for train_only in [&[r"^lm_head$"], &[r"lm_head\.1"]] {
        assert_eq!(trained(Case { train_only, ..sliced.clone() }), "lm_head.0 lm_head.1");
    }
}

/// Lists and splits that the plan makes, and units that stay resident by themselves: what is planned is held and sent.
#[test]
fn what_is_left_to_the_plan_is_held_and_sent_as_planned() {
    for (precision, tied) in [(Precision::F32, false), (Precision::Bf16, true)] {
        for train_only in [&[r"h\.[13]\."][..], &["lm_head"], &["attn", "ln_f"], LISTS[6], LISTS[7]] {
            let level = zero(ZeroLevel::Zero3, ResidencyConfig::Level, 1);
            let zero = ZeroConfig { sharding: ShardingConfig::Auto, ..level };
            let grid = Case { pipeline: 2, data: 2, num_micro_batches: 3, ..Case::ONE_RANK };
            let mut run = small_run(Case { zero, precision, tied, train_only, ..grid });
            run.parallel.partition = PartitionConfig::Balanced;
            let name = format!("{precision:?}, {train_only:?}");
            let unbound = Plan::even_if_refused(run.clone()).expect("a valid run").fullest_rank().1;
            for memory_bytes in [None, Some(unbound)] {
                let (plan, source) = plan_and_batches(Run { memory_bytes, ..run.clone() }, Mask::Uneven);
                let planned = plan.forecast();
                let mut engine = Engine::new(plan, source).expect("ranks start");
                let measured = engine.train_batch().expect("a step").measured();
                assert_as_planned(&measured, &planned, &name);
            }
        }
    }
}
