//! The embedder learns in front of a body that stays as it was, on every grid alike.

use super::*;

const ONE_RANK: [&str; 3] = ["parallel.pipeline=1", "parallel.data=1", "gradient_accumulation_steps=4"];

fn losses(engine: &mut Engine, num_steps: usize) -> Vec<f64> {
    (0..num_steps).map(|_| engine.train_batch().unwrap().loss.unwrap()).collect()
}

#[test]
fn the_embedder_learns_and_a_frozen_body_keeps_every_bit() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("body.safetensors");
    pretrain(&weights).unwrap();
    let prompt = [0, 16, 17];
    let body = |path: &Path| {
        let plan = Plan::new(run(&[]).unwrap()).unwrap();
        let no_batches = texts(&plan);
        let mut engine = Engine::for_inference(plan, no_batches).unwrap();
        engine.load(path).unwrap();
        engine.logits(&prompt).unwrap()
    };
    let before = body(&weights);
    let mut frozen = engine(&weights, false, &[]).unwrap();
    assert_eq!(frozen.logits(&prompt).unwrap(), before, "without an image the body answers as before");
    let found = losses(&mut frozen, 40);
    assert!(found[39] < 0.5 * found[0], "{found:?}");
    assert_eq!(frozen.logits(&prompt).unwrap(), before, "no bit of the body has changed");
    let mut trained = engine(&weights, true, &[]).unwrap();
    assert_eq!(losses(&mut trained, 1), found[..1], "both begin alike");
    losses(&mut trained, 3);
    assert_ne!(trained.logits(&prompt).unwrap(), before, "the body is trained");
}

/// At one data rank the bits are those of one rank; over two, gradients are added in another order.
#[test]
fn every_grid_begins_with_the_same_weights_and_takes_the_same_steps() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("body.safetensors");
    pretrain(&weights).unwrap();
    let on = |changes: &[&str]| {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        losses(&mut engine(&weights, false, &changes).unwrap(), 3)
    };
    let one = on(&ONE_RANK);
    let pipeline = on(&["parallel.pipeline=2", "parallel.data=1", "gradient_accumulation_steps=4"]);
    assert_eq!(pipeline, one);
    let two = on(&["parallel.pipeline=2", "parallel.data=2"]);
    let apart = two.iter().zip(&one).map(|(two, one)| (two - one).abs()).fold(0.0, f64::max);
    // Sums in f32 in another order.
    assert!(apart < 1e-5, "{two:?} {one:?}");
}
