//! A checkpoint that is written while training goes on is the one that would have been written while it waits; hosts that share no folder
//! have a part of it each.

use std::path::Path;
use std::sync::Arc;

use pipezero_config::{CheckpointConfig, Precision, ResidencyConfig, Run, ZeroLevel};
use pipezero_run::checkpoint::{CheckpointError, CheckpointReader, Checkpoints, Cursor, Piece};
use pipezero_run::engine::{AboutRun, Engine, EngineError, InitialState};
use tests::{Case, Mask, Sample, in_two_processes, plan_and_batches, small_run, spread, started, zero};

fn with_copy(run: Run) -> Run {
    let checkpoint = CheckpointConfig { every: Some(1), ..CheckpointConfig::default() };
    Run { checkpoint, ..run }
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let read = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().expect("a name"), std::fs::read(entry.path()).expect("a file"))
    };
    let mut files: Vec<_> = entries.map(read).collect();
    files.sort();
    files
}

#[test]
fn files_are_those_of_the_step_although_training_goes_on() {
    let mut sample = Sample::one_in(5, "checkpoint written while training goes on");
    for case in spread().into_iter().filter(|_| sample.takes_next()) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let [waiting, background] =
            ["waiting", "background"].map(|name| Checkpoints::of_run(&home.path().join(name)));
        let about = AboutRun::default();
        let mut engine = started(Engine::new, case.run.clone(), Mask::Uneven);
        engine.train_batch().expect("a step");
        engine.write_checkpoint(&waiting, &about).expect("a checkpoint");

        let (plan, source) = plan_and_batches(with_copy(case.run), Mask::Uneven);
        let planned = plan.forecast();
        let mut engine = Engine::new(plan, source).expect("ranks start");
        engine.train_batch().expect("a step");
        engine.start_checkpoint(&background, &about).expect("a copy");
        // These steps change what is written.
        let mut num_steps = 1;
        while !engine.poll_checkpoint().expect("it is written") || num_steps < 3 {
            num_steps += 1;
            engine.train_batch().expect("a step");
        }
        assert_eq!(files(&background.at(1)), files(&waiting.at(1)), "{}", case.name);
        for (rank, planned) in planned.iter().enumerate() {
            let memory = engine.ledger(rank).peaks();
            assert!(memory.checkpoint > 0, "{}", case.name);
            assert_eq!(memory, planned.memory, "rank {rank} of {}", case.name);
        }
        // Another one comes out of the same copy.
        engine.start_checkpoint(&background, &about).expect("a copy");
        engine.finish_checkpoint().expect("it is written");
        assert_eq!(background.steps().expect("a folder"), [1, num_steps]);
    }
}

#[test]
fn a_disk_that_refuses_shows_at_the_end_and_training_goes_on() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let to = Checkpoints::of_run(home.path());
    let mut engine = started(Engine::new, with_copy(small_run(Case::ONE_RANK)), Mask::None);
    engine.train_batch().expect("a step");
    engine.start_checkpoint(&to, &AboutRun::default()).expect("a copy");
    // The folder is taken away under the writers.
    while to.partial(1).exists() {
        let _ = std::fs::remove_dir_all(to.partial(1));
    }
    let error = engine.finish_checkpoint().expect_err("the folder is gone");
    assert!(matches!(error, EngineError::Checkpoint(CheckpointError::Io { .. })), "{error}");
    engine.train_batch().expect("training goes on");
    engine.start_checkpoint(&to, &AboutRun::default()).expect("a copy");
    engine.finish_checkpoint().expect("the next one is written");
    assert_eq!(to.steps().expect("a folder"), [2]);
}

/// Two processes, with one folder for both and with a folder for each.
#[test]
fn processes_share_a_folder_or_each_host_has_a_part() {
    let run = with_copy(small_run(Case {
        pipeline: 2,
        data: 2,
        zero: zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1),
        precision: Precision::Bf16,
        ..Case::ONE_RANK
    }));
    let (plan, source) = plan_and_batches(run.clone(), Mask::None);
    for is_shared in [true, false] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = |process: usize| {
            Checkpoints::of_run(&home.path().join(if is_shared { 0 } else { process }.to_string()))
        };
        let train = |engine: &mut Engine| engine.train_batch().expect("a step").loss.map(f64::to_bits);
        let start = |world| {
            let source = Arc::clone(&source);
            Engine::in_world(plan.clone(), source, world).expect("ranks start")
        };
        let went_on = in_two_processes(&plan, 1, |world, process| {
            let mut engine = start(world);
            train(&mut engine);
            engine.start_checkpoint(&folder(process), &AboutRun::default()).expect("a copy");
            engine.finish_checkpoint().expect("it is written");
            train(&mut engine)
        });
        let open = |process| CheckpointReader::open(&folder(process).at(1));
        let resumed = in_two_processes(&plan, 1, |world, process| {
            let mut engine = start(world);
            engine
                .resume(&Arc::new(open(process).expect("a checkpoint")))
                .expect("its ranks' files are here");
            train(&mut engine)
        });
        assert_eq!(resumed[0], went_on[0]);
        // All of it on one host.
        let names =
            |process| files(&folder(process).at(1)).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let mut whole = started(Engine::new, run.clone(), Mask::None);
        let read = whole.resume(&Arc::new(open(0).expect("a checkpoint")));
        if is_shared {
            assert_eq!(names(0).len(), 5, "{:?}", names(0));
            read.expect("every file is here");
            assert_eq!(train(&mut whole), went_on[0]);
            continue;
        }
        assert_eq!(names(0), ["manifest.json", "rank-00000.safetensors"]);
        assert_eq!(names(1).len(), 4, "{:?}", names(1));
        let error = read.expect_err("three files are elsewhere").to_string();
        assert!(error.contains("it is in one of rank-00001.safetensors of "), "{error}");
        let error = open(0).expect("its manifest is sound").verify().expect_err("three files").to_string();
        assert!(error.contains("rank-00003.safetensors of "), "{error}");
        // Brought together they are whole.
        for name in &names(1)[1..] {
            std::fs::copy(folder(1).at(1).join(name), folder(0).at(1).join(name)).expect("a copy");
        }
        let together = open(0).expect("a checkpoint");
        together.verify().expect("every byte is sound");
        let parameter = &together.manifest().parameters[0];
        let mut values = vec![0.0; parameter.num_elements()];
        Cursor::new(&together).read(Piece::PARAMETER, &parameter.name, 0, &mut values).expect("all elements");
        whole.resume(&Arc::new(together)).expect("every file is here");
        assert_eq!(train(&mut whole), went_on[0]);
    }
}

#[test]
fn processes_that_begin_with_different_states_are_refused() {
    let run = small_run(Case { pipeline: 2, ..Case::ONE_RANK });
    let (plan, source) = plan_and_batches(run.clone(), Mask::None);
    let home = tempfile::tempdir().expect("a temporary folder");
    let to = Checkpoints::of_run(home.path());
    let mut engine = started(Engine::new, run, Mask::None);
    engine.write_checkpoint(&to, &AboutRun::default()).expect("a checkpoint");
    let found = Arc::new(CheckpointReader::open(&to.at(0)).expect("a checkpoint"));
    let errors = in_two_processes(&plan, 1, |world, process| {
        let state =
            if process == 0 { InitialState::Checkpoint(Arc::clone(&found)) } else { InitialState::Drawn };
        let source = Arc::clone(&source);
        let started = Engine::with_state(plan.clone(), source, world, &state);
        started.expect_err("other states").to_string()
    });
    let expected = "this process begins with drawn weights, and the process of rank 0 with a checkpoint of step 0 (0 updates, 0 \
                    sequences): give all of them the same";
    assert_eq!(errors[1], expected);
    assert_eq!(errors[0], EngineError::Elsewhere.to_string());
}
