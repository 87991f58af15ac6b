//! Four engines in one process, as reinforcement learning from feedback has them: a policy and a critic that are trained, by losses that read what
//! the others have computed, and a reference and a reward that compute. Each has a grid and a ZeRO level of its own; the policy writes texts between
//! its steps.

use std::sync::{Arc, Mutex};

use pipezero_config::{Precision, ResidencyConfig, Run, ZeroConfig, ZeroLevel};
use pipezero_models::kernels::cross_entropy::NUM_STATISTICS;
use pipezero_models::layer::{IGNORED_TARGET, LossSum};
use pipezero_models::model::{LayerRole, ModelLayer, Tying};
use pipezero_models::shared::HeadWithLoss;
use pipezero_models::{CrossEntropy, Loss, Queue, View, ViewMut};
use pipezero_plan::Plan;
use pipezero_run::data::{BatchError, BatchLayout, BatchSource, TokenBatch};
use pipezero_run::engine::{BatchLogits, Engine, EngineKind, batch_layout};
use pipezero_run::generation::{Generation, Sampling};
use tests::{Case, Weights, assert_same_weights, small_run, weights_of, zero};

const SEQUENCES: usize = 8;
const TOKENS: usize = 6;
/// Of which the first two are given, and the others written.
const PROMPT: usize = 2;
const ROUNDS: usize = 2;
const CLIP: f32 = 0.2;

/// PPO's clipped objective (Schulman et al., arXiv:1707.06347, section 3): of each token its old log-probability and its advantage.
#[derive(Debug)]
struct Clipped;

/// What a row's cross-entropy, its old log-probability and its advantage come to: the loss, and by what the gradient of the cross-entropy
/// is multiplied.
fn clipped(cross_entropy: f32, old: f32, advantage: f32) -> (f32, f32) {
    let ratio = (-cross_entropy - old).exp();
    let (free, bound) = (ratio * advantage, ratio.clamp(1.0 - CLIP, 1.0 + CLIP) * advantage);
    if free <= bound { (-free, free) } else { (-bound, 0.0) }
}

impl Loss for Clipped {
    fn num_kept_per_row(&self) -> usize {
        NUM_STATISTICS
    }

    fn num_inputs_per_row(&self) -> usize {
        2
    }

    fn forward(
        &self,
        queue: &dyn Queue,
        logits: View<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        mut per_row: ViewMut<'_>,
        mut loss: ViewMut<'_>,
    ) {
        CrossEntropy.forward(queue, logits, targets, None, per_row.reborrow(), loss.reborrow());
        let inputs = inputs.expect("a batch without them is an error");
        queue.on_host(
            &[targets, per_row.view(), inputs],
            vec![loss],
            Box::new(|reads, writes| {
                let [targets, kept, inputs] = reads else { unreachable!() };
                let rows = kept
                    .slice::<f32>()
                    .chunks_exact(NUM_STATISTICS)
                    .zip(inputs.slice::<f32>().chunks_exact(2));
                let mut sum = LossSum::default();
                for (_, (kept, given)) in
                    targets.slice::<u32>().iter().zip(rows).filter(|&(&target, _)| target != IGNORED_TARGET)
                {
                    sum.sum += f64::from(clipped(kept[0] - kept[2], given[0], given[1]).0);
                    sum.num_targets += 1;
                }
                for loss in writes.into_iter().filter(|loss| !loss.is_empty()) {
                    loss.slice().copy_from_slice(&sum.to_words());
                }
            }),
        );
    }

    fn backward(
        &self,
        queue: &dyn Queue,
        mut logits: ViewMut<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        per_row: View<'_>,
        seed: f32,
    ) {
        CrossEntropy.backward(queue, logits.reborrow(), targets, None, per_row, seed);
        queue.on_host(
            &[per_row, inputs.expect("as in the forward")],
            vec![logits],
            Box::new(|reads, writes| {
                let (kept, inputs) = (reads[0].slice::<f32>(), reads[1].slice::<f32>());
                let rows = kept.chunks_exact(NUM_STATISTICS).zip(inputs.chunks_exact(2));
                for logits in writes {
                    let logits = logits.slice::<f32>();
                    let width = logits.len() / (inputs.len() / 2);
                    for (row, (kept, given)) in logits.chunks_exact_mut(width).zip(rows.clone()) {
                        let (_, factor) = clipped(kept[0] - kept[2], given[0], given[1]);
                        row.iter_mut().for_each(|x| *x *= factor);
                    }
                }
            }),
        );
    }
}

/// Half the squared distance of a value from what the source says of it; without a word of the source, a count.
#[derive(Debug)]
struct Squared;

impl Loss for Squared {
    fn num_inputs_per_row(&self) -> usize {
        1
    }

    fn needs_inputs(&self) -> bool {
        false
    }

    fn forward(
        &self,
        queue: &dyn Queue,
        values: View<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        _: ViewMut<'_>,
        loss: ViewMut<'_>,
    ) {
        let Some(wanted) = inputs else {
            if !loss.is_empty() {
                queue.count_targets(targets, loss);
            }
            return;
        };
        queue.on_host(
            &[values, targets, wanted],
            vec![loss],
            Box::new(|reads, writes| {
                let (values, wanted) = (reads[0].slice::<f32>(), reads[2].slice::<f32>());
                let mut sum = LossSum::default();
                for (&target, (value, wanted)) in
                    reads[1].slice::<u32>().iter().zip(values.iter().zip(wanted))
                {
                    if target != IGNORED_TARGET {
                        sum.sum += 0.5 * f64::from(value - wanted).powi(2);
                        sum.num_targets += 1;
                    }
                }
                for loss in writes.into_iter().filter(|loss| !loss.is_empty()) {
                    loss.slice().copy_from_slice(&sum.to_words());
                }
            }),
        );
    }

    fn backward(
        &self,
        queue: &dyn Queue,
        values: ViewMut<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        _: View<'_>,
        seed: f32,
    ) {
        queue.on_host(
            &[targets, inputs.expect("a step has them")],
            vec![values],
            Box::new(move |reads, writes| {
                let (targets, wanted) = (reads[0].slice::<u32>(), reads[1].slice::<f32>());
                for values in writes {
                    for (value, (&target, wanted)) in
                        values.slice::<f32>().iter_mut().zip(targets.iter().zip(wanted))
                    {
                        *value = if target == IGNORED_TARGET { 0.0 } else { seed * (*value - wanted) };
                    }
                }
            }),
        );
    }
}

/// A batch that the policy has written, with what the two losses read.
#[derive(Clone, Default)]
struct Rollout {
    /// `[sequence]`: one token more than a sequence has.
    texts: Vec<Vec<u32>>,
    /// `[sequence][token]`: old log-probability and advantage.
    of_policy: Vec<Vec<[f32; 2]>>,
    /// `[sequence][token]`: what the critic should have said.
    of_critic: Vec<Vec<f32>>,
}

type Rollouts = Arc<Mutex<Vec<Rollout>>>;

/// Whose loss reads what.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    Policy,
    Critic,
    Nothing,
}

/// The batches that were written so far, for a plan's grid.
struct Written {
    rollouts: Rollouts,
    layout: BatchLayout,
    reads: Reads,
}

impl Written {
    fn of(plan: &Plan, rollouts: &Rollouts, reads: Reads) -> Arc<dyn BatchSource> {
        Arc::new(Self { rollouts: Arc::clone(rollouts), layout: batch_layout(plan), reads })
    }
}

impl BatchSource for Written {
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        let rollouts = self.rollouts.lock().expect("no rank panics with it");
        let rollout = &rollouts[step as usize - 1];
        let size = self.layout.micro_batch_size;
        let first = (data_rank * self.layout.num_micro_batches + micro_batch) * size;
        for (row, sequence) in (first..first + size).enumerate() {
            for position in 0..TOKENS {
                let at = row * TOKENS + position;
                let text = &rollout.texts[sequence];
                batch.inputs[at] = text[position];
                batch.targets[at] = if position + 1 < PROMPT { IGNORED_TARGET } else { text[position + 1] };
                match self.reads {
                    Reads::Policy => batch.loss_inputs.extend(rollout.of_policy[sequence][position]),
                    Reads::Critic => batch.loss_inputs.push(rollout.of_critic[sequence][position]),
                    Reads::Nothing => {}
                }
            }
        }
        Ok(())
    }
}

/// The run of an engine with a batch of 8 sequences.
fn run(case: Case, seed: u64) -> Run {
    assert_eq!(2 * case.num_micro_batches * case.data, SEQUENCES, "micro-batches of two sequences");
    Run { seed, ..small_run(case) }
}

fn grid(pipeline: usize, data: usize, zero: ZeroConfig) -> Case {
    Case { pipeline, data, num_micro_batches: 4 / data, zero, num_layers: 4, ..Case::ONE_RANK }
}

fn zero_3() -> ZeroConfig {
    zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1)
}

fn policy_plan(case: Case) -> Plan {
    let run = run(case, 1);
    let model = run.model.build_with_loss(Arc::new(Clipped)).expect("valid sizes");
    Plan::with_model(run, model).expect("a valid run")
}

/// A model whose head gives a value for each token.
fn values_plan(case: Case, seed: u64) -> Plan {
    let run = run(case, seed);
    let mut model = run.model.build().expect("valid sizes");
    model.layers.pop().expect("a head");
    let head = HeadWithLoss::of_width(run.model.gpt().expect("a vocabulary"), 1, Arc::new(Squared));
    model.layers.push(ModelLayer::new(head, LayerRole::Head, Tying::Untied));
    Plan::with_model(run, model).expect("a valid run")
}

fn critic_plan() -> Plan {
    let zero_2 = zero(ZeroLevel::Zero2, ResidencyConfig::Units(1), 0);
    values_plan(Case { precision: Precision::Bf16, ..grid(1, 2, zero_2) }, 2)
}

/// All that an engine says of the newest rollout.
fn said<K: EngineKind>(engine: &mut Engine<K>, rollouts: &Rollouts, reads: Reads) -> Arc<BatchLogits> {
    let source = Written::of(engine.plan(), rollouts, reads);
    let logits = Arc::new(BatchLogits::for_plan(engine.plan()).expect("there is memory"));
    let newest = rollouts.lock().expect("no panic").len() as u64;
    engine.batch_logits(&source, newest, &logits).expect("logits");
    logits
}

/// The logarithm of the probability that a row of logits gives a token.
fn log_probability(row: &[f32], token: u32) -> f32 {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = row.iter().map(|x| (x - max).exp()).sum();
    row[token as usize] - max - sum.ln()
}

/// What came out of the rounds.
struct Learned {
    rollouts: Vec<Rollout>,
    /// Losses of policy and critic, round after round, in bits.
    losses: Vec<[u64; 2]>,
    weights: [Weights; 2],
}

/// Texts from the policy, beginning with two tokens each.
fn written(policy: &mut Engine, round: usize) -> Vec<Vec<u32>> {
    let prompts: Vec<(u64, Vec<u32>)> = (0..SEQUENCES as u64)
        .map(|number| (number, vec![(3 * number + round as u64) as u32 % 17, number as u32]))
        .collect();
    let at_once = policy.plan().evaluation().num_micro_batches() as usize;
    let sampling = Sampling { temperature: 1.0, top_k: 0, seed: 5 };
    let mut texts: Vec<Vec<u32>> = prompts.iter().map(|(_, prompt)| prompt.clone()).collect();
    for (prompts, texts) in prompts.chunks(at_once).zip(texts.chunks_mut(at_once)) {
        let mut generation = Generation::new(policy, prompts.to_vec(), sampling, None);
        for _ in PROMPT..TOKENS + 1 {
            let next = generation.next_tokens().expect("tokens");
            texts.iter_mut().zip(next).for_each(|(text, next)| text.extend(next));
        }
    }
    texts
}

/// Rounds of writing, judging and learning, with the two that only compute on these grids.
fn learn(of_reference: Case, of_reward: Case) -> Learned {
    let rollouts = Rollouts::default();
    let (policy, critic) = (policy_plan(grid(2, 2, zero_3())), critic_plan());
    let [of_policy, of_critic] = [(&policy, Reads::Policy), (&critic, Reads::Critic)]
        .map(|(plan, reads)| Written::of(plan, &rollouts, reads));
    let mut policy = Engine::new(policy, of_policy).expect("ranks start");
    let mut critic = Engine::new(critic, of_critic).expect("ranks start");
    let inference = |plan: Plan| {
        let source = Written::of(&plan, &rollouts, Reads::Nothing);
        Engine::for_inference(plan, source).expect("ranks start")
    };
    let mut reference = inference(Plan::even_if_refused(run(of_reference, 1)).expect("a valid run"));
    let mut reward = inference(values_plan(of_reward, 4));
    let mut losses = Vec::new();
    for round in 0..ROUNDS {
        let texts = written(&mut policy, round);
        let of_policy = vec![vec![[0.0; 2]; TOKENS]; SEQUENCES];
        let of_critic = vec![vec![0.0; TOKENS]; SEQUENCES];
        rollouts.lock().expect("no panic").push(Rollout { texts: texts.clone(), of_policy, of_critic });
        let old = said(&mut policy, &rollouts, Reads::Policy);
        let kept = said(&mut reference, &rollouts, Reads::Nothing);
        let value = said(&mut critic, &rollouts, Reads::Critic);
        let judged = said(&mut reward, &rollouts, Reads::Nothing);
        let mut all = rollouts.lock().expect("no panic");
        let rollout = all.last_mut().expect("it was added");
        for (sequence, text) in texts.iter().enumerate() {
            let judged = judged.read(sequence, TOKENS, |values| values[TOKENS - 1]);
            for position in 0..TOKENS {
                let row = |logits: &BatchLogits| {
                    logits.read(sequence, TOKENS, |rows| {
                        log_probability(&rows[17 * position..][..17], text[position + 1])
                    })
                };
                let (old, kept) = (row(&old), row(&kept));
                let value = value.read(sequence, TOKENS, |values| values[position]);
                let wanted = judged - 0.1 * (old - kept);
                // A first step's ratio is 1 but for rounding; another old one shows the clipping too.
                rollout.of_policy[sequence][position] = [old - 0.3 * (position % 2) as f32, wanted - value];
                rollout.of_critic[sequence][position] = wanted;
            }
        }
        drop(all);
        let reports = [policy.train_batch().expect("a step"), critic.train_batch().expect("a step")];
        losses.push(reports.map(|report| report.loss.expect("targets count").to_bits()));
    }
    let rollouts = rollouts.lock().expect("no panic").clone();
    Learned { rollouts, losses, weights: [weights_of(&mut policy), weights_of(&mut critic)] }
}

/// The losses and weights of an engine that has nothing beside it, on what was recorded.
fn alone(plan: Plan, recorded: &[Rollout], reads: Reads) -> (Vec<u64>, Weights) {
    let rollouts: Rollouts = Arc::new(Mutex::new(recorded.to_vec()));
    let source = Written::of(&plan, &rollouts, reads);
    let mut engine = Engine::new(plan, source).expect("ranks start");
    let losses = (0..ROUNDS)
        .map(|_| engine.train_batch().expect("a step").loss.expect("targets count").to_bits())
        .collect();
    (losses, weights_of(&mut engine))
}

#[test]
fn four_engines_learn_to_the_bits_that_each_has_alone() {
    let zero_1 = || zero(ZeroLevel::Zero1, ResidencyConfig::Units(1), 0);
    let first = learn(grid(1, 4, zero_1()), grid(2, 1, zero_3()));
    assert!(first.losses[0] != first.losses[1], "they learn");
    let texts =
        |learned: &Learned| learned.rollouts.iter().map(|rollout| rollout.texts.clone()).collect::<Vec<_>>();
    assert!(texts(&first).concat().iter().all(|text| text.len() == TOKENS + 1));
    // Again, with those that only compute on other grids.
    let second = learn(grid(4, 1, zero_3()), grid(1, 2, zero_1()));
    assert_eq!((&second.losses, texts(&second)), (&first.losses, texts(&first)));
    for (engine, (plan, reads)) in
        [(policy_plan(grid(2, 2, zero_3())), Reads::Policy), (critic_plan(), Reads::Critic)]
            .into_iter()
            .enumerate()
    {
        let (losses, weights) = alone(plan, &first.rollouts, reads);
        assert_eq!(losses, first.losses.iter().map(|losses| losses[engine]).collect::<Vec<_>>());
        assert_same_weights(&weights, &first.weights[engine], ["policy", "critic"][engine]);
        assert_same_weights(&second.weights[engine], &first.weights[engine], "the same again");
    }
    // The policy's grid changes no bit either, at the same data degree and reductions.
    let (losses, weights) = alone(policy_plan(grid(1, 2, zero_3())), &first.rollouts, Reads::Policy);
    assert_eq!(losses, first.losses.iter().map(|losses| losses[0]).collect::<Vec<_>>());
    assert_same_weights(&weights, &first.weights[0], "the policy on one pipeline rank");
}
