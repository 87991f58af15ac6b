//! Every method of an engine that trains and of one for inference: before, while and after something fails. None panics, in the caller or in a rank,
//! and each answers by the state that the engine is in.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pipezero_config::{CheckpointConfig, ResidencyConfig, Run, ZeroLevel};
use pipezero_plan::Plan;
use pipezero_run::checkpoint::{CheckpointReader, Checkpoints, JointCheckpoints};
use pipezero_run::data::{BatchError, BatchSource, TokenBatch};
use pipezero_run::engine::{
    AboutRun, BatchLogits, Engine, EngineError, EngineKind, Inference, InitialState, Training,
};
use pipezero_run::executor::Probe;
use pipezero_run::world::world_of;
use tests::{Case, Mask, RandomBatches, small_run, zero};

/// What the source of batches does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Reads,
    Fails,
    Panics,
}

/// Random batches that can be told to fail.
struct Batches {
    random: RandomBatches,
    does: AtomicUsize,
}

impl Batches {
    fn set(&self, source: Source) {
        self.does.store(source as usize, Ordering::SeqCst);
    }
}

impl BatchSource for Batches {
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        let does = self.does.load(Ordering::SeqCst);
        assert!(does != Source::Panics as usize, "told to");
        if does == Source::Fails as usize {
            return Err("told to".into());
        }
        self.random.micro_batch(step, data_rank, micro_batch, batch)
    }
}

/// What was done before a method is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    /// A step, or an evaluation.
    Used,
    /// One whose tokens could not be read.
    Unread,
    /// A checkpoint is being written.
    Writing,
    /// A rank has panicked.
    Stopped,
    /// A rank has panicked while a checkpoint was being written.
    StoppedWriting,
}

const STATES: [State; 6] =
    [State::Fresh, State::Used, State::Unread, State::Writing, State::Stopped, State::StoppedWriting];

impl State {
    fn is_stopped(self) -> bool {
        matches!(self, Self::Stopped | Self::StoppedWriting)
    }
}

/// Whether a method asks ranks or other processes, which a stopped engine cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Ranks,
    Nothing,
    /// Ranks, if a checkpoint is being written.
    RanksWhileWriting,
}

/// What a method may need: a folder with a file of weights and a checkpoint of the model, and a source.
struct Place<'a> {
    folder: &'a Path,
    batches: Arc<Batches>,
}

impl Place<'_> {
    fn source(&self) -> Arc<dyn BatchSource> {
        Arc::clone(&self.batches) as Arc<dyn BatchSource>
    }

    fn weights(&self) -> std::path::PathBuf {
        self.folder.join("weights.safetensors")
    }

    fn reader(&self) -> Arc<CheckpointReader> {
        let written = Checkpoints::of_run(&self.folder.join("written"));
        Arc::new(CheckpointReader::open(&written.at(1)).expect("a checkpoint"))
    }

    fn new_checkpoints(&self) -> Checkpoints {
        let folder = tempfile::tempdir_in(self.folder).expect("a folder");
        Checkpoints::of_run(&folder.keep())
    }
}

type Call<K> = fn(&mut Engine<K>, &Place<'_>) -> Result<(), EngineError>;
type Method<K> = (&'static str, Asks, Call<K>);

/// The answer of a method that gives a value, whatever it is.
fn done<T>(_: T) -> Result<(), EngineError> {
    Ok(())
}

/// The answer of a method whose value is known.
fn holds(holds: bool) -> Result<(), EngineError> {
    assert!(holds);
    Ok(())
}

fn methods_of_both<K: EngineKind>() -> Vec<Method<K>> {
    use Asks::{Nothing, Ranks};
    vec![
        ("device_name", Nothing, |engine, _| done(engine.device_name())),
        ("computed_in", Nothing, |engine, _| done(engine.computed_in())),
        ("devices", Nothing, |engine, _| done(engine.devices())),
        ("ranks_per_node", Nothing, |engine, _| done(engine.ranks_per_node())),
        ("peak_flops_per_s", Nothing, |engine, _| done(engine.peak_flops_per_s())),
        ("has_rank_0", Nothing, |engine, _| holds(engine.has_rank_0())),
        ("has_all_ranks", Nothing, |engine, _| holds(engine.has_all_ranks())),
        ("first_rank", Nothing, |engine, _| holds(engine.first_rank() == 0)),
        ("local_ranks", Nothing, |engine, _| holds(!engine.local_ranks().is_empty())),
        ("plan", Nothing, |engine, _| holds(engine.plan().num_parameters() > 0)),
        ("ledger", Nothing, |engine, _| holds(engine.ledger(0).total_peak_bytes() > 0)),
        ("ledger_between_steps", Nothing, |engine, _| {
            done(engine.ledger_between_steps(0).total_peak_bytes())
        }),
        ("gather", Nothing, |engine, _| engine.gather(3_u32).map(drop)),
        ("in_any_process", Ranks, |engine, _| engine.in_any_process(true).map(drop)),
        ("agree", Ranks, |engine, _| engine.agree(Ok::<(), EngineError>(()))),
        ("shared", Ranks, |engine, _| engine.shared(|| Ok::<u32, EngineError>(3)).map(drop)),
        ("judged", Ranks, |engine, _| engine.judged(&3_u32, |all| all.len() as u64).map(drop)),
        ("first_process", Ranks, |engine, _| engine.first_process(true).map(drop)),
        ("eval_batch", Ranks, |engine, place| engine.eval_batch(&place.source(), 1).map(drop)),
        ("save", Ranks, |engine, place| engine.save(&place.folder.join("saved"))),
        ("load", Ranks, |engine, place| engine.load(&place.weights())),
        ("load_parameters", Ranks, |engine, place| engine.load_parameters(&place.reader())),
        ("logits", Ranks, |engine, _| engine.logits(&[1, 2]).map(drop)),
        ("logits_of", Ranks, |engine, _| engine.logits_of(&[vec![1], vec![2, 3]]).map(drop)),
        ("batch_logits", Ranks, |engine, place| {
            let logits = Arc::new(BatchLogits::for_plan(engine.plan()).expect("there is memory"));
            engine.batch_logits(&place.source(), 1, &logits)
        }),
        ("own_batch_logits", Ranks, |engine, place| {
            let logits = Arc::new(BatchLogits::for_plan(engine.plan()).expect("there is memory"));
            engine.own_batch_logits(&place.source(), 1, &logits)
        }),
    ]
}

fn methods_of_training() -> Vec<Method<Training>> {
    use Asks::{Nothing, Ranks, RanksWhileWriting};
    let own: [Method<Training>; 13] = [
        ("train_batch", Ranks, |engine, _| engine.train_batch().map(drop)),
        ("train_batch_recorded", Ranks, |engine, _| engine.train_batch_recorded().map(drop)),
        ("position", Nothing, |engine, _| holds(engine.position().step < 3)),
        ("resume", Ranks, |engine, place| engine.resume(&place.reader())),
        ("write_checkpoint", Ranks, |engine, place| {
            engine.write_checkpoint(&place.new_checkpoints(), &AboutRun::default())
        }),
        ("start_checkpoint", Ranks, |engine, place| {
            engine.start_checkpoint(&place.new_checkpoints(), &AboutRun::default())
        }),
        ("poll_checkpoint", RanksWhileWriting, |engine, _| engine.poll_checkpoint().map(drop)),
        ("finish_checkpoint", RanksWhileWriting, |engine, _| engine.finish_checkpoint()),
        ("probe", Ranks, |engine, _| engine.probe(no_messages(engine)).map(drop)),
        ("end_probes", Ranks, |engine, _| engine.end_probes()),
        ("follow_probes", Ranks, |engine, _| engine.follow_probes()),
        ("JointCheckpoints::write", Ranks, |engine, place| {
            let folder = tempfile::tempdir_in(place.folder).expect("a folder").keep();
            JointCheckpoints::in_folder(&folder).write(&mut [("one", engine)])
        }),
        ("JointCheckpoints::resume", Ranks, |engine, place| {
            JointCheckpoints::in_folder(&place.folder.join("none")).resume(&mut [("one", engine)]).map(drop)
        }),
    ];
    methods_of_both().into_iter().chain(own).collect()
}

fn no_messages(engine: &Engine) -> Probe {
    let rows = vec![Vec::new(); engine.plan().grid().pipeline_degree];
    Probe { rows, element_type: engine.plan().element_type(), num_elements: 4, num_rounds: 1 }
}

/// One rank, and two stages on two data ranks under ZeRO-3.
fn runs() -> [Run; 2] {
    let case = |pipeline, data, level| {
        let zero = zero(level, ResidencyConfig::Units(2), 1);
        small_run(Case { pipeline, data, num_micro_batches: 2, zero, ..Case::ONE_RANK })
    };
    let mut runs = [case(1, 1, ZeroLevel::Zero0), case(2, 2, ZeroLevel::Zero3)];
    for run in &mut runs {
        run.checkpoint = CheckpointConfig { background: true, every: Some(100), ..run.checkpoint };
    }
    runs
}

fn batches(plan: &Plan) -> Arc<Batches> {
    let random = RandomBatches::for_plan(plan, Mask::None);
    Arc::new(Batches { random, does: AtomicUsize::new(Source::Reads as usize) })
}

/// Brings an engine that trains into a state.
fn bring_training(engine: &mut Engine, place: &Place<'_>, state: State) {
    let write = |engine: &mut Engine| {
        engine.start_checkpoint(&place.new_checkpoints(), &AboutRun::default()).expect("it begins");
    };
    match state {
        State::Fresh => {}
        State::Used => drop(engine.train_batch().expect("a step")),
        State::Unread => {
            place.batches.set(Source::Fails);
            let error = engine.train_batch().expect_err("told to");
            assert!(matches!(error, EngineError::Unread { step: 1, .. }), "{error}");
        }
        State::Writing => write(engine),
        State::Stopped | State::StoppedWriting => {
            if state == State::StoppedWriting {
                write(engine);
            }
            place.batches.set(Source::Panics);
            let error = engine.train_batch().expect_err("told to");
            assert!(matches!(error, EngineError::Stopped(_)), "{error}");
        }
    }
    place.batches.set(Source::Reads);
}

/// Brings an engine for inference into a state; `false` if it has no such state.
fn bring_inference(engine: &mut Engine<Inference>, place: &Place<'_>, state: State) -> bool {
    let mut evaluated = |source| {
        place.batches.set(source);
        engine.eval_batch(&place.source(), 1)
    };
    match state {
        State::Fresh => {}
        State::Used => drop(evaluated(Source::Reads).expect("an evaluation")),
        State::Unread => {
            let error = evaluated(Source::Fails).expect_err("told to");
            assert!(matches!(error, EngineError::UnreadEvaluation { batch: 1, .. }), "{error}");
        }
        State::Stopped => {
            let error = evaluated(Source::Panics).expect_err("told to");
            assert!(matches!(error, EngineError::Stopped(_)), "{error}");
        }
        State::Writing | State::StoppedWriting => return false,
    }
    place.batches.set(Source::Reads);
    true
}

/// Calls a method and checks that it does not panic and answers as it must.
fn call<K: EngineKind>(engine: &mut Engine<K>, place: &Place<'_>, method: &Method<K>, state: State) {
    let (name, asks, of) = method;
    let called = catch_unwind(AssertUnwindSafe(|| of(engine, place)));
    let answer = called.unwrap_or_else(|_| panic!("{name} panics: {state:?}"));
    let asks_ranks = match asks {
        Asks::Ranks => true,
        Asks::Nothing => false,
        Asks::RanksWhileWriting => state == State::StoppedWriting,
    };
    if state.is_stopped() && asks_ranks {
        assert!(matches!(answer, Err(EngineError::AlreadyStopped)), "{name}, {state:?}: {answer:?}");
    } else {
        assert!(answer.is_ok(), "{name}, {state:?}: {answer:?}");
    }
}

/// A folder with weights and a checkpoint of a run.
fn written(run: &Run, folder: &Path) {
    let plan = Plan::new(run.clone()).expect("a valid run");
    let source = batches(&plan);
    let mut engine = Engine::new(plan, source).expect("ranks start");
    engine.train_batch().expect("a step");
    engine.save(&folder.join("weights.safetensors")).expect("weights are saved");
    let to = Checkpoints::of_run(&folder.join("written"));
    engine.write_checkpoint(&to, &AboutRun::default()).expect("a checkpoint is written");
}

#[test]
fn no_method_of_an_engine_panics_whatever_failed_before() {
    let mut num_calls = 0;
    for run in runs() {
        let home = tempfile::tempdir().expect("a temporary folder");
        written(&run, home.path());
        let plan = Plan::new(run).expect("a valid run");
        let place = || Place { folder: home.path(), batches: batches(&plan) };
        for state in STATES {
            for method in methods_of_training() {
                let place = place();
                let mut engine = Engine::new(plan.clone(), place.source()).expect("ranks start");
                bring_training(&mut engine, &place, state);
                call(&mut engine, &place, &method, state);
                num_calls += 1;
            }
            for method in methods_of_both::<Inference>() {
                let place = place();
                let mut engine = Engine::for_inference(plan.clone(), place.source()).expect("ranks start");
                if bring_inference(&mut engine, &place, state) {
                    call(&mut engine, &place, &method, state);
                    num_calls += 1;
                }
            }
        }
    }
    println!("{num_calls} calls");
}

/// What is wrong with an argument is an error with its value, and the engine goes on.
#[test]
fn arguments_that_do_not_fit_are_errors_and_the_engine_goes_on() {
    let run = runs()[1].clone();
    let home = tempfile::tempdir().expect("a temporary folder");
    written(&run, home.path());
    let plan = Plan::new(run).expect("a valid run");
    let place = Place { folder: home.path(), batches: batches(&plan) };
    let mut engine = Engine::for_inference(plan.clone(), place.source()).expect("ranks start");
    let prompts: [&[Vec<u32>]; 5] =
        [&[], &[vec![]], &[vec![1; 1000]], &[vec![u32::MAX]], &[vec![1], vec![1], vec![1]]];
    for prompts in prompts {
        let error = engine.logits_of(prompts).expect_err("prompts that do not fit");
        let is_known = matches!(
            error,
            EngineError::NumPrompts { .. }
                | EngineError::PromptLength { .. }
                | EngineError::PromptToken { .. }
        );
        assert!(is_known, "{error}");
    }
    engine.load(&home.path().join("no file")).expect_err("there is no such file");
    engine.save(&home.path().join("no folder/weights")).expect_err("there is no such folder");
    engine.eval_batch(&place.source(), 1).expect("the ranks go on");
    let mut engine = Engine::new(plan.clone(), place.source()).expect("ranks start");
    let mut joint = JointCheckpoints::in_folder(&home.path().join("joint"));
    for refused in [joint.write(&mut []), joint.resume(&mut []).map(drop)] {
        assert!(matches!(refused, Err(EngineError::JointNames { .. })), "{refused:?}");
    }
    let mut other = Engine::new(plan.clone(), place.source()).expect("ranks start");
    let refused = joint.write(&mut [("one", &mut engine), ("one", &mut other)]);
    assert!(matches!(refused, Err(EngineError::JointNames { .. })), "{refused:?}");
    engine.train_batch().expect("the ranks go on");
    let inference = plan.without_training();
    let world = world_of(&inference).expect("threads");
    let refused = Engine::with_state(inference, place.source(), world, &InitialState::Drawn);
    assert!(matches!(refused.map(drop), Err(EngineError::PlanOfInference)));
}

/// An engine for inference reads the parameters of a checkpoint that it is started with.
#[test]
fn an_engine_for_inference_begins_with_the_parameters_of_a_checkpoint() {
    let run = runs()[1].clone();
    let home = tempfile::tempdir().expect("a temporary folder");
    written(&run, home.path());
    let plan = Plan::new(run).expect("a valid run");
    let place = Place { folder: home.path(), batches: batches(&plan) };
    let states = [InitialState::Checkpoint(place.reader()), InitialState::Weights(place.weights())];
    let logits = states.map(|state| {
        let world = world_of(&plan).expect("threads");
        let engine = Engine::for_inference_with(plan.clone(), place.source(), world, &state);
        engine.expect("ranks start").logits(&[3, 1]).expect("logits")
    });
    assert_eq!(logits[0], logits[1]);
}
