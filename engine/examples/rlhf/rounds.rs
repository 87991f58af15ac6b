//! A round: the actor writes texts, the others judge them, and the actor and the critic learn from it.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use pipezero::models::CrossEntropy;
use pipezero::run::checkpoint::JointCheckpoints;
use pipezero::run::engine::{BatchLogits, EngineKind, Inference};
use pipezero::run::generation::{Generation, Sampling};
use pipezero::{Engine, Plan};

use super::batches::{Newest, Read, Rollout, of_newest, with};
use super::engines::{Name, asked, texts, values};
use super::judgement::{differences, log_probabilities, mean, returns, standardized, values_of};
use super::losses::Clipped;
use super::{GROUP, NUM_WORDS, TEXTS, TOKENS, WRITTEN, language};

/// Steps on the texts of a round.
pub(super) const STEPS: u64 = 2;

/// The figures of a round, means over its texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    /// Its number, from 1.
    pub(super) number: u64,
    /// The reward engine's value of a whole text.
    pub(super) reward: f64,
    /// The true share of even tokens, which no engine knows.
    pub(super) goodness: f64,
    /// KL divergence of the actor from the reference in nats per token, estimated from the tokens that were drawn.
    pub(super) divergence: f64,
    /// The actor's and the critic's loss in the last step.
    pub(super) losses: [f64; 2],
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, reward, goodness, divergence, losses: [actor, critic] } = self;
        write!(
            f,
            "round {number:>2}  reward {reward:.3}  by the rule {goodness:.3}  divergence {divergence:.3}"
        )?;
        write!(f, "  actor {actor:+.4}  critic {critic:.4}")
    }
}

/// The four engines.
pub(super) struct Four {
    pub(super) actor: Engine,
    pub(super) critic: Engine,
    pub(super) reward: Engine<Inference>,
    pub(super) reference: Engine<Inference>,
    /// The last round's texts.
    pub(super) newest: Newest,
    joint: JointCheckpoints,
}

/// For engines whose loss reads nothing but the text.
const NOTHING: Read = |_| &[];

/// The actor's plan: it begins with the weights at `language`.
pub(super) fn actor_plan(language: &Path, changes: &[String]) -> Result<Plan, Box<dyn Error>> {
    let begin = [format!("actor.init.from={}", language.display())];
    texts(Name::Actor, Arc::new(Clipped), true, &[&begin, changes].concat())
}

/// The critic's: the same, but for its head.
pub(super) fn critic_plan(language: &Path, changes: &[String]) -> Result<Plan, Box<dyn Error>> {
    let from = format!("critic.init.from={}", language.display());
    let begin = [from, "critic.init.new=[\"^lm_head$\"]".to_owned()];
    values(Name::Critic, true, &[&begin, changes].concat())
}

/// The plans of the four engines.
pub(super) struct Plans {
    pub(super) actor: Plan,
    pub(super) critic: Plan,
    pub(super) reward: Plan,
    pub(super) reference: Plan,
}

impl Plans {
    /// The actor and the critic will begin with the weights at `language`, which need not be there yet.
    pub(super) fn new(language: &Path, changes: &[String]) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            actor: actor_plan(language, changes)?,
            critic: critic_plan(language, changes)?,
            reward: values(Name::Reward, false, changes)?,
            reference: texts(Name::Reference, Arc::new(CrossEntropy), false, changes)?,
        })
    }
}

impl Four {
    /// Engines with the fitted weights. The actor and the critic resume from the newest checkpoints in `folder`, if there are any.
    pub(super) fn start(
        plans: Plans,
        [language, reward]: [&Path; 2],
        folder: &Path,
    ) -> Result<Self, Box<dyn Error>> {
        let newest = Newest::default();
        let source = |plan: &Plan, read: Read| of_newest(plan, &newest, read);
        let batches = source(&plans.actor, |rollout| &rollout.of_actor);
        let mut actor = Engine::new(plans.actor, batches)?;
        let batches = source(&plans.critic, |rollout| &rollout.of_critic);
        let mut critic = Engine::new(plans.critic, batches)?;
        let batches = source(&plans.reward, NOTHING);
        let reward = asked(plans.reward, batches, reward)?;
        let batches = source(&plans.reference, NOTHING);
        let reference = asked(plans.reference, batches, language)?;
        let mut joint = JointCheckpoints::in_folder(folder).keeping(2);
        joint.resume(&mut [(Name::Actor.word(), &mut actor), (Name::Critic.word(), &mut critic)])?;
        Ok(Self { actor, critic, reward, reference, newest, joint })
    }

    /// Rounds that have been learned from.
    pub(super) fn num_rounds(&self) -> u64 {
        self.actor.position().step / STEPS
    }

    /// Writes checkpoints of both engines that are trained, which belong together.
    pub(super) fn write_checkpoint(&mut self) -> Result<(), Box<dyn Error>> {
        let Self { actor, critic, joint, .. } = self;
        Ok(joint.write(&mut [(Name::Actor.word(), actor), (Name::Critic.word(), critic)])?)
    }

    /// The next round.
    pub(super) fn round(&mut self) -> Result<Round, Box<dyn Error>> {
        let number = self.num_rounds() + 1;
        let texts = written(&mut self.actor, number)?;
        let goodness = |text: &Vec<u32>| f64::from(language::goodness(text)[TOKENS - 1]);
        let goodness = texts.iter().map(goodness).sum::<f64>() / TEXTS as f64;
        let unknown = |num_values| vec![vec![0.0; num_values * TOKENS]; TEXTS];
        with(&self.newest, |rollout| {
            *rollout = Rollout { texts: texts.clone(), of_actor: unknown(2), of_critic: unknown(1) };
        });
        let old =
            log_probabilities(&said(&mut self.actor, &self.newest, |rollout| &rollout.of_actor)?, &texts);
        let kept = log_probabilities(&said(&mut self.reference, &self.newest, NOTHING)?, &texts);
        let expected = values_of(&said(&mut self.critic, &self.newest, NOTHING)?);
        let judged = values_of(&said(&mut self.reward, &self.newest, NOTHING)?);
        let distances = differences(&old, &kept);
        let rewards = judged.iter().map(|judged| judged[TOKENS - 1]);
        let returns: Vec<Vec<f64>> =
            rewards.clone().zip(&distances).map(|(reward, distances)| returns(reward, distances)).collect();
        let surprises = differences(&returns, &expected);
        let advantages: Vec<Vec<f64>> = surprises.chunks(GROUP).flat_map(standardized).collect();
        with(&self.newest, |rollout| {
            for text in 0..TEXTS {
                for token in 0..WRITTEN {
                    let of_actor = [old[text][token], advantages[text][token]].map(|value| value as f32);
                    rollout.of_actor[text][2 * token..][..2].copy_from_slice(&of_actor);
                    rollout.of_critic[text][token] = returns[text][token] as f32;
                }
            }
        });
        let mut losses = [f64::NAN; 2];
        for _ in 0..STEPS {
            let reports = [self.actor.train_batch()?, self.critic.train_batch()?];
            losses = reports.map(|report| report.loss.unwrap_or(f64::NAN));
        }
        let [reward, divergence] = [mean(rewards), mean(distances.iter().flatten().copied())];
        Ok(Round { number, reward, goodness, divergence, losses })
    }
}

/// Texts from the actor: a group of each first token.
fn written(actor: &mut Engine, round: u64) -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
    let first = |text: usize| (round as u32 * 5 + (text / GROUP) as u32 * 4) % NUM_WORDS;
    let mut texts: Vec<Vec<u32>> = (0..TEXTS).map(|text| vec![first(text)]).collect();
    // The draws of a text depend on the sum of this seed and its number.
    let sampling = Sampling { temperature: 1.0, top_k: 0, seed: round * TEXTS as u64 };
    let at_once = actor.plan().evaluation().num_micro_batches() as usize;
    for first in (0..TEXTS).step_by(at_once) {
        let texts = &mut texts[first..(first + at_once).min(TEXTS)];
        let prompts = (first as u64..).zip(texts.iter().cloned());
        let mut generation = Generation::new(actor, prompts, sampling, None);
        for _ in 0..WRITTEN {
            let next = generation.next_tokens()?;
            texts.iter_mut().zip(next).for_each(|(text, next)| text.extend(next));
        }
    }
    Ok(texts)
}

/// Asks an engine about the newest texts: the outputs of its head, `[text, token, output]`.
fn said<K: EngineKind>(
    engine: &mut Engine<K>,
    newest: &Newest,
    read: Read,
) -> Result<BatchLogits, Box<dyn Error>> {
    let logits = Arc::new(BatchLogits::for_plan(engine.plan())?);
    let source = of_newest(engine.plan(), newest, read);
    engine.batch_logits(&source, 1, &logits)?;
    Arc::into_inner(logits).ok_or_else(|| "the ranks have written them".into())
}
