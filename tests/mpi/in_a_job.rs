//! What each process of a job runs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pipezero_config::{
    Precision, ReductionPolicy, ResidencyConfig, Run, ShardingConfig, ShardingRule, UnitSharding, ZeroConfig,
    ZeroLevel,
};
use pipezero_models::Host;
use pipezero_plan::Plan;
use pipezero_run::checkpoint::JointCheckpoints;
use pipezero_run::data::BatchSource;
use pipezero_run::engine::{Engine, EngineError};
use pipezero_run::world::{ProcessWorld, RanksOnHosts, World};
use tests::features::pairs_on;
use tests::{
    Case, Draws, EncoderBatches, EndOnPanic, Lengths, Mask, Outputs, RandomBatches, Sample, Schedule,
    plan_with_encoder, seed_of_draws, small_run, two_steps, weights_in, zero,
};

/// Ranks of the job, of which smaller grids use the first ones.
const NUM_PROCESSES: usize = 4;
/// In full there are at least so many cases.
const NUM_CASES_MIN: usize = 60;

#[test]
#[ignore = "needs a job of four processes"]
fn grids_of_processes_give_the_bits_losses_and_traffic_of_threads() {
    let _guard = EndOnPanic;
    let home = tempfile::tempdir().expect("a temporary folder");
    let world = ProcessWorld::of_mpi(Duration::from_secs(60), None).expect("a job");
    let hosts = world.on_hosts().expect("processes");
    println!("on hosts: {hosts:?}");
    drop(world);
    let is_one_host = hosts == RanksOnHosts::Each { number: NUM_PROCESSES, last: NUM_PROCESSES };
    // Across hosts only the way of the messages is another.
    let one_in = if is_one_host { 6 } else { 24 };
    let mut sample = Sample::one_in(one_in, "pair of features on 2 to 4 processes, to the bits of threads");
    let cases = pairs_on(2..=NUM_PROCESSES);
    assert!(cases.len() >= NUM_CASES_MIN, "{} cases", cases.len());
    for (number, case) in cases.into_iter().filter(|_| sample.takes_next()).enumerate() {
        let plan = Plan::even_if_refused(two_steps(case.clone())).expect("a valid run");
        let lengths = [Lengths::Longest, Lengths::Drawn][number % 2];
        let batches = RandomBatches::for_plan(&plan, Mask::Uneven).with_lengths(lengths);
        let source: Arc<dyn BatchSource> = Arc::new(batches);
        let num_ranks = plan.grid().world_size();
        let Some(world) =
            ProcessWorld::of_first_of_mpi(num_ranks, Duration::from_secs(60), None).expect("a job")
        else {
            continue;
        };
        let rank = world.local_ranks().start;
        let [one, many] = ["one", "many"].map(|name| home.path().join(name));
        let batches = Arc::clone(&source);
        let engine = Engine::in_world(plan.clone(), batches, Arc::new(world));
        let found = Outputs::of(engine.expect("ranks start"), &source, &many);
        let engine = Engine::on_device(plan, Arc::clone(&source), Arc::new(Host)).expect("ranks start");
        let expected = Outputs::of(engine, &source, &one);
        assert_eq!(found.bits(), expected.bits(), "{case:?}");
        // The process of rank 0 has the reports of all, the others their own.
        let own = if rank == 0 { 0..num_ranks } else { rank..rank + 1 };
        for (found, expected) in found.steps.iter().zip(&expected.steps) {
            assert_eq!(found.traffic(), expected.traffic()[own.clone()], "{case:?}");
        }
        if rank == 0 {
            assert_eq!(weights_in(&many), weights_in(&one), "{case:?}");
        }
    }
}

/// Each data rank has other inputs of the input encoder in each micro-batch, and some have none.
#[test]
#[ignore = "needs a job of four processes"]
fn grids_with_an_encoder_give_the_bits_and_traffic_of_threads() {
    let _guard = EndOnPanic;
    let (mut draws, num_runs) = (Draws(seed_of_draws().unwrap_or(22)), 20);
    let rule = ShardingRule { sharding: UnitSharding::Whole, pattern: "^encoder$".to_owned() };
    let sharding = ShardingConfig::Listed(vec![rule]);
    for seed in 0..num_runs {
        let (pipeline, data) = draws.of(&[(1, 2), (2, 1), (1, 3), (4, 1), (2, 2)]);
        let schedule = draws.of(&[Schedule::OneFOneB, Schedule::ZbH1]);
        let schedule = if pipeline == 1 { Schedule::OneFOneB } else { schedule };
        let zero =
            ZeroConfig { sharding: sharding.clone(), ..zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1) };
        let num_micro_batches = 1 + draws.below(5);
        let case =
            Case { num_layers: 8, pipeline, data, num_micro_batches, schedule, zero, ..Case::ONE_RANK };
        let plan = plan_with_encoder(Run { steps: 10, ..two_steps(case.clone()) });
        let tokens = RandomBatches::for_plan(&plan, Mask::Uneven).with_lengths(Lengths::Drawn);
        let source = EncoderBatches::new(&plan, tokens, seed).shared();
        let num_ranks = plan.grid().world_size();
        let Some(world) =
            ProcessWorld::of_first_of_mpi(num_ranks, Duration::from_secs(60), None).expect("a job")
        else {
            continue;
        };
        let rank = world.local_ranks().start;
        let engine = Engine::in_world(plan.clone(), Arc::clone(&source), Arc::new(world));
        let mut processes = engine.expect("ranks start");
        let mut threads = Engine::on_device(plan, source, Arc::new(Host)).expect("ranks start");
        for step in 1..=10 {
            let [found, expected] =
                [&mut processes, &mut threads].map(|engine| engine.train_batch().expect("a step"));
            assert_eq!(
                found.loss.map(f64::to_bits),
                expected.loss.map(f64::to_bits),
                "step {step} of {case:?}"
            );
            assert_eq!(
                found.gradient_norm.to_bits(),
                expected.gradient_norm.to_bits(),
                "step {step} of {case:?}"
            );
            let own = if rank == 0 { 0..num_ranks } else { rank..rank + 1 };
            assert_eq!(found.traffic(), expected.traffic()[own], "step {step} of {case:?}");
        }
    }
}

/// Each engine has a world of its own over the same processes; between two steps of one the others do a step. In step 3 a rank of the first
/// fails: that ends the first alone.
#[test]
#[ignore = "needs a job of four processes"]
fn grids_of_several_engines_give_the_bits_of_each_alone() {
    let _guard = EndOnPanic;
    let strict = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
    let cases = [
        Case { pipeline: 2, data: 2, num_micro_batches: 3, zero: strict, ..Case::ONE_RANK },
        Case { data: 4, precision: Precision::Bf16, ..Case::ONE_RANK },
        Case { pipeline: 4, num_micro_batches: 5, ..Case::ONE_RANK },
    ];
    let batches = |plan: &Plan| RandomBatches::for_plan(plan, Mask::Uneven);
    let plan = |case| Plan::even_if_refused(Run { steps: 4, ..two_steps(case) }).expect("a valid run");
    let plans = cases.map(plan);
    let fails = AtomicBool::new(true);
    let mut together = Vec::new();
    for plan in &plans {
        let world = ProcessWorld::of_mpi(Duration::from_secs(60), None).expect("a job");
        let is_to_fail = world.local_ranks().start == 1 && fails.swap(false, Ordering::Relaxed);
        let source = batches(plan).edited(move |step, micro_batch, _| {
            assert!(!(is_to_fail && (step, micro_batch) == (3, 1)), "a fault of the first engine");
            Ok(())
        });
        let engine = Engine::in_world(plan.clone(), Arc::new(source), Arc::new(world));
        together.push(engine.expect("ranks start"));
    }
    let mut alone = Vec::new();
    for plan in &plans {
        let engine = Engine::on_device(plan.clone(), Arc::new(batches(plan)), Arc::new(Host));
        alone.push(engine.expect("ranks start"));
    }
    for step in 1..=4 {
        let goes_on = if step < 3 { 0 } else { 1 };
        if step == 3 {
            let Err(EngineError::Stopped(report)) = together[0].train_batch() else { panic!("it goes on") };
            assert!(report.to_string().contains("a fault of the first engine"), "{report}");
        }
        for (found, expected) in together.iter_mut().zip(&mut alone).skip(goes_on) {
            let [found, expected] = [found, expected].map(|engine| engine.train_batch().expect("a step"));
            assert_eq!(found.loss.map(f64::to_bits), expected.loss.map(f64::to_bits), "step {step}");
            assert_eq!(found.gradient_norm.to_bits(), expected.gradient_norm.to_bits(), "step {step}");
        }
    }
}

/// The folder of checkpoints that the processes of a job share.
pub(super) const FOLDER: &str = "PIPEZERO_FOLDER";

/// Two engines of all processes, or of threads on one pipeline rank: of these levels, in turn two steps of the second to each of the first.
struct Pair([Engine; 2]);

impl Pair {
    fn of(
        pipeline: usize,
        levels: [ZeroLevel; 2],
        start: impl Fn(Plan, Arc<dyn BatchSource>) -> Engine,
    ) -> Self {
        let [actor, critic] = levels.map(|level| ZeroConfig {
            reduce: ReductionPolicy::Last,
            ..zero(level, ResidencyConfig::Strict, 1)
        });
        let engine = |zero, precision| {
            let case = Case { pipeline, data: 2, num_layers: 4, precision, zero, ..Case::ONE_RANK };
            let plan = Plan::even_if_refused(small_run(case)).expect("a valid run");
            let source = Arc::new(RandomBatches::for_plan(&plan, Mask::Uneven));
            start(plan, source)
        };
        Self([engine(actor, Precision::Bf16), engine(critic, Precision::F32)])
    }

    fn of_processes(levels: [ZeroLevel; 2]) -> Self {
        Self::of(2, levels, |plan, source| {
            let world = ProcessWorld::of_mpi(Duration::from_secs(60), None).expect("a job");
            Engine::in_world(plan, source, Arc::new(world)).expect("ranks start")
        })
    }

    fn of_threads() -> Self {
        let levels = [ZeroLevel::Zero1; 2];
        Self::of(1, levels, |plan, source| {
            Engine::on_device(plan, source, Arc::new(Host)).expect("ranks start")
        })
    }

    /// The losses of a round, in bits.
    fn round(&mut self) -> Vec<u64> {
        let steps = self.0.iter_mut().zip([1, 2]).flat_map(|(engine, num_steps)| {
            (0..num_steps).map(|_| engine.train_batch().expect("a step").loss.expect("a loss").to_bits())
        });
        steps.collect()
    }

    fn named(&mut self) -> [(&str, &mut Engine); 2] {
        let [actor, critic] = &mut self.0;
        [("actor", actor), ("critic", critic)]
    }

    /// Goes on from the newest set that is in the folder; the steps of both.
    fn resume(&mut self, from: &mut JointCheckpoints) -> [u64; 2] {
        assert!(from.resume(&mut self.named()).expect("there is a sound set"));
        self.0.each_ref().map(|engine| engine.position().step)
    }
}

/// Beside them engines of threads, which were never ended, say what the losses are. When others go on the newest set is whole, and a step of one engine that
/// came after it counts for nothing.
#[test]
#[ignore = "needs a job of four processes"]
fn joint_checkpoints_of_processes_are_gone_on_with_by_all() {
    let _guard = EndOnPanic;
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    let joint = || JointCheckpoints::in_folder(&folder).keeping(1);
    let mut undisturbed = Pair::of_threads();
    let wanted: Vec<_> = (0..4).map(|_| undisturbed.round()).collect();
    let mut first = Pair::of_processes([ZeroLevel::Zero3, ZeroLevel::Zero1]);
    let mut to = joint();
    for wanted in &wanted[..2] {
        assert_eq!(first.round(), *wanted);
        to.write(&mut first.named()).expect("the disk has room");
    }
    first.0[1].train_batch().expect("a step");
    drop(first);
    let mut second = Pair::of_processes([ZeroLevel::Zero1, ZeroLevel::Zero3]);
    let mut from = joint();
    assert_eq!(second.resume(&mut from), [2, 4]);
    assert_eq!(second.round(), wanted[2]);
    from.write(&mut second.named()).expect("the disk has room");
    assert_eq!(second.round(), wanted[3]);
    let mut threads = Pair::of_threads();
    assert_eq!(threads.resume(&mut joint()), [3, 6]);
    assert_eq!(threads.round(), wanted[3]);
}

/// Which rank of the job is killed.
pub(super) const KILLED: &str = "PIPEZERO_KILLED_RANK";
/// The folder into which each process that is left writes its report, as a file with its rank for a name, and the one that speaks for all
/// another named [`SPEAKER`].
pub(super) const REPORTS: &str = "PIPEZERO_REPORTS";
pub(super) const SPEAKER: &str = "speaker";

#[test]
#[ignore = "needs a job of four processes, one of which is killed"]
fn killed_rank_is_reported_by_those_that_are_left() {
    let _guard = EndOnPanic;
    let killed: usize = std::env::var(KILLED).expect("a rank").parse().expect("a number");
    let mut run = two_steps(Case { pipeline: 2, data: 2, num_micro_batches: 3, ..Case::ONE_RANK });
    run.comm.timeout = Duration::from_secs(20);
    let plan = Plan::even_if_refused(run).expect("a valid run");
    let source = RandomBatches::for_plan(&plan, Mask::None).with_fault(killed, |_| {
        Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status()?;
        Ok(())
    });
    let world = ProcessWorld::of_mpi(plan.run().comm.timeout, None).expect("a job");
    let rank = world.local_ranks().start;
    let idle = (plan.clone(), RandomBatches::for_plan(&plan, Mask::None));
    let mut engine = Engine::in_world(plan, Arc::new(source), Arc::new(world)).expect("ranks start");
    // An engine of the same processes whose turn it is not.
    let world = ProcessWorld::of_mpi(Duration::from_secs(20), None).expect("a job");
    let _idle = Engine::in_world(idle.0, Arc::new(idle.1), Arc::new(world)).expect("ranks start");
    engine.train_batch().expect("a step");
    let start = Instant::now();
    let Err(EngineError::Stopped(report)) = engine.train_batch() else { panic!("rank {killed} lives") };
    assert!(start.elapsed() < Duration::from_secs(10), "nobody waits until the time is up");
    let folder = PathBuf::from(std::env::var_os(REPORTS).expect("a folder"));
    let write =
        |name: &str| fs::write(folder.join(name), report.to_string()).expect("a folder that can be written");
    write(&rank.to_string());
    if report.speaker() == Some(rank) {
        write(SPEAKER);
    }
}
