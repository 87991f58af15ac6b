//! The quickstart learns what counting pairs of bytes cannot: it needs working attention.

use pipezero_config::Run;
use pipezero_models::{Ablation, GptConfig, gpt2};
use pipezero_plan::BesideZero1;
use pipezero_plan::Plan;
use pipezero_train::Summary;
use tests::{example, train_into};

/// By how much the validation loss must be below the bigram's cross-entropy, nats per byte.
const MARGIN: f64 = 0.4;

fn quickstart() -> Run {
    example("quickstart.json", &["evaluation.every=0"])
}

fn train(plan: Plan) -> Summary {
    let home = tempfile::tempdir().expect("a temporary folder");
    train_into(&home.path().join("run"), plan).1
}

/// How far the validation loss is below the bigram's cross-entropy.
fn gain(summary: &Summary) -> f64 {
    let bigram = summary.baselines.expect("validation text").bigram;
    bigram - summary.validation_loss.expect("validation text")
}

#[test]
fn the_quickstart_beats_counting_pairs_and_without_attention_it_does_not() {
    let run = quickstart();
    let whole = train(Plan::new(run.clone()).expect("a valid run"));
    assert!(gain(&whole) >= MARGIN, "{} nats below the bigram", gain(&whole));
    // As long a training again.
    if !tests::in_full() {
        return;
    }
    let sizes = GptConfig { ablation: Ablation::AttentionOutput, ..run.model.gpt().unwrap().clone() };
    let without_attention = gpt2::build(&sizes).expect("the quickstart's sizes");
    let ablated = train(Plan::with_model(run, without_attention).expect("a valid run"));
    assert!(gain(&ablated) < MARGIN, "{} nats below the bigram without attention", gain(&ablated));
}

/// The first example that anyone sees is one that pays: every rank needs at least 5% less than under ZeRO-1.
#[test]
fn the_quickstart_saves_memory_by_sharding() {
    let plan = Plan::new(quickstart()).expect("a valid run");
    let ranks = plan.beside_zero_1();
    assert_eq!(ranks.len(), 2);
    assert!(ranks.iter().all(BesideZero1::pays), "{ranks:?}");
}
