//! The loss and its gradient are those of candle's autograd; a run of it leaves its parts, which no grid can change.

use candle_core::{D, Device, Tensor, Var};
use pipezero::models::{Buffer, ElementType, Host};
use pipezero::run::world::world_of;
use serde_json::Value;

use super::*;

const TEXT: &str = concat!("data.text=", env!("CARGO_MANIFEST_DIR"), "/../docs/STYLE.md");

#[test]
fn loss_and_gradient_are_those_of_candles_autograd() {
    let (num_rows, width, seed) = (7, 11, 0.25);
    let logits: Vec<f32> = (0..num_rows * width).map(|i| ((i * i + 3 * i) % 23) as f32 / 5.0 - 1.0).collect();
    let targets: Vec<u32> = (0..num_rows)
        .map(|row| if row % 3 == 1 { IGNORED_TARGET } else { (5 * row % width) as u32 })
        .collect();
    let loss = WithZLoss { weight: 0.3 };
    let mut buffer = Buffer::from_vec(logits.clone()).unwrap();
    let target_words = Buffer::from_vec(targets.clone()).unwrap();
    let mut per_row = Buffer::zeros_of(NUM_STATISTICS * num_rows, ElementType::F32).unwrap();
    let mut words = Buffer::zeros_of(3 * LossSum::NUM_WORDS, ElementType::U32).unwrap();
    let (kept, sums) = (per_row.view_mut(), words.view_mut());
    loss.forward(&Host, buffer.view(), target_words.view(), None, kept, sums);
    loss.backward(&Host, buffer.view_mut(), target_words.view(), None, per_row.view(), seed);
    let (mut found, mut gradient) = ([0; 3 * LossSum::NUM_WORDS], vec![0.0; logits.len()]);
    Host.download(words.view(), &mut found).unwrap();
    Host.download_floats(buffer.view(), &mut gradient).unwrap();
    let found: Vec<LossSum> = found.as_chunks().0.iter().map(|words| LossSum::from_words(*words)).collect();

    let rows: Vec<u32> = (0..num_rows as u32).filter(|row| row % 3 != 1).collect();
    let counted: Vec<u32> = rows.iter().map(|&row| targets[row as usize]).collect();
    let variable = Var::from_vec(logits, (num_rows, width), &Device::Cpu).unwrap();
    let counts = |values: Vec<u32>| Tensor::from_vec(values, rows.len(), &Device::Cpu).unwrap();
    let logits = variable.index_select(&counts(rows.clone()), 0).unwrap();
    let ln_z = logits.log_sum_exp(D::Minus1).unwrap();
    let of_target = logits.gather(&counts(counted).unsqueeze(1).unwrap(), 1).unwrap().squeeze(1).unwrap();
    let cross_entropy = (&ln_z - of_target).unwrap().sum_all().unwrap();
    let z_loss = ln_z.sqr().unwrap().sum_all().unwrap();
    let expected = (&cross_entropy + (&z_loss * 0.3).unwrap()).unwrap();
    for (found, expected) in found.iter().zip([&expected, &cross_entropy, &z_loss]) {
        let expected = f64::from(expected.to_scalar::<f32>().unwrap());
        assert!((found.sum - expected).abs() < 1e-5 * expected, "{} is not {expected}", found.sum);
        assert_eq!(found.num_targets, rows.len() as u64);
    }
    let gradients = (expected * f64::from(seed)).unwrap().backward().unwrap();
    let expected = gradients.get(&variable).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    for (found, expected) in gradient.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }
    assert!(gradient.iter().any(|x| x.abs() > 1e-2));
}

/// The run of the example on a text that is here, so changed.
fn changed(changes: &[&str]) -> Run {
    run(&[&[TEXT], changes].concat().iter().map(|&change| change.to_owned()).collect::<Vec<_>>()).unwrap()
}

/// The loss and its two parts of each line of a run's metrics.
fn metrics(directory: &Path) -> Vec<[f64; 3]> {
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let loss = line.get("loss").or(line.get("validation_loss")).unwrap();
        let parts = &line["loss_parts"];
        [loss, &parts["cross_entropy"], &parts["z_loss"]].map(|value| value.as_f64().unwrap())
    };
    std::fs::read_to_string(directory.join(RunDir::METRICS)).unwrap().lines().map(read).collect()
}

/// What the run leaves beside its metrics is what any run leaves, but for the run file.
#[test]
fn a_run_reports_both_terms_and_no_grid_changes_a_bit_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let lines = |name: &str, changes: &[&str]| {
        let directory = folder.path().join(name);
        let summary = train(changed(&[&["steps=6"], changes].concat()), &directory).unwrap();
        assert!(summary.validation_loss.is_some());
        assert!(directory.join(RunDir::WEIGHTS).exists() && directory.join(RunDir::SUMMARY).exists());
        assert!(!directory.join(RunDir::RUN_FILE).exists());
        metrics(&directory)
    };
    let reference = lines("one", &["parallel.pipeline=1"]);
    // Six steps and an evaluation.
    assert_eq!(reference.len(), 7);
    for [loss, cross_entropy, z_loss] in &reference {
        let sum = cross_entropy + f64::from(1e-2_f32) * z_loss;
        assert!((loss - sum).abs() < 1e-12 * loss, "{loss} is not {sum}");
    }
    assert!(reference[5][2] < reference[0][2], "{reference:?}");
    for (name, changes) in [
        ("two", &[][..]),
        ("zb", &["parallel.schedule=zb-h1"]),
        ("checkpointing", &["activation_checkpointing.enabled=true", "threads=2"]),
    ] {
        assert_eq!(lines(name, changes), reference, "{name}");
    }
}

/// From a checkpoint, on another grid.
#[test]
fn a_run_that_ended_early_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, parts] = ["whole", "parts"].map(|name| folder.path().join(name));
    train(changed(&["steps=4"]), &whole).unwrap();
    train(changed(&["steps=2", "checkpoint.every=2"]), &parts).unwrap();
    let plan = plan(changed(&["steps=4", "parallel.pipeline=1"])).unwrap();
    let world = world_of(&plan).unwrap();
    let directory = RunDir::resume(&parts).unwrap();
    let training = Training::resuming(plan, world, &parts, None, &mut |_| {}).unwrap();
    assert_eq!(training.resumed().map(|resumed| resumed.step), Some(2));
    training.run(&directory, &AtomicBool::new(false), &mut Printed).unwrap();
    let (whole, mut parts) = (metrics(&whole), metrics(&parts));
    // The evaluation after its first two steps.
    parts.remove(2);
    assert_eq!((parts.len(), parts), (5, whole));
}
