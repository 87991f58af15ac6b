//! Costs files of valid JSON that break a rule.

use expect_test::expect;

use crate::costs::file::tests::{FILE, refusal, refuses};
use crate::costs::{CostsFile, RankSlowness};

#[test]
fn missing_and_repeated_entries_are_refused() {
    refuses(
        &[
            (r#""version": 1"#, r#""version": 2"#),
            (r#""backward_ns": 1900000,"#, r#""backward_input_ns": 1900000,"#),
            ("\"h.*.attn\",\n        \"h.*.mlp\"\n", ""),
            (
                "\"kind\": \"gradient_norm\",\n      \"ranks\": 4",
                "\"kind\": \"gather_after_step\",\n      \"ranks\": 2",
            ),
            (r#""bytes": 199936"#, r#""bytes": 66048"#),
            (r#""ranks": 4"#, r#""ranks": 0"#),
            (
                "\"ln_f\",\n        \"lm_head\"\n      ],\n      \"parameters\": 16512",
                "\"h.*.attn\", \"h.*.mlp\"\n      ],\n      \"parameters\": 49984",
            ),
            // Halves are measured together.
            (r#""backward_input_ns": 200000,"#, ""),
            (r#""backward_weight_ns": 150000,"#, r#""backward_ns": 350000,"#),
        ],
        expect![[r#"
            2:14: `version` is 2, and this pipezero reads 1: measure again with `pipezero profile`
            28:5: the unit of h.*.attn, h.*.mlp has one of `backward_input_ns` and `backward_weight_ns`: halves are measured together; give both, or `backward_ns` alone
            29:17: `units[0].layers` is empty: a unit has at least one layer; remove the unit, or name its layers
            86:5: `gather_after_step` between 2 ranks stands twice: keep one of the two
            78:20: `messages[0].sizes[1].bytes` is 66048, behind 66048: sizes ascend, and none is there twice; sort them
            88:16: `messages[1].ranks` is 0, but there is at least 1: write how many there were, or measure again
            45:5: the unit of h.*.attn, h.*.mlp stands twice: keep one of the two
            45:5: the unit of ln_f, lm_head has one of `backward_input_ns` and `backward_weight_ns`: halves are measured together; give both, or `backward_ns` alone
            45:5: the unit of ln_f, lm_head has one of `backward_input_ns` and `backward_weight_ns`: halves are measured together; give both, or `backward_ns` alone
        "#]],
    );
    let empty = FILE[..FILE.find("\"units\"").unwrap()].to_owned() + "\"units\": [], \"messages\": []}";
    expect!["27:12: `units` is empty: a model has at least one unit; measure again with `pipezero profile`"]
        .assert_eq(&refusal(&empty));
}

#[test]
fn counts_are_at_least_1() {
    let sizes = &FILE[FILE.rfind("{\n          \"bytes\"").unwrap()..FILE.rfind("\n      ]").unwrap()];
    refuses(
        &[
            (r#""cores": 2"#, r#""cores": 0"#),
            ("\"ranks\": 2\n  }", "\"ranks\": 0\n  }"),
            (r#""bytes": 66048"#, r#""bytes": 0"#),
            (r#""elements": 24992"#, r#""elements": 0"#),
            (r#""elements": 8256"#, r#""elements": 0"#),
            (sizes, ""),
        ],
        expect![[r#"
            5:14: `host.cores` is 0, but there is at least 1: write how many there were, or measure again
            6:14: `host.ranks` is 0, but there is at least 1: write how many there were, or measure again
            71:20: `messages[0].sizes[0].bytes` is 0, but there is at least 1: write how many there were, or measure again
            37:21: `units[0].gradient_norm.elements` is 0, but its `ns` is 30000: time is in proportion to elements; write how many there were, or 0 for both
            60:21: `units[1].optimizer_step.elements` is 0, but its `ns` is 20000: time is in proportion to elements; write how many there were, or 0 for both
            89:16: `messages[1].sizes` is empty: a message was measured at one size at least; add one, or remove the message
        "#]],
    );
}

/// What goes from stage to stage has two ends, a tied weight two uses; between how many ranks the others are, the run decides.
#[test]
fn messages_have_as_many_ranks_as_they_can() {
    let kind = "\"kind\": \"gradient_norm\",\n      \"ranks\": 4";
    let of = |kind: &str, ranks: u64| format!("\"kind\": \"{kind}\",\n      \"ranks\": {ranks}");
    let accepts = |name, ranks| {
        CostsFile::parse("costs.json", &FILE.replacen(kind, &of(name, ranks), 1)).unwrap();
    };
    for name in ["unshard", "reduce", "reduce_last", "all_reduce", "gather_after_step", "gradient_norm"] {
        [1, 3, u64::MAX].into_iter().for_each(|ranks| accepts(name, ranks));
    }
    for (name, ranks) in [("activation", 2), ("gradient", 2), ("add_tied", 1), ("add_tied", 2)] {
        accepts(name, ranks);
    }
    refuses(
        &[(kind, &of("activation", 1)), (kind, &of("gradient", 3)), (kind, &of("add_tied", 3))],
        expect![[r#"
            88:16: `messages[1].ranks` is 1, but `activation` goes from one rank to another: write 2, or measure again
            88:16: `messages[1].ranks` is 3, but `gradient` goes from one rank to another: write 2, or measure again
            88:16: `messages[1].ranks` is 3, but `add_tied` is between the ranks of a weight's two uses: write 2, or 1 where one rank has both, or measure again
        "#]],
    );
}

#[test]
fn names_that_cannot_be_are_refused() {
    refuses(
        &[
            (r#""ln_f""#, r#""""#),
            (r#""h.*.attn""#, r#""h.3.attn""#),
            (r#""ln_f""#, r#""ln_f\n""#),
            (r#""a machine""#, r#""\u001b[31mred""#),
            (r#""a machine""#, r#""""#),
        ],
        expect![[r#"
            47:9: `units[1].layers[0]` is "", but a name has at least one character: write one
            30:9: `units[0].layers[0]` is "h.3.attn", but layers are named by kind, with `*` for numbers: write "h.*.attn"
            47:9: `units[1].layers[0]` has the control character U+000A, but names are printed: take it out
            4:13: `host.name` has the control character U+001B, but names are printed: take it out
            4:13: `host.name` is "", but a name has at least one character: write one
        "#]],
    );
}

#[test]
fn slowness_is_of_every_rank_and_within_bounds() {
    let overhead = "\"step_overhead_ns\": 40000";
    let with = |steps: &str| format!("{overhead}, \"rank_slowness_ppm\": {steps}");
    refuses(
        &[
            (overhead, &with("[[1000000, 999]]")),
            (overhead, &with("[[1000000, 1000000001]]")),
            (overhead, &with("[[1000000, 1.5]]")),
            (overhead, &with("[[60000000, 1000000], [1000000, 1000000]]")),
            (overhead, &with("[[40000, 40000]]")),
            (overhead, &with("[[1000000, 1000000], [1000000]]")),
        ],
        expect![[r#"
            26:62: `rank_slowness_ppm[0][1]` must be a whole number of millionths of what the rank takes in the mean, from 1000 to 1000000000, but is 999
            26:62: `rank_slowness_ppm[0][1]` must be a whole number of millionths of what the rank takes in the mean, from 1000 to 1000000000, but is 1000000001
            26:62: `rank_slowness_ppm[0][1]` must be a whole number of millionths of what the rank takes in the mean, from 1000 to 1000000000, but is 1.5
            26:51: `rank_slowness_ppm` is 15750000 in the mean, and what ranks take beside their own mean is about 1000000: remove it, or measure again with `pipezero profile`
            26:51: `rank_slowness_ppm` is 40000 in the mean, and what ranks take beside their own mean is about 1000000: remove it, or measure again with `pipezero profile`
            26:72: `rank_slowness_ppm[1]` has 1 entries, and `host.ranks` is 2: a step has one for each rank; remove the step, or measure again with `pipezero profile`
        "#]],
    );
    let text = FILE.replacen(overhead, &with("[[1000001, 999999]]"), 1);
    let file = CostsFile::parse("costs.json", &text).unwrap();
    let expected = RankSlowness::new([vec![[1_000_001, 1_000_000], [999_999, 1_000_000]]]);
    assert_eq!(file.rank_slowness_ppm, expected);
    assert_eq!(CostsFile::parse("costs.json", &file.to_json()).unwrap(), file);
}
