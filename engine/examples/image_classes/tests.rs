//! The example learns what it is to learn, with the same bits on other grids.

use std::collections::BTreeSet;

use super::*;

#[test]
fn a_patch_is_a_square_of_the_image() {
    let numbered: Vec<f32> = (0..SIDE * SIDE).map(|pixel| pixel as f32).collect();
    let patches = patches(&numbered);
    for (index, &pixel) in patches.iter().enumerate() {
        let (patch, place) = (index / (PATCH * PATCH), index % (PATCH * PATCH));
        let row = patch / GRID * PATCH + place / PATCH;
        let column = patch % GRID * PATCH + place % PATCH;
        assert_eq!(pixel, (row * SIDE + column) as f32, "pixel {place} of patch {patch}");
    }
    let all: BTreeSet<u32> = patches.iter().map(|&pixel| pixel as u32).collect();
    assert_eq!(all.len(), SIDE * SIDE);
}

/// Without the images all that is left is to guess: ln 4 nats.
#[test]
fn classes_of_unseen_images_are_learned() {
    let mut engine = engine(run().unwrap()).unwrap();
    let before = validation_loss(&mut engine).unwrap();
    let guessed = (CLASSES.len() as f64).ln();
    assert!(before > guessed, "{before}");
    for _ in 0..engine.plan().run().steps {
        engine.train_batch().unwrap();
    }
    let after = validation_loss(&mut engine).unwrap();
    assert!(after < 0.2 * guessed, "{after} of {guessed}");
}

/// The input encoder is whole, so its gradients are added up once a step on every grid.
#[test]
fn grids_and_schedules_cannot_be_seen() {
    let losses = |changes: &[&str]| {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        let file = RunFile::parse("image_classes", RUN).unwrap().set(&changes).unwrap();
        let mut engine = engine(file.resolve(Resources::this_host()).unwrap().0).unwrap();
        (0..3).map(|_| engine.train_batch().unwrap().loss.unwrap().to_bits()).collect::<Vec<_>>()
    };
    let reference = losses(&["parallel.pipeline=1"]);
    for changes in [
        &[][..],
        &["parallel.schedule=zb-h1"],
        &["parallel.schedule=gpipe", "zero_optimization.unit_layers=0.5"],
    ] {
        assert_eq!(losses(changes), reference, "{changes:?}");
    }
}
