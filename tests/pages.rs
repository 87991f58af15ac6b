//! Figures on pages: those that a plan gives, and those that one page has from another.

use std::path::Path;

use pipezero_config::{Resources, RunFile};
use pipezero_plan::Plan;
use tests::example;

const GIB: f64 = (1u64 << 30) as f64;

fn page(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells behind the first one of the only row of a page whose first cell is `first`.
fn row(page: &str, first: &str) -> Vec<String> {
    let begins = format!("| {first} |");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with(&begins)).collect();
    let [row] = rows[..] else { panic!("{} rows begin with {begins}", rows.len()) };
    let cells = row[begins.len()..].trim_end_matches('|').split('|');
    cells.map(|cell| cell.trim().to_owned()).collect()
}

/// The mean of the numbers of a cell.
fn mean(cell: &str) -> f64 {
    let numbers: Vec<f64> = cell.split(", ").map(|number| number.parse().expect("a number")).collect();
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// What was measured is said once, and other pages repeat it.
#[test]
fn pages_repeat_what_results_say_of_a_gpu() {
    let (readme, results) = (page("README.md"), page("docs/results.md"));
    let own = mean(&row(&results, "124M, 32 x 1024 tokens, pipezero")[0]);
    let compiled = mean(&row(&results, "the same, PyTorch 2.11 compiled")[0]);
    let ratio = format!("at {:.2} times the speed of `torch.compile`", compiled / own);
    assert!(readme.contains(&ratio), "README.md does not say: {ratio}");
    let (before, _) = results.split_once(" grids of up to 4 ranks on the GPU").expect("results count grids");
    let grids = format!("{} grids of up to 4 ranks", before.rsplit(' ').next().expect("a number"));
    for repeats in ["README.md", "CHANGELOG.md"] {
        assert!(page(repeats).contains(&grids), "{repeats} does not say: {grids}");
    }
}

/// The last line of the example counts the lines above it.
#[test]
fn the_page_on_doctor_counts_its_checks() {
    let doctor = page("docs/doctor.md");
    let of_verdict = |verdict: &str| doctor.lines().filter(|line| line.starts_with(verdict)).count();
    let [failed, warnings, ok] = ["failed   ", "warning  ", "ok       "].map(of_verdict);
    let sum = format!("{} checks in ", failed + warnings + ok);
    let verdicts = format!(": {failed} failed, {warnings} warning, {ok} ok");
    let is_sum = |line: &str| line.starts_with(&sum) && line.ends_with(&verdicts);
    assert!(doctor.lines().any(is_sum), "docs/doctor.md does not say: {sum}...{verdicts}");
}

/// Peaks of the pipeline ranks, in order.
fn peaks(plan: &Plan) -> Vec<f64> {
    let ranks = plan.forecast().into_iter().step_by(plan.grid().data_degree);
    ranks.map(|rank| rank.memory.peak as f64).collect()
}

fn highest(peaks: Vec<f64>) -> f64 {
    peaks.into_iter().fold(0.0, f64::max)
}

#[test]
fn the_readme_says_what_70_billion_parameters_need() {
    let text = r#"{
        "model": {
            "family": "llama", "num_layers": 80, "hidden_size": 8192, "ffn_hidden_size": 28672, "num_attention_heads": 64,
            "num_query_groups": 8, "seq_length": 8192, "vocab_size": 128256
        },
        "data": {"text": "never-read.txt"},
        "device": "cuda", "bf16": {"enabled": true}, "memory": "80GB",
        "parallel": {"pipeline": 8, "data": 8}, "zero_optimization": {"stage": 3},
        "activation_checkpointing": "auto",
        "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 32, "steps": 1
    }"#;
    let (run, _) = RunFile::parse("run.json", text)
        .and_then(|file| file.resolve(Resources::this_host()))
        .unwrap_or_else(|errors| panic!("{errors}"));
    let needs = format!("{:.1} GiB on the fullest", highest(peaks(&Plan::new(run).expect("it fits"))) / GIB);
    assert!(page("README.md").contains(&needs), "README.md does not say: {needs}");
}

/// The table of docs/models.md, but for the predicted step.
#[test]
fn the_page_on_models_says_what_a_part_that_is_trained_needs() {
    const MIB: f64 = GIB / 1024.0;
    let models = page("docs/models.md");
    for (first, train_only) in [
        ("none", "null"),
        (r#"`["h\\.1[01]\\.", "ln_f"]`, the last two blocks"#, r#"["h\\.1[01]\\.", "ln_f"]"#),
        (r#"`["bias", "ln_"]`, the vectors alone"#, r#"["bias", "ln_"]"#),
    ] {
        let plan = Plan::new(example("gpt2-124m.json", &[&format!("train_only={train_only}")]));
        let ranks = plan.expect("a valid run").forecast();
        let memory = ranks.iter().map(|rank| &rank.memory).max_by_key(|memory| memory.peak).expect("a rank");
        let cells = row(&models, first);
        for (cell, bytes) in
            cells.iter().zip([memory.gradients + memory.optimizer, memory.activations, memory.peak])
        {
            let bytes = bytes as f64;
            let found = [format!("{:.1} MiB", bytes / MIB), format!("{:.2} GiB", bytes / GIB)];
            assert!(found.contains(cell), "{first}: the page has {cell}, the plan {found:?}");
        }
    }
}

/// The table of docs/zero.md on the two ranks that have a table.
#[test]
fn the_page_on_zero_says_what_slices_of_a_vocabulary_save() {
    let zero = page("docs/zero.md");
    let model = [
        "model.num_layers=32",
        "model.hidden_size=4096",
        "model.num_attention_heads=32",
        "model.seq_length=2048",
        "model.vocab_size=128256",
        "model.tie_embeddings=false",
        "bf16.enabled=true",
        "parallel.pipeline=8",
        "parallel.data=8",
        "train_micro_batch_size_per_gpu=1",
    ];
    let zero_1 = ["zero_optimization.stage=1", "activation_checkpointing.head_logits=keep"];
    let two_resident = ["zero_optimization.prefetch_units=1", "zero_optimization.resident_units=2"];
    for (first, level, slices) in [
        ("ZeRO-1, tables whole (its `\"auto\"`), logits kept", zero_1, "auto"),
        ("ZeRO-1, 3 slices, logits kept", zero_1, "3"),
        ("ZeRO-3, tables whole", two_resident, "1"),
        ("ZeRO-3, 3 slices", two_resident, "auto"),
    ] {
        let slices = format!("zero_optimization.vocabulary_slices={slices}");
        let plan = Plan::new(example("gpt2-124m.json", &[&model[..], &level, &[&slices]].concat()));
        let peaks = peaks(&plan.expect("a valid run"));
        let found = [peaks[0], peaks[7]].map(|bytes| format!("{:.2} GiB", bytes / GIB));
        let cells: Vec<String> = row(&zero, first).iter().map(|cell| cell.replace("**", "")).collect();
        assert_eq!(cells, found, "{first}");
    }
}
