//! The comparison against runs that are planned by themselves.

use pipezero_config::testing::{RESOURCES, file};
use pipezero_config::{NoticeKind, RunFile};

use crate::{BesideZero1, Plan};

/// Models whose ends, activations or blocks weigh most.
const MODELS: [&str; 4] = [
    r#"{"family": "mlp", "num_layers": 8, "hidden_size": 100, "seq_length": 16}"#,
    r#"{"family": "mlp", "num_layers": 48, "hidden_size": 8, "seq_length": 2}"#,
    r#"{"family": "gpt2", "num_layers": 8, "hidden_size": 32, "num_attention_heads": 2, "seq_length": 16, "vocab_size": 2000}"#,
    r#"{"family": "gpt2", "num_layers": 12, "hidden_size": 32, "num_attention_heads": 2, "seq_length": 4, "tie_embeddings": true}"#,
];

fn planned(model: &str, grid: [usize; 2], zero: &str, is_half: bool) -> Plan {
    let [pipeline, data] = grid;
    let parallel = format!(r#"{{"pipeline": {pipeline}, "data": {data}, "partition": "uniform"}}"#);
    let bf16 = format!(r#"{{"enabled": {is_half}}}"#);
    let keys = [
        ("model", model),
        ("parallel", &parallel),
        ("zero_optimization", zero),
        ("bf16", &bf16),
        ("train_batch_size", "64"),
        ("gradient_accumulation_steps", "4"),
    ];
    let file = RunFile::parse("run.json", &file(&keys)).expect("JSON");
    let (run, _) = file.resolve(RESOURCES).expect("a valid run");
    Plan::even_if_refused(run).expect("a plan")
}

/// Peak and bytes sent of each pipeline rank.
fn figures(plan: &Plan) -> Vec<(u64, u64)> {
    let first_data_ranks = plan.forecast().into_iter().filter(|rank| rank.data_rank == 0);
    let sent = |of: crate::Traffic| {
        of.all_gather.bytes + of.reduce_scatter.bytes + of.all_reduce.bytes + of.send.bytes
    };
    first_data_ranks.map(|rank| (rank.memory.peak, sent(rank.traffic))).collect()
}

fn does_not_pay(plan: &Plan) -> Option<String> {
    let diagnostics = plan.diagnostics().into_iter();
    let mut found = diagnostics.filter(|diagnostic| diagnostic.text.contains("ZeRO-3 does not pay"));
    let diagnostic = found.next()?;
    assert!(found.next().is_none() && diagnostic.kind == NoticeKind::Warning);
    Some(diagnostic.text)
}

#[test]
fn figures_and_warning_are_those_of_runs_planned_by_themselves() {
    let (mut num_warned, mut num_remedies, mut num_sound) = (0, 0, 0);
    for (model, grid) in
        MODELS.into_iter().flat_map(|of| [[1, 2], [2, 2], [4, 2], [2, 8]].map(|grid| (of, grid)))
    {
        for (unit_layers, prefetch, is_half) in [("0.5", 1), ("1", 0), ("1", 1), ("2", 1)]
            .into_iter()
            .flat_map(|(u, k)| [(u, k, false), (u, k, true)])
        {
            let zero = |unit_layers: &str, prefetch: usize| {
                let resident = 1 + prefetch;
                format!(
                    r#"{{"stage": 3, "unit_layers": {unit_layers}, "prefetch_units": {prefetch}, "resident_units": {resident}, "sharding": "listed"}}"#
                )
            };
            if unit_layers == "0.5" && model.contains("mlp") {
                continue;
            }
            let plan = planned(model, grid, &zero(unit_layers, prefetch), is_half);
            if plan.lone_unit().is_some() {
                continue;
            }
            // The same cut of the vocabulary's tables, and logits alike.
            let options = plan.run().model.gpt().expect("it reads tokens").vocabulary;
            let zero_1 = format!(
                r#"{{"stage": 1, "unit_layers": {unit_layers}, "vocabulary_slices": {}}}"#,
                options.num_slices
            );
            let zero_1 = planned(model, grid, &zero_1, is_half);
            let expected: Vec<_> = figures(&plan).into_iter().zip(figures(&zero_1)).collect();
            let ranks = plan.beside_zero_1();
            let found = ranks
                .iter()
                .map(|of| ((of.peak_bytes, of.sent_bytes), (of.zero_1_peak_bytes, of.zero_1_sent_bytes)));
            assert_eq!(found.collect::<Vec<_>>(), expected);
            let pays =
                expected.iter().all(|&((peak, _), (of_zero_1, _))| peak as f64 <= 0.95 * of_zero_1 as f64);
            let warning = does_not_pay(&plan);
            assert_eq!(warning.is_none(), pays, "{model} on {grid:?}: {warning:?}");
            let Some(text) = warning else {
                num_sound += 1;
                continue;
            };
            num_warned += 1;
            let Some(remedy) = plan.remedy_beside_zero_1() else {
                assert!(!text.contains("with which every rank"), "{text}");
                continue;
            };
            assert!(text.contains(&format!("; or {}, with which every rank", remedy.description)), "{text}");
            let unit_layers = match remedy.description.as_str() {
                of if of.starts_with("\"unit_layers\": 0.5") => "0.5",
                of if of.starts_with("\"unit_layers\": 1") => "1",
                _ => unit_layers,
            };
            let prefetch = if remedy.description.ends_with("\"prefetch_units\": 0") { 0 } else { prefetch };
            let mut keys = zero(unit_layers, prefetch);
            if remedy.description == r#""sharding": "auto""# {
                keys = keys.replace("listed", "auto");
            }
            let mended = planned(model, grid, &keys, is_half);
            assert_eq!(does_not_pay(&mended), None);
            assert_eq!(figures(&mended).iter().map(|&(_, sent)| sent).max(), Some(remedy.sent_bytes));
            num_remedies += 1;
        }
    }
    assert!(
        num_warned > 20 && num_remedies > 5 && num_sound > 20,
        "{num_warned}, {num_remedies}, {num_sound}"
    );
}

/// What a run keeps beyond what it needs is room that it was given; below ZeRO-3 there is nothing to compare.
#[test]
fn residency_does_not_count() {
    let of = |zero: &str| planned(MODELS[0], [2, 4], zero, false).beside_zero_1().to_vec();
    let least: Vec<BesideZero1> = of(r#"{"stage": 3}"#);
    assert_eq!(least.len(), 2);
    for residency in ["2", "3", "[2, 4]", "\"all\""] {
        assert_eq!(of(&format!(r#"{{"stage": 3, "resident_units": {residency}}}"#)), least);
    }
    // Resharded after every use, they are no more and gathered more often.
    let strict = planned(MODELS[0], [2, 4], r#"{"stage": 3, "resident_units": "strict"}"#, false);
    let of_strict = strict.beside_zero_1();
    assert_eq!(
        of_strict.iter().map(|rank| (rank.peak_bytes, rank.sent_bytes)).collect::<Vec<_>>(),
        figures(&strict)
    );
    assert!(of_strict.iter().zip(&least).all(|(strict, least)| strict.sent_bytes > least.sent_bytes));
    assert!(of(r#"{"stage": 1}"#).is_empty());
    assert!(planned(MODELS[0], [2, 1], r#"{"stage": 3}"#, false).beside_zero_1().is_empty());
}
