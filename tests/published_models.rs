//! The sizes of published models: as many parameters as transformers counts, and a plan for each.

use pipezero::Plan;
use pipezero::config::{Launch, RunFile};
use pipezero::hugging_face::PublishedModel;
use serde_json::Value;

/// Names, configurations and counts (`tests/golden/scripts/published_shapes.py`).
fn shapes() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/published_shapes.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the table is there")).expect("it is JSON")
}

#[test]
fn published_models_have_as_many_parameters_as_transformers_counts() {
    let shapes = shapes();
    assert!(shapes.len() >= 20);
    for shape in &shapes {
        let name = shape["name"].as_str().expect("a name");
        let published = PublishedModel::parse(name, &shape["config"].to_string()).expect("it is read");
        assert_eq!(
            published.model.num_parameters(),
            u128::from(shape["num_parameters"].as_u64().expect("a count")),
            "{name}"
        );
        let again = PublishedModel::of(&published.model).expect("transformers has it");
        let read = PublishedModel::parse(name, &again.config_json()).expect("what is written is read");
        assert_eq!(read.model, published.model, "{name}");
    }
}

/// Without weights, on 64 ranks.
#[test]
fn a_published_model_is_planned_from_its_sizes_alone() {
    for shape in shapes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("config.json"), shape["config"].to_string())
            .expect("it is written");
        let text = format!(
            r#"{{"model": {{"from": "{}", "seq_length": 1024}}, "data": {{"text": "never-read.txt"}}, "steps": 1,
                "parallel": {{"pipeline": 2, "data": 32}}, "zero_optimization": {{"stage": 3}},
                "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4}}"#,
            folder.path().display()
        );
        let (run, _) = RunFile::parse("run.json", &text)
            .and_then(|file| file.resolve(Launch::this_host()))
            .expect("a valid file");
        let plan = Plan::even_if_refused(run).expect("it is planned");
        let name = shape["name"].as_str().expect("a name");
        let num_parameters = shape["num_parameters"].as_u64().expect("a count");
        assert_eq!(plan.num_parameters(), num_parameters, "{name}");
        // 6 N for each token and as much again at most for attention, of these sizes; the largest models' are more than a `u64` holds.
        let of_parameters = 6 * u128::from(num_parameters) * (1024 * 32 * 4);
        let flops = plan.step_flops();
        assert!(
            (of_parameters / 2..2 * of_parameters).contains(&flops),
            "{name}: {flops}, and {of_parameters}"
        );
    }
}
