//! Costs files of valid JSON that cannot be.

use crate::plan::costs::file::tests::{FILE, refuses, refuses_text};
use crate::plan::costs::{CostsFile, RankSlowness};

#[test]
fn what_cannot_be_is_refused() {
    refuses(
        "\"version\": 1",
        "\"version\": 2",
        "2:14: `version` is 2, and this pipezero reads 1: measure again with `pipezero profile`",
    );
    refuses(
        "\"backward_ns\": 1900000,",
        "\"backward_input_ns\": 1900000,",
        "26:5: the unit of h.*.attn, h.*.mlp has one of `backward_input_ns` and `backward_weight_ns`: halves are measured together; give both, or `backward_ns` alone",
    );
    refuses(
        "\"h.*.attn\",\n        \"h.*.mlp\"\n",
        "",
        "27:17: `units[0].layers` is empty: a unit has at least one layer; remove the unit, or name its layers",
    );
    refuses(
        "\"kind\": \"gradient_norm\",\n      \"ranks\": 4",
        "\"kind\": \"gather_after_step\",\n      \"ranks\": 2",
        "84:5: `gather_after_step` between 2 ranks stands twice: keep one of the two",
    );
    refuses(
        "\"bytes\": 199936",
        "\"bytes\": 66048",
        "76:20: `messages[0].sizes[1].bytes` is 66048, behind 66048: sizes ascend, and none is there twice; sort them",
    );
    refuses(
        "\"ranks\": 4",
        "\"ranks\": 0",
        "86:16: `messages[1].ranks` is 0, but there is at least 1: write how many there were, or measure again",
    );
    let (from, to) = (
        "\"ln_f\",\n        \"lm_head\"\n      ],\n      \"parameters\": 16512",
        "\"h.*.attn\", \"h.*.mlp\"\n      ],\n      \"parameters\": 49984",
    );
    refuses(from, to, "43:5: the unit of h.*.attn, h.*.mlp stands twice: keep one of the two");
    let empty = FILE[..FILE.find("\"units\"").unwrap()].to_owned() + "\"units\": [], \"messages\": []}";
    refuses_text(
        &empty,
        "25:12: `units` is empty: a model has at least one unit; measure again with `pipezero profile`",
    );
}

/// Nothing is measured of nothing.
#[test]
fn what_is_counted_is_there() {
    refuses(
        "\"cores\": 2",
        "\"cores\": 0",
        "5:14: `host.cores` is 0, but there is at least 1: write how many there were, or measure again",
    );
    refuses(
        "\"ranks\": 2\n  }",
        "\"ranks\": 0\n  }",
        "6:14: `host.ranks` is 0, but there is at least 1: write how many there were, or measure again",
    );
    refuses(
        "\"bytes\": 66048",
        "\"bytes\": 0",
        "69:20: `messages[0].sizes[0].bytes` is 0, but there is at least 1: write how many there were, or measure again",
    );
    refuses(
        "\"elements\": 24992",
        "\"elements\": 0",
        "35:21: `units[0].gradient_norm.elements` is 0, but its `ns` is 30000: time is in proportion to elements; write how many there were, or 0 for both",
    );
    refuses(
        "\"elements\": 8256",
        "\"elements\": 0",
        "58:21: `units[1].optimizer_step.elements` is 0, but its `ns` is 20000: time is in proportion to elements; write how many there were, or 0 for both",
    );
    let sizes = &FILE[FILE.rfind("{\n          \"bytes\"").unwrap()..FILE.rfind("\n      ]").unwrap()];
    refuses(
        sizes,
        "",
        "87:16: `messages[1].sizes` is empty: a message was measured at one size at least; add one, or remove the message",
    );
}

/// What goes from stage to stage has two ends, a tied weight two uses; between how many ranks the others are, the run decides.
#[test]
fn messages_have_as_many_ranks_as_they_can() {
    let kind = "\"kind\": \"gradient_norm\",\n      \"ranks\": 4";
    let of = |kind: &str, ranks: u64| format!("\"kind\": \"{kind}\",\n      \"ranks\": {ranks}");
    for name in ["unshard", "reduce", "reduce_last", "all_reduce", "gather_after_step", "gradient_norm"] {
        for ranks in [1, 3, u64::MAX] {
            CostsFile::parse("costs.json", &FILE.replacen(kind, &of(name, ranks), 1)).unwrap();
        }
    }
    for (name, ranks) in [("activation", 2), ("gradient", 2), ("add_tied", 1), ("add_tied", 2)] {
        CostsFile::parse("costs.json", &FILE.replacen(kind, &of(name, ranks), 1)).unwrap();
    }
    refuses(
        kind,
        &of("activation", 1),
        "86:16: `messages[1].ranks` is 1, but `activation` goes from one rank to another: write 2, or measure again",
    );
    refuses(
        kind,
        &of("gradient", 3),
        "86:16: `messages[1].ranks` is 3, but `gradient` goes from one rank to another: write 2, or measure again",
    );
    refuses(
        kind,
        &of("add_tied", 3),
        "86:16: `messages[1].ranks` is 3, but `add_tied` is between the ranks of a weight's two uses: write 2, or 1 where one rank has both, or measure again",
    );
}

#[test]
fn halves_are_measured_together() {
    refuses(
        "\"backward_input_ns\": 200000,",
        "",
        "43:5: the unit of ln_f, lm_head has one of `backward_input_ns` and `backward_weight_ns`: halves are measured together; give both, or `backward_ns` alone",
    );
    refuses(
        "\"backward_weight_ns\": 150000,",
        "\"backward_ns\": 350000,",
        "43:5: the unit of ln_f, lm_head has one of `backward_input_ns` and `backward_weight_ns`: halves are measured together; give both, or `backward_ns` alone",
    );
}

#[test]
fn names_are_names() {
    refuses(
        "\"ln_f\"",
        "\"\"",
        r#"45:9: `units[1].layers[0]` is "", but a name has at least one character: write one"#,
    );
    refuses(
        "\"h.*.attn\"",
        "\"h.3.attn\"",
        r#"28:9: `units[0].layers[0]` is "h.3.attn", but layers are told by kind, with `*` for numbers: write "h.*.attn""#,
    );
    refuses(
        "\"ln_f\"",
        "\"ln_f\\n\"",
        "45:9: `units[1].layers[0]` has the control character U+000A, but names are printed: take it out",
    );
    refuses(
        "\"a machine\"",
        "\"\\u001b[31mred\"",
        "4:13: `host.name` has the control character U+001B, but names are printed: take it out",
    );
    refuses(
        "\"a machine\"",
        "\"\"",
        r#"4:13: `host.name` is "", but a name has at least one character: write one"#,
    );
}

#[test]
fn slowness_is_of_every_rank_and_within_bounds() {
    let overhead = "\"step_overhead_ns\": 40000";
    for (steps, expected) in [
        (
            "[[1000000, 999]]",
            "24:62: `rank_slowness_ppm[0][1]` must be a whole number of millionths of what the rank takes in the mean, from 1000 to 1000000000, but is 999",
        ),
        (
            "[[1000000, 1000000001]]",
            "24:62: `rank_slowness_ppm[0][1]` must be a whole number of millionths of what the rank takes in the mean, from 1000 to 1000000000, but is 1000000001",
        ),
        (
            "[[1000000, 1.5]]",
            "24:62: `rank_slowness_ppm[0][1]` must be a whole number of millionths of what the rank takes in the mean, from 1000 to 1000000000, but is 1.5",
        ),
        (
            "[[60000000, 1000000], [1000000, 1000000]]",
            "24:51: `rank_slowness_ppm` is 15750000 in the mean, and what ranks take beside their own mean is about 1000000: remove it, or measure again with `pipezero profile`",
        ),
        (
            "[[40000, 40000]]",
            "24:51: `rank_slowness_ppm` is 40000 in the mean, and what ranks take beside their own mean is about 1000000: remove it, or measure again with `pipezero profile`",
        ),
        (
            "[[1000000, 1000000], [1000000]]",
            "24:72: `rank_slowness_ppm[1]` has 1 entries, and `host.ranks` is 2: a step has one for each rank; remove the step, or measure again with `pipezero profile`",
        ),
    ] {
        refuses(overhead, &format!("{overhead}, \"rank_slowness_ppm\": {steps}"), expected);
    }
    let text =
        FILE.replacen(overhead, &format!("{overhead},\n  \"rank_slowness_ppm\": [[1000001, 999999]]"), 1);
    let file = CostsFile::parse("costs.json", &text).unwrap();
    assert_eq!(
        file.rank_slowness_ppm,
        RankSlowness::new([vec![[1_000_001, 1_000_000], [999_999, 1_000_000]]])
    );
    assert_eq!(CostsFile::parse("costs.json", &file.to_json()).unwrap(), file);
}
