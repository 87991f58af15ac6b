//! Weights, files of tokens, schedules, run files and parts of run directories made to explode.

use serde_json::json;

use crate::command::RUN;
use crate::exploding::{Exploding, FILE, INDEX};

/// Weights of Hugging Face's folders, their indexes, and config.json.
pub(crate) fn weights() -> Vec<Exploding> {
    const CHECK: &str = "train from.json --init hf --out new";
    let header = |text: String| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let many: serde_json::Map<_, _> =
        (0..500_000).map(|number| (format!("tensor{number}"), json!("a.safetensors"))).collect();
    let files: serde_json::Map<_, _> =
        (0..200_000).map(|number| (format!("t{number}"), json!(format!("{number}.safetensors")))).collect();
    let config = |field: &str, value: &str| {
        format!(r#"{{"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 16, "vocab_size": 64, "{field}": {value}}}"#)
            .replacen(&format!(r#""{field}": 2, "#), "", 1)
            .replacen(&format!(r#""{field}": 16, "#), "", 1)
            .replacen(&format!(r#""{field}": 64, "#), "", 1)
    };
    let tensors: String = (0..400_000)
        .map(|number| format!(r#""t{number}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}},"#))
        .collect();
    vec![
        Exploding::sparse("an index of 10 GB", INDEX, CHECK, b"{\"weight_map\": {", 10 << 30),
        Exploding::text("an index of 500,000 tensors of one file", INDEX, CHECK, json!({ "weight_map": many }).to_string()),
        Exploding::text("an index of 200,000 files", INDEX, CHECK, json!({ "weight_map": files }).to_string()),
        Exploding::text("an index of lists in lists", INDEX, CHECK, "[".repeat(1 << 20)),
        Exploding::text("a header of 2^63 bytes", FILE, CHECK, [0, 0, 0, 0, 0, 0, 0, 0x80, b'{', b'}']),
        Exploding::sparse("a header of 99 MB", FILE, CHECK, &99_000_000_u64.to_le_bytes(), 10 << 30),
        Exploding::text("a header of lists in lists", FILE, CHECK, header(format!("{{\"a\":{}", "[".repeat(1 << 20)))),
        Exploding::text("a header of 400,000 tensors", FILE, CHECK, header(format!("{{{}}}", tensors.trim_end_matches(',')))),
        Exploding::text("a tensor of 2^60 numbers", FILE, CHECK, header(r#"{"a":{"dtype":"F32","shape":[1152921504606846976],"data_offsets":[0,4611686018427387904]}}"#.to_owned())),
        Exploding::text("a config.json of 10^9 layers", "hf/config.json", CHECK, config("n_layer", "1000000000")),
        Exploding::text("a config.json of a width of 2^40", "hf/config.json", CHECK, config("n_embd", "1099511627776")),
        Exploding::text("a config.json of lists in lists", "hf/config.json", CHECK, "[".repeat(1 << 19)),
    ]
}

/// Files of tokens, and schedules.
pub(crate) fn orders_and_tokens() -> Vec<Exploding> {
    const INDEX: &str = "data.idx";
    const CHECK: &str = "check words.json";
    const SHOW: &str = "show order.json";
    let index = |sequences: u64, documents: u64| {
        let head = [&b"MMIDIDX\0\0"[..], &1_u64.to_le_bytes(), &[4]].concat();
        [&head[..], &sequences.to_le_bytes(), &documents.to_le_bytes()].concat()
    };
    let row = |num: usize| (0..num).map(|number| format!("0F{number},0B{number},")).collect::<String>();
    vec![
        Exploding::text("a token index of 2^60 documents", INDEX, CHECK, index(1 << 60, 1 << 60)),
        Exploding::sparse(
            "a token index of 10 GB",
            INDEX,
            CHECK,
            &index(600_000_000, 100_000_000),
            34 + 12 * 600_000_000 + 8 * 100_000_000,
        ),
        Exploding::text("an order of 60,000 rows", "order.csv", SHOW, "0F0,0B0\n".repeat(60_000)),
        Exploding::text("an order of a row of 3,000,000 actions", "order.csv", SHOW, row(1_500_000)),
        Exploding::text(
            "an order of 10^18 micro-batches",
            "order.csv",
            SHOW,
            "0F999999999999999999,0B999999999999999999\n1F0,1B0\n",
        ),
        Exploding::text("an order of commas", "order.csv", SHOW, ",".repeat(16 << 20)),
        Exploding::sparse("an order of 10 GB", "order.csv", SHOW, b"0F0,0B0\n", 10 << 30),
    ]
}

/// Run files, and what a run directory has.
pub(crate) fn runs() -> Vec<Exploding> {
    const CHECK: &str = "check bad.json";
    const MANIFEST: &str = "out/checkpoints/step-00000003/manifest.json";
    const INSPECT: &str = "checkpoint inspect out";
    const VERIFY: &str = "checkpoint verify out";
    const SHARD: &str = "out/checkpoints/step-00000003/rank-00000.safetensors";
    const RESUME: &str = "train words.json --out out --resume --set steps=4";
    let run = |from: &str, to: &str| {
        assert!(RUN.contains(from), "{from}");
        RUN.replace(from, to)
    };
    let manifest = |extra: &str| {
        format!(
            r#"{{"version": 1, "program": "0.1.0", "position": {{"step": 3, "update": 3, "num_samples": 24}}, "loss_scale": null, "text_checksum": "00", "start": 1, "grid": [2, 2], "kinds": ["parameter"], "place": 0, {extra}"#
        )
    };
    let parameters: String =
        (0..300_000).map(|number| format!(r#"{{"name": "p{number}", "shape": [1]}},"#)).collect();
    let layers: String = (0..90_000).map(|number| format!("{number},")).collect();
    vec![
        Exploding::text("a run file of lists in lists", "bad.json", CHECK, "[".repeat(16 << 20)),
        Exploding::text(
            "a run file of 16 MiB of numbers",
            "bad.json",
            CHECK,
            format!("{{\"model\": [{}0]}}", "0,".repeat((16 << 19) - 20)),
        ),
        Exploding::text(
            "a run of a width of 2^40",
            "bad.json",
            CHECK,
            run("\"hidden_size\": 16", "\"hidden_size\": 1099511627776"),
        ),
        Exploding::text(
            "a run of 10^18 micro-batches",
            "bad.json",
            CHECK,
            run("\"gradient_accumulation_steps\": 2", "\"gradient_accumulation_steps\": 1000000000000000000"),
        ),
        Exploding::text(
            "a run on 10^9 ranks",
            "bad.json",
            CHECK,
            run("\"pipeline\": 2", "\"pipeline\": 1000000000"),
        ),
        Exploding::text(
            "a run with 90,000 stages",
            "bad.json",
            CHECK,
            run("\"pipeline\": 2", &format!("\"pipeline\": 2, \"stages\": [{layers}1]")),
        ),
        Exploding::text(
            "a finished run that asks for 64 GiB",
            "out/run.json",
            "eval out",
            run("\"hidden_size\": 16", "\"hidden_size\": 131072"),
        ),
        Exploding::text(
            "a manifest of 300,000 parameters",
            MANIFEST,
            INSPECT,
            manifest(&format!(r#""parameters": [{}]}}"#, parameters.trim_end_matches(','))),
        ),
        Exploding::text(
            "a manifest of a grid of 2^40 ranks",
            MANIFEST,
            INSPECT,
            manifest("\"parameters\": []}").replace("[2, 2]", "[1048576, 1048576]"),
        ),
        Exploding::text(
            "a manifest of lists in lists",
            MANIFEST,
            INSPECT,
            manifest(&format!("\"parameters\": {}", "[".repeat(1 << 20))),
        ),
        Exploding::sparse("a manifest of 10 GB", MANIFEST, INSPECT, b"{", 10 << 30),
        Exploding::text("a shard whose header has 2^63 bytes", SHARD, VERIFY, [0, 0, 0, 0, 0, 0, 0, 0x80]),
        Exploding::sparse(
            "a shard whose header has 4 GB",
            SHARD,
            VERIFY,
            &(4_u64 << 30).to_le_bytes(),
            10 << 30,
        ),
        Exploding::sparse("metrics of 7 GB", "out/metrics.jsonl", RESUME, b"{\"step\":1}\n", 7 << 30),
        Exploding::sparse("a list of starts of 10 GB", "out/starts.json", RESUME, b"{", 10 << 30),
        Exploding::sparse("a summary of 10 GB", "out/summary.json", "compare out", b"{", 10 << 30),
        Exploding::sparse(
            "costs of 10 GB",
            "costs.json",
            "simulate words.json --costs costs.json",
            b"{",
            10 << 30,
        ),
        Exploding::text(
            "costs of lists in lists",
            "costs.json",
            "simulate words.json --costs costs.json",
            "[".repeat(1 << 20),
        ),
        Exploding::sparse(
            "weights of 10 GB of zeros",
            "out/weights.safetensors",
            "eval out",
            &99_000_000_u64.to_le_bytes(),
            10 << 30,
        ),
    ]
}
