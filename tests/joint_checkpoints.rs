//! Checkpoints of several engines, written together: whatever happens meanwhile, there is a set of them that belong together.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use pipezero_config::{Precision, ReductionPolicy, ResidencyConfig, ZeroConfig, ZeroLevel};
use pipezero_run::checkpoint::{CheckpointError, Checkpoints, JointCheckpoints, Manifest};
use pipezero_run::engine::{Engine, EngineError};
use tests::{Case, Mask, in_two_processes, plan_and_batches, small_run, started, zero};

/// The names of two engines and what a round trains each.
const ENGINES: [(&str, usize); 2] = [("actor", 1), ("critic", 2)];

/// An engine for each name: on a grid, or on another that gives the same bits.
fn engines(others: bool) -> [Engine; 2] {
    let strict = |level| zero(level, ResidencyConfig::Strict, 1);
    let last = |level| ZeroConfig { reduce: ReductionPolicy::Last, ..strict(level) };
    let [of_actor, of_critic] = match others {
        false => [(2, strict(ZeroLevel::Zero3)), (1, last(ZeroLevel::Zero1))],
        true => [(1, strict(ZeroLevel::Zero2)), (4, last(ZeroLevel::Zero3))],
    };
    let case = |(pipeline, zero), precision| Case {
        pipeline,
        data: 2,
        num_micro_batches: 2,
        num_layers: 4,
        precision,
        zero,
        ..Case::ONE_RANK
    };
    let start = |case| started(Engine::new, small_run(case), Mask::Uneven);
    [start(case(of_actor, Precision::Bf16)), start(case(of_critic, Precision::F32))]
}

/// The losses of a round, in bits.
fn round(engines: &mut [Engine; 2]) -> Vec<u64> {
    let steps = engines.iter_mut().zip(ENGINES).flat_map(|(engine, (_, num_steps))| {
        (0..num_steps).map(|_| engine.train_batch().expect("a step").loss.expect("a loss").to_bits())
    });
    steps.collect()
}

fn write(to: &mut JointCheckpoints, [actor, critic]: &mut [Engine; 2]) -> Result<(), EngineError> {
    to.write(&mut [(ENGINES[0].0, actor), (ENGINES[1].0, critic)])
}

fn joint(folder: &Path, num_kept: usize) -> JointCheckpoints {
    JointCheckpoints::in_folder(folder).keeping(num_kept)
}

/// Engines that go on from the newest set, their steps, and where they write.
fn gone_on(folder: &Path, num_kept: usize) -> ([Engine; 2], [u64; 2], JointCheckpoints) {
    let (mut from, mut engines) = (joint(folder, num_kept), engines(true));
    let [actor, critic] = &mut engines;
    assert!(from.resume(&mut [("actor", actor), ("critic", critic)]).expect("there is a sound set"));
    let steps = engines.each_ref().map(|engine| engine.position().step);
    (engines, steps, from)
}

/// The steps of the complete checkpoints of each engine.
fn kept(folder: &Path) -> [Vec<u64>; 2] {
    ENGINES.map(|(name, _)| Checkpoints::of_run(&folder.join(name)).steps().expect("a folder"))
}

#[test]
fn engines_go_on_together_on_other_grids() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut joint = joint(home.path(), 2);
    let mut engines = engines(false);
    let [actor, critic] = &mut engines;
    assert!(!joint.resume(&mut [("actor", actor), ("critic", critic)]).expect("there is nothing yet"));
    for number in 1..=4 {
        round(&mut engines);
        write(&mut joint, &mut engines).expect("the disk has room");
        // Once more, with nothing new.
        write(&mut joint, &mut engines).expect("nothing is written");
        let newest = [number, 2 * number];
        assert_eq!(kept(home.path()).map(|steps| *steps.last().expect("one")), newest);
    }
    assert_eq!(kept(home.path()), [[3, 4].to_vec(), [6, 8].to_vec()]);
    let wanted = [round(&mut engines), round(&mut engines)];
    let (mut others, steps, _) = gone_on(home.path(), 2);
    assert_eq!(steps, [4, 8]);
    assert_eq!([round(&mut others), round(&mut others)], wanted);
}

#[test]
fn what_is_damaged_or_half_written_is_in_no_set() {
    let damage = |path: &Path| fs::write(path, "{").expect("a file");
    let manifest = |folder: &Path, name: &str, step: u64| {
        Checkpoints::of_run(&folder.join(name)).at(step).join(Manifest::FILE)
    };
    for (what, breaks, steps) in [
        ("nothing", &(|_: &Path| {}) as &dyn Fn(&Path), [2, 4]),
        ("the actor's newest manifest", &|folder| damage(&manifest(folder, "actor", 2)), [1, 2]),
        ("the critic's newest manifest", &|folder| damage(&manifest(folder, "critic", 4)), [1, 2]),
        (
            "the critic's newest folder",
            &|folder| {
                fs::remove_dir_all(Checkpoints::of_run(&folder.join("critic")).at(4)).expect("it is there")
            },
            [1, 2],
        ),
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mut joint = joint(home.path(), 2);
        let mut engines = engines(false);
        round(&mut engines);
        write(&mut joint, &mut engines).expect("the disk has room");
        let after_first = [round(&mut engines), Vec::new()];
        write(&mut joint, &mut engines).expect("the disk has room");
        let after_second = round(&mut engines);
        breaks(home.path());
        let (mut others, found, mut joint) = gone_on(home.path(), 2);
        assert_eq!(found, steps, "{what}");
        let [wanted, _] = if steps == [1, 2] { after_first } else { [after_second, Vec::new()] };
        assert_eq!(round(&mut others), wanted, "{what}");
        // What was written after the set that is gone on from is superseded.
        write(&mut joint, &mut others).expect("the disk has room");
        let next = [steps[0] + 1, steps[1] + 2];
        assert_eq!(kept(home.path()), [[steps[0], next[0]].to_vec(), [steps[1], next[1]].to_vec()], "{what}");
        assert_eq!(gone_on(home.path(), 2).1, next, "{what}");
    }
}

#[test]
fn a_write_that_fails_leaves_the_set_before() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut joint = joint(home.path(), 1);
    let mut engines = engines(false);
    round(&mut engines);
    write(&mut joint, &mut engines).expect("the disk has room");
    let wanted = round(&mut engines);
    let mut third = started(Engine::new, small_run(Case::ONE_RANK), Mask::Uneven);
    fs::write(home.path().join("third"), "in the way").expect("a file");
    for _ in 0..2 {
        // The first two are complete when the third cannot be written.
        let [actor, critic] = &mut engines;
        let all = &mut [("actor", actor), ("critic", critic), ("third", &mut third)];
        let failed = joint.write(all).expect_err("a file is where the folder would be");
        assert!(matches!(failed, EngineError::Checkpoint(_)), "{failed}");
        let (mut others, steps, _) = gone_on(home.path(), 1);
        assert_eq!((steps, round(&mut others)), ([1, 2], wanted.clone()));
        round(&mut engines);
    }
    write(&mut joint, &mut engines).expect("the disk has room");
    assert_eq!(gone_on(home.path(), 1).1, [4, 8]);
    write(&mut joint, &mut engines).expect("nothing is written");
    round(&mut engines);
    write(&mut joint, &mut engines).expect("the disk has room");
    assert_eq!(kept(home.path()), [[4, 5].to_vec(), [8, 10].to_vec()], "the last, and the one before");
    for name in ["actor", "critic"] {
        fs::remove_dir_all(home.path().join(name)).expect("it is there");
    }
    let [actor, critic] = &mut engines;
    let error =
        joint.resume(&mut [("actor", actor), ("critic", critic)]).expect_err("none is left").to_string();
    assert!(error.contains("step-00000005: it is listed, and is not there"), "{error}");
}

/// Each element of the actor's newest file that is changed is found when the engines read it: they then have what they were with the set before.
#[test]
fn damage_that_is_found_late_takes_all_engines_further_back() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (mut to, mut engines) = (joint(home.path(), 3), engines(false));
    let mut after = Vec::new();
    for _ in 0..3 {
        after.push(round(&mut engines));
        write(&mut to, &mut engines).expect("the disk has room");
    }
    let folder = Checkpoints::of_run(&home.path().join("critic")).at(6);
    let of_rank = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("an entry").path());
    let file =
        of_rank.filter(|path| path.extension().is_some_and(|is| is == "safetensors")).max().expect("a file");
    let mut bytes = fs::read(&file).expect("it is there");
    *bytes.last_mut().expect("elements") ^= 1;
    fs::write(&file, bytes).expect("the disk has room");
    let (mut others, steps, mut from) = gone_on(home.path(), 3);
    assert_eq!(steps, [2, 4]);
    assert_eq!(round(&mut others), after[2]);
    // The damaged one has the steps that these engines have now.
    write(&mut from, &mut others).expect("the disk has room");
    assert_eq!(gone_on(home.path(), 3).1, [3, 6]);
}

#[test]
fn what_engines_have_not_gone_on_from_is_not_replaced() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut engines_of_first = engines(false);
    round(&mut engines_of_first);
    write(&mut joint(home.path(), 1), &mut engines_of_first).expect("the disk has room");
    let mut anew = engines(false);
    let [actor, critic] = &mut anew;
    let mut to = joint(home.path(), 1);
    let refused = to.write(&mut [("actor", actor), ("critic", critic)]).expect_err("there are others");
    assert!(matches!(refused, EngineError::Checkpoint(CheckpointError::NotGoneOn { .. })), "{refused}");
    let mut third = started(Engine::new, small_run(Case::ONE_RANK), Mask::Uneven);
    let unknown = to.resume(&mut [("third", &mut third)]).expect_err("it was not written").to_string();
    assert!(unknown.contains("joint.json has no checkpoint of `third`, but of actor, critic;"), "{unknown}");
    assert_eq!(kept(home.path()), [[1].to_vec(), [2].to_vec()]);
}

/// The process of rank 0 lists what both have written.
#[test]
fn processes_write_and_go_on_together() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let case = Case { pipeline: 2, data: 2, num_micro_batches: 2, ..Case::ONE_RANK };
    let (plan, source) = plan_and_batches(small_run(case), Mask::Uneven);
    let trained = |num_steps: u64| {
        let losses = in_two_processes(&plan, 2, |world, _| {
            let source = Arc::clone(&source);
            let mut engine = Engine::in_world(plan.clone(), source, world).expect("ranks start");
            let mut joint = joint(home.path(), 1);
            let has_gone_on = joint.resume(&mut [("only", &mut engine)]).expect("sound files");
            let losses: Vec<_> = (0..num_steps)
                .map(|_| engine.train_batch().expect("a step").loss.map(f64::to_bits))
                .collect();
            joint.write(&mut [("only", &mut engine)]).expect("the disk has room");
            (has_gone_on, losses)
        });
        let [first, second] = losses;
        assert_eq!(first, second);
        first
    };
    let (first, second) = (trained(2), trained(2));
    assert_eq!([first.0, second.0], [false, true]);
    let mut alone = started(Engine::new, plan.run().clone(), Mask::Uneven);
    let wanted: Vec<_> =
        (0..4).map(|_| alone.train_batch().expect("a step").loss.map(f64::to_bits)).collect();
    assert_eq!([first.1, second.1].concat(), wanted);
}

#[test]
fn a_list_that_is_none_is_an_error() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut engine = started(Engine::new, small_run(Case::ONE_RANK), Mask::Uneven);
    for (text, expected) in [
        (
            "",
            "it is no list of steps: EOF while parsing a value at line 1 column 0; the checkpoint is damaged: take an earlier one, or another copy of it",
        ),
        (
            "{\"version\": 1, \"sets\": [{\"actor\": -1}]}",
            "it is no list of steps: invalid value: integer `-1`, expected u64 at line 1 column 36; the checkpoint is damaged: take an earlier one, or another copy of it",
        ),
        (
            "{\"version\": 9, \"sets\": []}",
            "it is of version 9 of the format, and this program reads version 1: resume with the program that wrote it",
        ),
    ] {
        let path = home.path().join(JointCheckpoints::LIST);
        fs::write(&path, text).expect("a file");
        let error = joint(home.path(), 1).resume(&mut [("any", &mut engine)]).expect_err("it is no list");
        assert_eq!(error.to_string(), format!("{}: {expected}", path.display()));
    }
}
