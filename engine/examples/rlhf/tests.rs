//! The reward rises, on two grids by the same bits; what is trained has the bits that it has alone; a job that is resumed has those of one that was not; and
//! no engine holds more than was planned.

use std::path::PathBuf;
use std::sync::Arc;

use super::batches::{Newest, Read, of_newest, with};
use super::rounds::{Round, STEPS, actor_plan, critic_plan};
use pipezero::Plan;

use super::*;

/// Other grids, levels and precisions: of the engines that are trained, those that give the same bits; of the others, any.
const OTHERS: [&str; 9] = [
    "actor.parallel.pipeline=1",
    "actor.zero_optimization.stage=2",
    "critic.parallel.pipeline=2",
    "critic.zero_optimization.stage=3",
    "reward.parallel.pipeline=4",
    "reward.zero_optimization.stage=0",
    "reference.parallel.pipeline=2",
    "reference.parallel.data=1",
    "reference.zero_optimization.stage=1",
];

/// Fitted weights, in a folder that is removed at the end.
struct Fitted {
    folder: tempfile::TempDir,
    files: [PathBuf; 2],
}

impl Fitted {
    fn new(changes: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = ["language", "reward"].map(|name| folder.path().join(name));
        fit(&files[0], &files[1], &owned(changes)).unwrap();
        Self { folder, files }
    }

    /// As far as a few steps go: enough where nothing is asked of the reward.
    fn hardly() -> Self {
        Self::new(&["actor.steps=5", "reward.steps=5"])
    }

    fn start(&self, folder: &str, changes: &[&str]) -> Four {
        let files = self.files.each_ref().map(PathBuf::as_path);
        let plans = Plans::new(files[0], &owned(changes)).unwrap();
        Four::start(plans, files, &self.folder.path().join(folder)).unwrap()
    }
}

fn owned(changes: &[&str]) -> Vec<String> {
    changes.iter().map(|&change| change.to_owned()).collect()
}

fn rounds(four: &mut Four, until: u64) -> Vec<Round> {
    (four.num_rounds()..until).map(|_| four.round().unwrap()).collect()
}

fn mean_of(rounds: &[Round], value: impl Fn(&Round) -> f64) -> f64 {
    judgement::mean(rounds.iter().map(value))
}

/// Each rank of an engine has held as many bytes as its plan says.
fn assert_as_planned<K: EngineKind>(engine: &Engine<K>, name: &str) {
    let [planned, measured] = memory(engine);
    assert_eq!(measured, planned, "{name}");
    let ranks = 0..engine.plan().grid().world_size();
    let all: u64 = ranks.map(|rank| engine.ledger(rank).total_peak_bytes()).sum();
    assert_eq!(all, engine.plan().needs().world_bytes, "{name}");
}

fn assert_all_as_planned(four: &Four) {
    assert_as_planned(&four.actor, "actor");
    assert_as_planned(&four.critic, "critic");
    assert_as_planned(&four.reward, "reward");
    assert_as_planned(&four.reference, "reference");
}

/// Texts before any round go up by one as often as by two, so half of their tokens are even. With 352 tokens a round, of which neighbours are not independent, the mean
/// of a round is within 0.08 of that.
#[test]
fn the_reward_rises_on_two_grids_by_the_same_bits_and_memory_is_as_planned() {
    let fitted = Fitted::new(&[]);
    let mut four = fitted.start("first", &[]);
    let found = rounds(&mut four, 12);
    assert_all_as_planned(&four);
    assert!((found[0].goodness - 0.5).abs() < 0.1, "{}", found[0]);
    for value in [|round: &Round| round.reward, |round: &Round| round.goodness] {
        let [begin, end] = [&found[..2], &found[9..]].map(|rounds| mean_of(rounds, value));
        assert!(end > 0.85 && begin < 0.65, "from {begin} to {end}");
    }
    // One certain step where the reference takes one of two is ln 2 nats away. Leaving the language costs several.
    assert!(found.iter().all(|round| round.divergence.abs() < 1.0), "{found:?}");
    let mut others = fitted.start("others", &OTHERS);
    assert_eq!(rounds(&mut others, 12), found);
    assert_all_as_planned(&others);
}

#[test]
fn a_job_that_is_resumed_on_other_grids_goes_on_to_the_same_bits() {
    let fitted = Fitted::hardly();
    let mut four = fitted.start("job", &[]);
    rounds(&mut four, 2);
    four.write_checkpoint().unwrap();
    let wanted = rounds(&mut four, 4);
    drop(four);
    let mut resumed = fitted.start("job", &OTHERS);
    assert_eq!(resumed.num_rounds(), 2);
    assert_eq!(rounds(&mut resumed, 4), wanted);
}

/// Each engine that is trained has the weights that it has with nothing beside it, on the same texts.
#[test]
fn engines_learn_to_the_bits_that_each_has_alone() {
    let fitted = Fitted::hardly();
    let mut four = fitted.start("job", &[]);
    let mut recorded = Vec::new();
    for _ in 0..2 {
        four.round().unwrap();
        recorded.push(with(&four.newest, |rollout| rollout.clone()));
    }
    let language = &fitted.files[0];
    let alone: [(Plan, Read, &mut Engine); 2] = [
        (actor_plan(language, &[]).unwrap(), |rollout| &rollout.of_actor, &mut four.actor),
        (critic_plan(language, &[]).unwrap(), |rollout| &rollout.of_critic, &mut four.critic),
    ];
    let weights = |engine: &mut Engine| {
        let file = fitted.folder.path().join("weights");
        engine.save(&file).unwrap();
        std::fs::read(file).unwrap()
    };
    for (plan, read, engine) in alone {
        let newest: Newest = Arc::default();
        let source = of_newest(&plan, &newest, read);
        let mut alone = Engine::new(plan, source).unwrap();
        for rollout in &recorded {
            with(&newest, |newest| newest.clone_from(rollout));
            (0..STEPS).for_each(|_| drop(alone.train_batch().unwrap()));
        }
        assert!(weights(&mut alone) == weights(engine), "the weights are others");
    }
}

#[test]
fn texts_of_the_language_are_good_by_half() {
    let texts: Vec<Vec<u32>> = (0..4000).map(language::text).collect();
    for pair in texts.iter().flat_map(|text| text.windows(2)) {
        assert!([1, 2].contains(&((pair[1] + NUM_WORDS - pair[0]) % NUM_WORDS)), "{pair:?}");
    }
    let last = |text: &Vec<u32>| f64::from(language::goodness(text)[TOKENS - 1]);
    let mean = judgement::mean(texts.iter().map(last));
    // Five standard deviations of a mean of 4000 are below 0.03.
    assert!((mean - 0.5).abs() < 0.03, "{mean}");
    assert_eq!(language::goodness(&[1, 2, 3, 4]), [0.5, 1.0, 0.5, 2.0 / 3.0]);
}

#[test]
fn advantages_of_a_group_have_mean_zero_and_deviation_one() {
    let assert_near = |found: Vec<f64>, wanted: &[f64]| {
        let apart =
            found.iter().zip(wanted).map(|(found, wanted)| (found - wanted).abs()).fold(0.0, f64::max);
        assert!(found.len() == wanted.len() && apart < 1e-6, "{found:?} {wanted:?}");
    };
    assert_near(judgement::returns(1.0, &[1.0, -2.0, 4.0]), &[0.94, 0.96, 0.92]);
    // The deviation of 1, 3, 5 and 7 is the root of 5. A millionth is added to it.
    let group = judgement::standardized(&[vec![1.0, 3.0], vec![5.0, 7.0]]);
    assert_near(group.concat(), &[-3.0, -1.0, 1.0, 3.0].map(|apart| apart / 5_f64.sqrt()));
    let equals = judgement::standardized(&[vec![2.0; 3]]);
    assert_eq!(equals.concat(), [0.0; 3], "a group of equals teaches nothing");
}

/// The factor is the derivative of the loss by the cross-entropy. With an advantage of 1, a token whose probability has grown by more than a fifth has none; with -1, one whose
/// probability has shrunk by more.
#[test]
fn the_clipped_loss_has_its_derivative() {
    for (ratio, advantage, is_free) in [
        (1.0, 1.0, true),
        (1.1, -2.0, true),
        (1.3, 1.5, false),
        (1.3, -1.5, true),
        (0.7, 1.5, true),
        (0.7, -1.5, false),
    ] {
        let (old, width) = (-1.5_f32, 1e-2);
        let cross_entropy = -old - f32::ln(ratio);
        let at = |moved: f32| losses::clipped(cross_entropy + moved, old, advantage);
        let (loss, factor) = at(0.0);
        let wanted = if is_free { -ratio * advantage } else { -ratio.clamp(0.8, 1.2) * advantage };
        assert!((loss - wanted).abs() < 1e-5, "{loss} {wanted}");
        // The second difference of an exponential near 1 is width squared.
        let slope = (at(width).0 - at(-width).0) / (2.0 * width);
        assert!((slope - factor).abs() < 1e-3, "ratio {ratio}, advantage {advantage}: {slope} {factor}");
        assert_eq!(factor == 0.0, !is_free);
    }
}
