//! A student that learns from the logits of a teacher, each on a grid of its own.

use std::path::Path;
use std::sync::Arc;

use pipezero_config::{BatchConfig, ModelConfig, Precision, ResidencyConfig, Run, ZeroLevel};
use pipezero_models::layer::IGNORED_TARGET;
use pipezero_models::queue::Deferred;
use pipezero_models::{CrossEntropy, Device, Distillation, DistillationLoss, Host};
use pipezero_plan::Plan;
use pipezero_run::data::{BatchSource, TokenBatch};
use pipezero_run::engine::{BatchLogits, Engine, LossPart};
use pipezero_run::world::world_of;
use pipezero_train::Teacher;
use tests::{
    Case, Family, Lengths, Mask, RandomBatches, SGD, Schedule, Trained, assert_as_planned,
    assert_bit_identical, small_run, train_plan_on, two_steps, zero,
};

const SOFT: Distillation = Distillation { temperature: 2.0, alpha: 0.5 };

/// The plan of a run that learns from a teacher too.
fn student_plan(run: Run, distillation: Distillation) -> Plan {
    let vocab_size = run.model.gpt().expect("it has a vocabulary").vocab_size;
    let model = run.model.build_with_loss(Arc::new(DistillationLoss { distillation, vocab_size }));
    Plan::with_model(run, model.expect("valid sizes")).expect("a valid run")
}

/// A teacher of these weights, of its own width, for a student's batches of 8 sequences.
fn teacher_run(case: Case) -> Run {
    let mut run = small_run(Case { num_layers: 4, ..case });
    if let ModelConfig::Gpt2(sizes) = &mut run.model {
        sizes.hidden_size = 18;
    }
    run.seed = 11;
    run
}

/// The weights that a teacher's run begins with, in a file.
fn teacher_weights(home: &Path) -> std::path::PathBuf {
    let path = home.join("teacher.safetensors");
    let plan = Plan::new(teacher_run(Case::ONE_RANK)).expect("a valid run");
    let source = Arc::new(RandomBatches::for_plan(&plan, Mask::None));
    Engine::for_inference(plan, source).expect("ranks start").save(&path).expect("weights are saved");
    path
}

fn teacher(run: Run, weights: &Path) -> Teacher {
    let plan = Plan::even_if_refused(run).expect("a valid run");
    let world = world_of(&plan).expect("threads");
    Teacher::start("large".to_owned(), plan, world, weights).expect("ranks start")
}

/// Trains a student of this plan, with its teacher before each step.
fn taught(plan: Plan, lengths: Lengths, device: Arc<dyn Device>, teacher: &mut Teacher) -> Trained {
    let source = Arc::new(RandomBatches::for_plan(&plan, Mask::Uneven).with_lengths(lengths));
    let source = teacher.teach(&plan, source);
    let mut engine = Engine::on_device(plan.clone(), source, device).expect("ranks start");
    let reports = (1..=plan.run().steps).map(|step| {
        teacher.compute(step).expect("logits");
        engine.train_batch().expect("a step")
    });
    let reports: Vec<_> = reports.collect();
    Trained {
        losses: reports.iter().map(|report| report.loss.expect("targets count")).collect(),
        norms: reports.iter().map(|report| report.gradient_norm).collect(),
        weights: tests::weights_of(&mut engine),
        last: reports.into_iter().last().expect("a step"),
    }
}

fn zero_3() -> pipezero_config::ZeroConfig {
    zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1)
}

/// Grids of a teacher that computes 8 sequences in micro-batches of 2.
fn teachers() -> Vec<Case> {
    let whole = Case { num_micro_batches: 4, ..Case::ONE_RANK };
    vec![
        whole.clone(),
        Case {
            data: 4,
            num_micro_batches: 1,
            zero: zero(ZeroLevel::Zero2, ResidencyConfig::Units(1), 0),
            ..whole.clone()
        },
        Case { pipeline: 2, zero: zero_3(), ..whole.clone() },
        Case { pipeline: 2, data: 2, num_micro_batches: 2, zero: zero_3(), ..whole.clone() },
        Case { pipeline: 2, schedule: Schedule::ZbV, ..whole },
    ]
}

/// Grids of a student of the same batches that has two data ranks.
fn students() -> Vec<Case> {
    let grid = Case { data: 2, ..Case::ONE_RANK };
    vec![
        Case {
            zero: zero(ZeroLevel::Zero2, ResidencyConfig::Units(1), 0),
            precision: Precision::Bf16,
            ..grid.clone()
        },
        Case { pipeline: 2, zero: zero_3(), tied: true, ..grid.clone() },
        Case { pipeline: 2, schedule: Schedule::ZbH1, family: Family::Llama, ..grid },
    ]
}

/// Whatever the teacher's grid and level, and whichever order of a device's queues, and the student's grid as ever.
#[test]
fn the_teachers_grid_changes_no_bit_of_the_student() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let weights = teacher_weights(home.path());
    for (number, student) in students().into_iter().enumerate() {
        let lengths = [Lengths::Longest, Lengths::Drawn][number % 2];
        let plan = student_plan(two_steps(student.clone()), SOFT);
        let name = format!("{lengths:?}, {student:?}");
        let alone = student_plan(two_steps(student.clone().reference()), SOFT);
        let first = teachers().swap_remove(0);
        let reference = taught(alone, lengths, Arc::new(Host), &mut teacher(teacher_run(first), &weights));
        for of_teacher in teachers() {
            let mut teacher = teacher(teacher_run(of_teacher.clone()), &weights);
            let found = taught(plan.clone(), lengths, Arc::new(Host), &mut teacher);
            assert_bit_identical(&found, &reference, &format!("{name} of {of_teacher:?}"));
            let engine = teacher.engine().expect("all ranks are here");
            let num_ranks = engine.plan().grid().world_size();
            let held: u64 = (0..num_ranks).map(|rank| engine.ledger(rank).total_peak_bytes()).sum();
            assert_eq!(held, engine.plan().needs().world_bytes, "{of_teacher:?}");
            let beside: u64 =
                (0..num_ranks).map(|rank| engine.ledger_between_steps(rank).total_peak_bytes()).sum();
            let logits = engine.plan().micro_batch_logits_bytes(0..num_ranks);
            assert!(beside >= logits && logits > 0, "{beside} bytes beside the plan of {of_teacher:?}");
        }
        let mut teacher = teacher(teacher_run(teachers().swap_remove(3)), &weights);
        let deferred = taught(plan.clone(), lengths, Arc::new(Deferred::new(number as u64)), &mut teacher);
        assert_bit_identical(&deferred, &reference, &format!("deferred, {name}"));
        if lengths == Lengths::Longest {
            assert_as_planned(&reference_on(&plan, &mut teacher).last.measured(), &plan.forecast(), &name);
        }
    }
}

fn reference_on(plan: &Plan, teacher: &mut Teacher) -> Trained {
    taught(plan.clone(), Lengths::Longest, Arc::new(Host), teacher)
}

/// What the student's ranks with the head hold more than for cross-entropy: the logits of their batches, those of a micro-batch, and what the
/// divergence keeps of each row.
#[test]
fn the_logits_are_planned_where_the_student_has_its_head() {
    for case in students() {
        let run = two_steps(case.clone());
        let plan = student_plan(run.clone(), SOFT);
        let model = run.model.build_with_loss(Arc::new(CrossEntropy)).expect("valid sizes");
        let plain = Plan::with_model(run, model).expect("a valid run").forecast();
        let (tokens, num_micro_batches) = (12_u64, case.num_micro_batches as u64);
        let mut num_heads = 0;
        for (taught, plain) in plan.forecast().iter().zip(plain) {
            let more = taught.memory.activations - plain.memory.activations;
            let logits = 4 * (num_micro_batches + 1) * tokens * 17;
            let has_head = taught.layers.iter().any(|layer| layer == "lm_head");
            num_heads += u64::from(has_head);
            assert_eq!(more >= logits, has_head, "rank {} of {case:?}", taught.rank);
            // Three values of each row and micro-batch in flight, with what keeps them in line.
            assert!(
                more <= if has_head { logits + 2 * num_micro_batches * 64 * tokens } else { 0 },
                "{more} of {logits}"
            );
        }
        assert_eq!(num_heads, 2);
    }
}

/// With alpha 0 the teacher's word counts for nothing, not even in the last bit.
#[test]
fn alpha_zero_gives_the_bits_of_plain_training() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let weights = teacher_weights(home.path());
    let mut teacher = teacher(teacher_run(teachers().swap_remove(2)), &weights);
    for case in students() {
        let name = format!("{case:?}");
        let hard = student_plan(two_steps(case.clone()), Distillation { temperature: 3.0, alpha: 0.0 });
        let found = taught(hard, Lengths::Longest, Arc::new(Host), &mut teacher);
        let plan = Plan::even_if_refused(two_steps(case.clone())).expect("a valid run");
        let source: Arc<dyn BatchSource> = Arc::new(RandomBatches::for_plan(&plan, Mask::Uneven));
        let plain = train_plan_on(&[Arc::new(Host)], plan, source).expect("it trains");
        assert_bit_identical(&found, &plain, &name);
        let soft =
            taught(student_plan(two_steps(case), SOFT), Lengths::Longest, Arc::new(Host), &mut teacher);
        assert_ne!(soft.losses, plain.losses, "the teacher counts in {name}");
    }
}

/// A teacher may compute the same sequences in other micro-batches, of which each is then as long as its longest sequence.
#[test]
fn a_teacher_with_other_micro_batches_says_the_same() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let weights = teacher_weights(home.path());
    let student = students().swap_remove(1);
    // AdamW would turn the rounding of gradients near zero into steps.
    let run = Run { optimizer: SGD, ..two_steps(student) };
    let plan = student_plan(run, SOFT);
    for lengths in [Lengths::Longest, Lengths::Drawn] {
        let with = |micro_batch_size: usize, data: usize| {
            let num_micro_batches = 8 / micro_batch_size / data;
            let run = teacher_run(Case { data, num_micro_batches, ..Case::ONE_RANK });
            let run = Run {
                batch: BatchConfig { train_batch_size: 8, micro_batch_size, num_micro_batches },
                ..run
            };
            taught(plan.clone(), lengths, Arc::new(Host), &mut teacher(run, &weights))
        };
        let reference = with(2, 1);
        for (micro_batch_size, data) in [(1, 2), (4, 1), (4, 2), (8, 1)] {
            let name = format!("micro-batches of {micro_batch_size} on {data} data ranks, {lengths:?}");
            // Sums of f32 in another order, if any.
            tests::assert_close(&with(micro_batch_size, data), &reference, 1e-5, &name);
        }
    }
}

/// `-ln softmax(row / T)` in f64, from the definition.
fn surprises(row: &[f32], temperature: f64) -> Vec<f64> {
    let scaled: Vec<f64> = row.iter().map(|&logit| f64::from(logit) / temperature).collect();
    let sum: f64 = scaled.iter().map(|logit| logit.exp()).sum();
    scaled.iter().map(|logit| sum.ln() - logit).collect()
}

/// Means of the cross-entropy and of the divergence over the first batch of a student as it begins, in f64 from the logits of both.
fn parts_by_definition(plan: &Plan, source: &Arc<dyn BatchSource>, temperature: f64) -> [f64; 2] {
    let mut student = Engine::for_inference(plan.clone(), Arc::clone(source)).expect("ranks start");
    let logits = Arc::new(BatchLogits::for_plan(plan).expect("there is memory"));
    student.batch_logits(source, 1, &logits).expect("logits");
    let (shape, width) = (plan.micro_batch_shape(), plan.vocab_size());
    let (num_micro_batches, mut first) = (plan.run().batch.num_micro_batches, 0);
    let (mut sums, mut num_targets) = ([0.0; 2], 0.0);
    for (data_rank, micro_batch) in
        (0..plan.grid().data_degree).flat_map(|rank| (0..num_micro_batches).map(move |number| (rank, number)))
    {
        let mut batch = TokenBatch::zeros(shape.num_sequences, shape.seq_length);
        batch.num_loss_inputs = width;
        source.micro_batch(1, data_rank, micro_batch, &mut batch).expect("a batch");
        let sequences = first..first + shape.num_sequences;
        first = sequences.end;
        let of_student: Vec<f32> =
            sequences.flat_map(|sequence| logits.read(sequence, shape.seq_length, <[f32]>::to_vec)).collect();
        let rows = of_student.chunks_exact(width).zip(batch.loss_inputs.chunks_exact(width));
        for ((student, teacher), &target) in rows.zip(&batch.targets) {
            if target == IGNORED_TARGET {
                continue;
            }
            let term = |(p, q): (&f64, &f64)| (-q).exp() * (p - q);
            let (p, q) = (surprises(student, temperature), surprises(teacher, temperature));
            sums[0] += surprises(student, 1.0)[target as usize];
            sums[1] += p.iter().zip(&q).map(term).sum::<f64>();
            num_targets += 1.0;
        }
    }
    assert!(num_targets > 0.0 && num_targets < (first * shape.seq_length) as f64, "some targets are ignored");
    sums.map(|sum| sum / num_targets)
}

/// The loss is their weighted sum, each is what it is by definition, and where the teacher says nothing only the divergence is unknown.
#[test]
fn a_student_reports_its_cross_entropy_and_its_divergence() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let weights = teacher_weights(home.path());
    let mut teacher = teacher(teacher_run(teachers().swap_remove(3)), &weights);
    let case = Case { pipeline: 2, data: 2, zero: zero_3(), ..Case::ONE_RANK };
    for (temperature, alpha) in [(1.0, 1.0), (2.0, 0.5), (5.0, 0.1)] {
        let name = format!("T {temperature}, alpha {alpha}");
        let plan = student_plan(two_steps(case.clone()), Distillation { temperature, alpha });
        let plain: Arc<dyn BatchSource> = Arc::new(RandomBatches::for_plan(&plan, Mask::Uneven));
        let source = teacher.teach(&plan, Arc::clone(&plain));
        let mut engine = Engine::new(plan.clone(), Arc::clone(&source)).expect("ranks start");
        teacher.compute(1).expect("logits");
        let untaught = engine.eval_batch(&plain, 1).expect("an evaluation");
        let evaluated = engine.eval_batch(&source, 1).expect("an evaluation");
        let step = engine.train_batch().expect("a step");
        let values = |parts: &[LossPart]| -> Vec<_> {
            parts.iter().map(|part| (part.name, part.mean.map(f64::to_bits), part.num_targets)).collect()
        };
        assert_eq!(values(&evaluated.loss_parts), values(&step.loss_parts), "{name}");
        let [cross_entropy, divergence] = step.loss_parts[..] else { panic!("two parts of {name}") };
        assert_eq!([cross_entropy.name, divergence.name], ["cross_entropy", "divergence"]);
        assert_eq!([cross_entropy.num_targets, divergence.num_targets], [step.num_targets; 2], "{name}");
        let unknown = LossPart { mean: None, num_targets: 0, ..divergence };
        assert_eq!(untaught.loss_parts, [cross_entropy, unknown], "{name}");
        assert_eq!(untaught.loss, cross_entropy.mean, "{name}");
        let means = [cross_entropy, divergence].map(|part| part.mean.expect("targets count"));
        let loss = (1.0 - alpha) * means[0] + alpha * temperature * temperature * means[1];
        // Each sum of a micro-batch is rounded to 2^-60, and these few operations in f64.
        assert!((loss - step.loss.expect("targets count")).abs() < 1e-14 * loss, "{loss} in {name}");
        for (mean, expected) in means.into_iter().zip(parts_by_definition(&plan, &source, temperature)) {
            // Logarithms of sums are kept in f32 for each row.
            assert!((mean - expected).abs() < 2e-6 * expected.max(0.1), "{mean} is not {expected} in {name}");
        }
    }
}
