//! Two processes, each with a part of the ranks, run the same program: they give the bits of one process, write every file once, and
//! report a failure on either side alike.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use pipezero_config::{Precision, ResidencyConfig, Resources, Run, RunFile, ZeroLevel};
use pipezero_measure::compare::{Comparison, Prediction};
use pipezero_measure::profile::{ProfileOptions, profile, profile_in};
use pipezero_measure::recording::Recording;
use pipezero_measure::trace::{TraceFolder, TracedSteps};
use pipezero_models::Device;
use pipezero_models::queue::Deferred;
use pipezero_plan::Plan;
use pipezero_run::checkpoint::{CheckpointReader, Checkpoints};
use pipezero_run::data::{BatchSource, TokenBatch, Zeros};
use pipezero_run::engine::{Engine, EngineError, Inference, InitialState, StepReport};
use pipezero_run::generation::{Generation, Sampling};
use pipezero_run::world::{World, world_of};
use pipezero_train::{EvalLine, Observer, RunDir, Score, Scored, StepLine, Summary, TrainedRun, Training};
use tests::{
    Case, Mask, Outputs, RandomBatches, Sample, example, grids, in_two_processes, on_devices,
    plan_and_batches, two_steps, weights_in, zero,
};

/// Grids whose ranks gather, reduce and hand on in different ways. The first has four ranks.
fn cases() -> Vec<Case> {
    let strict = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
    let tied = Case { tied: true, num_micro_batches: 3, zero: strict, ..Case::ONE_RANK };
    let more = [
        Case { pipeline: 2, data: 2, ..tied.clone() },
        Case { pipeline: 4, data: 1, precision: Precision::Bf16, ..tied.clone() },
    ];
    more.into_iter().chain(grids()).collect()
}

/// A world of two processes on a device that runs kernels later than asked, read by two clocks: bits, and recorded steps that fit
/// together although the second clock is far ahead of the first.
#[test]
fn two_processes_whose_clocks_differ_record_steps_that_fit_together() {
    let mut sample = Sample::one_in(4, "order of a device's queues, two processes with two clocks");
    for case in cases() {
        let (plan, source) = plan_and_batches(two_steps(case.clone()), Mask::Uneven);
        let home = tempfile::tempdir().expect("a temporary folder");
        let one = home.path().join("one.safetensors");
        let engine = Engine::new(plan.clone(), Arc::clone(&source)).expect("ranks start");
        let expected = Outputs::of(engine, &source, &one);
        for seed in 0..20 {
            if !sample.takes_next() {
                continue;
            }
            let num_ranks = plan.grid().world_size();
            let (cut, name) = (1 + seed as usize % (num_ranks - 1), format!("{case:?}, seed {seed}"));
            let device = Deferred::new(seed);
            let [first, second] = [device.clone(), device.ahead_by(1_000_000_007 * seed)]
                .map(|device| Arc::new(device) as Arc<dyn Device>);
            let devices = (0..num_ranks).map(|rank| Arc::clone(if rank < cut { &first } else { &second }));
            let file = |process| home.path().join(format!("process-{process}-of-{seed}.safetensors"));
            let found = on_devices(&plan, cut, devices.collect(), |world, process| {
                let (plan, batches) = (plan.clone(), Arc::clone(&source));
                let engine = Engine::in_world(plan, batches, world).expect("ranks start");
                Outputs::of(engine, &source, &file(process))
            });
            for found in &found {
                assert_eq!(found.bits(), expected.bits(), "{name}");
            }
            assert_eq!(weights_in(&file(0)), weights_in(&one), "{name}");
            let recorded =
                Recording::new(&plan, &found[0].steps[1]).unwrap_or_else(|fault| panic!("{fault}, {name}"));
            assert!(recorded.makespan_ns() < 1_000_000, "a step has fewer tasks than that: {name}");
            assert!(
                Recording::new(&plan, &found[1].steps[1]).is_err(),
                "the second process knows half: {name}"
            );
        }
    }
}

#[test]
fn two_processes_give_the_bits_of_one_wherever_the_ranks_are_cut() {
    for case in cases() {
        let (plan, source) = plan_and_batches(two_steps(case.clone()), Mask::Uneven);
        let home = tempfile::tempdir().expect("a temporary folder");
        let one = home.path().join("one.safetensors");
        let engine = Engine::new(plan.clone(), Arc::clone(&source)).expect("ranks start");
        let expected = Outputs::of(engine, &source, &one);
        for cut in 1..plan.grid().world_size() {
            let file = |process| home.path().join(format!("process-{process}.safetensors"));
            let found = in_two_processes(&plan, cut, |world, process| {
                let (plan, batches) = (plan.clone(), Arc::clone(&source));
                let engine = Engine::in_world(plan, batches, world).expect("ranks start");
                Outputs::of(engine, &source, &file(process))
            });
            let name = format!("{case:?}, cut at {cut}");
            for found in &found {
                assert_eq!(found.bits(), expected.bits(), "{name}");
            }
            assert_eq!(weights_in(&file(0)), weights_in(&one), "{name}");
            assert!(!file(1).exists(), "the second process writes nothing");
            for ((first, second), one) in found[0].steps.iter().zip(&found[1].steps).zip(&expected.steps) {
                assert_eq!(first.traffic(), one.traffic(), "{name}");
                assert_eq!(second.traffic(), one.traffic()[cut..], "{name}");
                let memory =
                    |report: &StepReport| report.measured().iter().map(|of| of.memory).collect::<Vec<_>>();
                assert_eq!(memory(first), memory(one), "{name}");
                assert_eq!(memory(second), memory(one)[cut..], "{name}");
            }
        }
    }
}

/// Rank 0 and the rank that hands over hold a piece of the unit each, of 1 MiB at most; it is gathered where the plan has a buffer.
#[test]
fn saving_holds_a_piece_of_a_unit_at_most_beside_what_is_planned() {
    for case in cases() {
        let (plan, source) = plan_and_batches(two_steps(case.clone()), Mask::None);
        let home = tempfile::tempdir().expect("a temporary folder");
        let mut engine = Engine::new(plan.clone(), source).expect("ranks start");
        engine.train_batch().expect("a step");
        let ranks = 0..plan.grid().world_size();
        let planned: Vec<u64> = ranks.clone().map(|rank| engine.ledger(rank).total_peak_bytes()).collect();
        engine.save(&home.path().join("weights.safetensors")).expect("weights are saved");
        let largest = plan.units().iter().map(|unit| unit.gradient_len()).max();
        let unit_bytes = 4 * largest.expect("a plan has units") as u64;
        for rank in ranks {
            assert_eq!(engine.ledger(rank).total_peak_bytes(), planned[rank], "{case:?}");
            let held = engine.ledger_between_steps(rank).total_peak_bytes();
            assert!(
                held <= unit_bytes.min(1 << 20),
                "rank {rank} held {held} bytes of {unit_bytes}: {case:?}"
            );
        }
        assert!(engine.ledger_between_steps(0).total_peak_bytes() > 0);
    }
}

/// A run file of a small GPT on some ranks, which reads a text.
fn run_file(home: &Path, arguments: &[&str]) -> RunFile {
    std::fs::write(home.join("text.txt"), "the quick brown fox jumps over the lazy dog; ".repeat(200))
        .unwrap();
    let text = r#"{
        "model": {"family": "gpt2", "num_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 16,
            "vocab_size": 256},
        "data": {"text": "text.txt"},
        "parallel": {"pipeline": 2, "data": 2},
        "zero_optimization": {"stage": 3},
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 3,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
        "evaluation": {"every": 2, "batches": 2},
        "threads": 1,
        "steps": 5
    }"#;
    std::fs::write(home.join("run.json"), text).unwrap();
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    RunFile::load(&home.join("run.json")).and_then(|file| file.set(&arguments)).expect("a valid run file")
}

fn planned(file: &RunFile) -> Plan {
    Plan::from_file(file, Resources::this_host()).expect("a valid run").0
}

/// Keeps what is observed, without times; sets a flag after a step.
#[derive(Default)]
struct Watch<'a> {
    lines: Vec<String>,
    ends_after: Option<(u64, &'a AtomicBool)>,
}

impl Observer for Watch<'_> {
    fn step(&mut self, line: &StepLine) {
        self.lines.push(format!("{} {:?} {:?} {}", line.step, line.loss, line.grad_norm, line.tokens));
        if let Some((step, flag)) = self.ends_after
            && line.step == step
        {
            flag.store(true, Ordering::Relaxed);
        }
    }

    fn evaluation(&mut self, line: &EvalLine) {
        self.lines.push(format!("{line:?}"));
    }
}

/// One process's part of a training run into `folder`, ended by itself after a step, if it is.
fn trained(
    file: &RunFile,
    world: Arc<dyn World>,
    folder: &Path,
    ends_after: Option<u64>,
) -> (Summary, Vec<String>) {
    let training = Training::in_world(planned(file), world).expect("ranks start");
    let training = training.traced(TracedSteps::of_run(5));
    let directory = match training.writes() {
        true => RunDir::create(folder, false).expect("a new folder"),
        false => RunDir::written_elsewhere(folder),
    };
    if training.writes() {
        directory.record(file, training.plan(), None, None).expect("a run file");
    }
    let interrupted = AtomicBool::new(false);
    let mut watch = Watch { ends_after: ends_after.map(|step| (step, &interrupted)), ..Watch::default() };
    let summary = training.run(&directory, &interrupted, &mut watch).expect("the run ends well");
    (summary, watch.lines)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_training_run_of_two_processes_leaves_what_one_process_leaves() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = run_file(home.path(), &[]);
    let plan = planned(&file);
    let [one, two] = ["one", "two"].map(|name| home.path().join(name));
    let (expected, lines) = trained(&file, world_of(&plan).expect("threads"), &one, None);
    let found = in_two_processes(&plan, 1, |world, _| trained(&file, world, &two, None));
    for (summary, found) in &found {
        assert_eq!(found, &lines);
        assert_eq!(summary.validation_loss, expected.validation_loss);
    }
    assert_eq!(names(&two), names(&one));
    assert_eq!(names(&two.join(TraceFolder::NAME)), names(&one.join(TraceFolder::NAME)));
    let weights = |folder: &Path| std::fs::read(folder.join(RunDir::WEIGHTS)).expect("weights");
    assert!(weights(&two) == weights(&one), "the same bytes");
    let [measured, of_one] =
        [&found[0].0, &expected].map(|summary| serde_json::to_value(&summary.ranks).unwrap());
    assert_eq!(measured, of_one);
    // The traced steps are read and compared as those of one process are.
    let folder = TraceFolder::of_run(&two);
    let steps: Vec<Recording<'_>> =
        folder.steps().unwrap().into_iter().map(|step| folder.read(&plan, step).unwrap()).collect();
    assert_eq!(steps.len(), 3);
    let prediction = Prediction::from_steps(&plan, &steps).expect("a step takes no centuries");
    let peaks = RunDir::of_run_file(&two).unwrap().measured().unwrap().peak_bytes();
    assert_eq!(Comparison::new(&steps, &prediction, &peaks).steps, [2, 3, 4]);

    // And the run is scored and continued alike, in one process and in two.
    // How weights were read, and in what time, may differ.
    let alike = |score: Score| Score { loaded_weights: None, ..score };
    let run = |folder: &Path| TrainedRun::open(folder).unwrap();
    let score = |folder: &Path| alike(run(folder).score(&[], Scored::Batches(None)).expect("a score"));
    assert_eq!(score(&two), score(&one));
    let scores = in_two_processes(&plan, 2, |world, _| {
        alike(run(&two).score_in(&[], Scored::Batches(None), |_| Ok(world)).expect("a score"))
    });
    assert_eq!(scores, [score(&one), score(&one)]);
    let text = |mut engine: Engine<Inference>| -> Vec<u32> {
        let sampling = Sampling { temperature: 1.0, top_k: 0, seed: 3 };
        let mut generation = Generation::new(&mut engine, [(0, vec![116, 104, 101])], sampling, None);
        (0..12).map(|_| generation.next_tokens().expect("a token")[0].expect("no token ends it")).collect()
    };
    let expected = text(TrainedRun::open(&one).unwrap().text_engine(1).expect("ranks start"));
    let narrow = planned(&run_file(home.path(), &["parallel.data=1", "gradient_accumulation_steps=6"]));
    let texts = in_two_processes(&narrow, 1, |world, _| {
        text(TrainedRun::open(&two).unwrap().text_engine_in(1, |_| Ok(world)).expect("ranks start"))
    });
    assert_eq!(texts, [expected.clone(), expected]);
}

/// The disk is full: both processes end at once, and the weights of the step are saved.
#[test]
fn metrics_that_cannot_be_written_end_both_processes_with_weights() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = run_file(home.path(), &[]);
    let folder = home.path().join("full");
    let errors = in_two_processes(&planned(&file), 1, |world, _| {
        let training = Training::in_world(planned(&file), world).expect("ranks start");
        let directory = match training.writes() {
            true => RunDir::create(&folder, false).expect("a new folder"),
            false => RunDir::written_elsewhere(&folder),
        };
        let (writes, mut watch) = (training.writes(), Watch::default());
        let mut underway = training.begin(&directory, &mut watch).expect("its files are opened");
        // No line can be written to what stands there now.
        let replaced = |path| fs::remove_file(&path).and_then(|()| fs::create_dir(path)).expect("a folder");
        writes.then(|| replaced(folder.join(RunDir::METRICS)));
        (0..).find_map(|_| underway.step(false, &mut watch).err()).expect("no line is written").to_string()
    });
    assert!(errors[0].contains("metrics.jsonl: Is a directory"), "{errors:?}");
    let shown = folder.display();
    let saved = format!(
        "the state after step 1 is saved in {shown}: go on with the same command and --resume --out {shown}"
    );
    assert_eq!(errors[1], format!("{}\n{saved}", EngineError::Elsewhere));
    assert!(errors[0].ends_with(&saved), "{errors:?}");
    assert!(folder.join(RunDir::WEIGHTS).is_file());
    let checkpoints = Checkpoints::of_run(&folder);
    let saved = CheckpointReader::open(&checkpoints.at(1)).expect("a sound checkpoint of both processes");
    assert_eq!(saved.manifest().files.len(), planned(&file).grid().world_size());
}

#[test]
fn whichever_process_is_interrupted_both_end_after_the_same_step() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = run_file(home.path(), &[]);
    for interrupted in [0, 1] {
        let folder = home.path().join(format!("ended-by-{interrupted}"));
        let found = in_two_processes(&planned(&file), 2, |world, process| {
            trained(&file, world, &folder, (process == interrupted).then_some(3))
        });
        for (summary, _) in found {
            assert_eq!((summary.steps, summary.interrupted), (3, true));
        }
        assert!(folder.join(RunDir::WEIGHTS).exists() && folder.join(RunDir::SUMMARY).exists());
    }
}

#[test]
fn two_processes_profile_what_one_profiles_and_the_first_has_the_costs() {
    let plan = Plan::new(example(
        "timed-overlap.json",
        &["parallel.pipeline=2", "parallel.data=2", "model.num_layers=8", "model.forward_ms=1", "steps=2"],
    ))
    .expect("a valid run");
    let options = ProfileOptions { num_warm_up_steps: 1, num_steps: 2, times_kernels: false };
    let zeros: Arc<dyn BatchSource> = Arc::new(Zeros);
    let one = profile(plan.clone(), Arc::clone(&zeros), options, &mut |_| {}).expect("costs");
    let [first, second] = in_two_processes(&plan, 2, |world, _| {
        profile_in(plan.clone(), Arc::clone(&zeros), options, world, &mut |_| {}).expect("costs")
    });
    assert_eq!(second, None);
    let first = first.expect("rank 0 is in the first process");
    let keys = |costs: &pipezero_plan::costs::CostsFile| {
        let kinds = costs.messages.iter().map(|of| format!("{:?} {}", of.kind, of.ranks));
        kinds.chain(costs.units.iter().map(|unit| unit.layers.join(","))).collect::<Vec<_>>()
    };
    assert_eq!(keys(&first.costs), keys(&one.costs));
    assert!(first.predicted_step_s(&plan).expect("a prediction") > 0.0);
}

/// The report of both processes of a run on 2 x 2 ranks in which one rank has a fault in step 2.
fn reports(
    cut: usize,
    rank: usize,
    timeout: Duration,
    fault: impl Fn(&mut TokenBatch) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
    + Send
    + Sync
    + 'static,
) -> [String; 2] {
    let mut run = two_steps(cases()[0].clone());
    run.comm.timeout = timeout;
    let plan = Plan::even_if_refused(run).expect("a valid run");
    let source = RandomBatches::for_plan(&plan, Mask::None).with_fault(rank, fault);
    let source: Arc<dyn BatchSource> = Arc::new(source);
    in_two_processes(&plan, cut, |world, _| {
        let batches = Arc::clone(&source);
        let mut engine = Engine::in_world(plan.clone(), batches, world).expect("ranks start");
        engine.train_batch().expect("a step");
        let report = engine.train_batch().expect_err("a fault").to_string();
        assert!(matches!(engine.train_batch(), Err(EngineError::AlreadyStopped)));
        assert!(matches!(engine.in_any_process(true), Err(EngineError::AlreadyStopped)));
        report
    })
}

#[test]
fn a_failure_on_either_side_is_one_report_of_all_ranks_the_cause_first() {
    for (cut, rank) in [(1, 0), (1, 3), (2, 0), (2, 1), (2, 2), (3, 0), (3, 3)] {
        let [first, second] =
            reports(cut, rank, Duration::from_secs(60), |_| panic!("the tokenizer is gone"));
        assert_eq!(first, second, "cut at {cut}");
        let mut lines = first.lines();
        assert_eq!(lines.next(), Some("all ranks have stopped; the cause comes first"));
        let cause =
            format!("  rank {rank} at step 2, reading micro-batch 1: panicked: the tokenizer is gone");
        assert_eq!(lines.next(), Some(cause.as_str()));
        assert_eq!(lines.count(), 3, "the other ranks: {first}");
    }
}

#[test]
fn a_rank_that_stalls_in_another_process_is_named_with_its_place() {
    for (cut, rank) in [(2, 1), (2, 3)] {
        let (release, blocked) = channel::<()>();
        let blocked = std::sync::Mutex::new(blocked);
        let found =
            reports(cut, rank, Duration::from_secs(2), move |_| Ok(blocked.lock().unwrap().recv()?));
        for report in &found {
            let cause = format!("  rank {rank} at step 2, reading micro-batch 1: does not answer");
            assert_eq!(report.lines().nth(1), Some(cause.as_str()), "{report}");
        }
        assert_eq!(found[0], found[1]);
        // The rank has stopped waiting already, or does so now.
        let _ = release.send(());
    }
}

/// A process that gives up, for a reason of its own, ends the other at once: no time-out is waited for.
#[test]
fn a_process_that_ends_early_ends_the_other() {
    let (plan, source) = plan_and_batches(two_steps(cases()[0].clone()), Mask::None);
    for ended in [0, 1] {
        let found = in_two_processes(&plan, 2, |world, process| {
            let batches = Arc::clone(&source);
            let mut engine = Engine::in_world(plan.clone(), batches, world).expect("ranks start");
            engine.train_batch().expect("a step");
            if process == ended {
                String::new()
            } else {
                engine.train_batch().expect_err("it is alone").to_string()
            }
        });
        let report = &found[1 - ended];
        for rank in 0..4 {
            assert!(report.contains(&format!("rank {rank}")), "{report}");
        }
        assert_eq!(report.matches("does not answer").count(), 2, "{report}");
        assert_eq!(report.matches(", last heard of at ").count(), 2, "{report}");
    }
}

#[test]
fn a_world_of_another_size_is_refused() {
    let (plan, source) = plan_and_batches(two_steps(cases()[0].clone()), Mask::None);
    let (other, _) = plan_and_batches(two_steps(Case { data: 1, ..cases()[0].clone() }), Mask::None);
    let world = world_of(&other).expect("threads");
    let error = Engine::in_world(plan, source, world).expect_err("other sizes");
    let expected =
        "the plan has 4 ranks, and 2 were started: start as many processes as it has ranks (mpirun -n 4)";
    assert_eq!(error.to_string(), expected);
}

/// A unit of more elements than are sent to rank 0 at once, and not a multiple of them.
#[test]
fn units_of_several_pieces_are_saved_and_loaded_whole() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| home.path().join(name);
    let settings = [
        "model.num_layers=4",
        "model.parameters_per_layer=2500000",
        "model.forward_ms=0",
        "model.backward_input_ms=0",
        "model.backward_weight_ms=0",
        "comm.links=null",
        "zero_optimization.unit_layers=2",
    ];
    let plan = |grid: &[&str]| {
        Plan::new(example("timed-overlap.json", &[&settings[..], grid].concat())).expect("a valid run")
    };
    let engine = |plan: Plan, world| {
        let zeros: Arc<dyn BatchSource> = Arc::new(Zeros);
        Engine::for_inference_with(plan, zeros, world, &InitialState::Drawn).expect("ranks start")
    };
    let narrow = plan(&["parallel.pipeline=1", "parallel.data=1", "zero_optimization.stage=0"]);
    engine(narrow.clone(), world_of(&narrow).expect("threads"))
        .save(&file("one"))
        .expect("weights are saved");
    let wide = plan(&["parallel.pipeline=2", "parallel.data=2", "zero_optimization.stage=1"]);
    in_two_processes(&wide, 2, |world, _| {
        let mut engine = engine(wide.clone(), world);
        engine.load(&file("one")).expect("weights are loaded");
        engine.save(&file("two")).expect("weights are saved");
    });
    let [one, two] = ["one", "two"].map(|name| std::fs::read(file(name)).expect("weights"));
    assert!(one.len() > 4 * 10_000_000 && one == two, "the same bytes");
}

/// The first process cannot write, or the second cannot read: both say so, and both go on.
#[test]
fn what_one_process_cannot_do_fails_in_both_and_the_ranks_go_on() {
    let (plan, source) = plan_and_batches(two_steps(cases()[0].clone()), Mask::None);
    let home = tempfile::tempdir().expect("a temporary folder");
    let [good, bad] = [home.path().join("weights"), home.path().join("no/such/folder/weights")];
    let errors = in_two_processes(&plan, 1, |world, process| {
        let batches = Arc::clone(&source);
        let mut engine = Engine::in_world(plan.clone(), batches, world).expect("ranks start");
        let saved = engine.save(&bad).expect_err("there is no folder");
        engine.save(&good).expect("weights are saved");
        let loaded = engine.load([&good, &bad][process]).expect_err("one file is missing");
        engine.train_batch().expect("a step");
        [saved, loaded].map(|error| matches!(error, EngineError::Elsewhere))
    });
    assert_eq!(errors, [[false, true], [true, false]]);
}

#[test]
fn processes_that_were_given_other_runs_refuse_them() {
    let (plan, source) = plan_and_batches(two_steps(cases()[0].clone()), Mask::None);
    let other = Plan::even_if_refused(Run { seed: 99, ..plan.run().clone() }).expect("a valid run");
    let errors = in_two_processes(&plan, 2, |world, process| {
        let plan = [&plan, &other][process].clone();
        let started = Engine::in_world(plan, Arc::clone(&source), world);
        started.expect_err("other runs").to_string()
    });
    assert_eq!(errors[0], EngineError::Elsewhere.to_string());
    assert_eq!(errors[1], EngineError::OtherRun.to_string());
}
