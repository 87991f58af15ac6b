//! What is valid JSON of another form than a costs file's.

use expect_test::expect;

use super::{FILE, refuses};
use crate::plan::costs::CostsFile;

#[test]
fn an_object_is_no_list_of_its_values() {
    let host = "{\n    \"name\": \"a machine\",\n    \"cores\": 2,\n    \"ranks\": 2\n  }";
    refuses(
        host,
        "[\"a machine\", 2, 2]",
        expect![
            "costs.json:3:11: `host` is a list, but must be an object; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"gradient_norm\": {\n        \"elements\": 24992,\n        \"ns\": 30000\n      }",
        "\"gradient_norm\": [24992, 30000]",
        expect![
            "costs.json:34:24: `units[0].gradient_norm` is a list, but must be an object; mend it, or measure again with `pipezero profile`"
        ],
    );
    // Brackets within brackets are not told for their own contents.
    for (value, is) in [("[[1]]", "a list"), ("{\"a\": {}}", "an object")] {
        let text = FILE.replacen("\"step_overhead_ns\": 40000", &format!("\"step_overhead_ns\": {value}"), 1);
        let error = CostsFile::parse("costs.json", &text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("costs.json:24:23: `step_overhead_ns` is {is}, but must be a time")),
            "{error}"
        );
    }
    let size = &FILE[FILE.rfind("{\n          \"bytes\"").unwrap()..FILE.rfind("\n      ]").unwrap()];
    refuses(
        size,
        "[192, 0, 0, 15000, 0]",
        expect![
            "costs.json:88:9: `messages[1].sizes[0]` is a list, but must be an object; mend it, or measure again with `pipezero profile`"
        ],
    );
    let error = CostsFile::parse("costs.json", "[1]").unwrap_err();
    expect!["costs.json:1:1: the file is a list, but must be a costs file, which is one object; mend it, or measure again with `pipezero profile`"].assert_eq(&error.to_string());
}

/// One of several kinds has its kind for its key, or for its name.
#[test]
fn kinds_are_named() {
    let model = &FILE[FILE.find("{\n      \"gpt2\"").unwrap()..FILE.find(",\n    \"seq_length\"").unwrap()];
    refuses(
        model,
        "{}",
        expect![
            "costs.json:9:14: `workload.model` has no key, and it has one of `gpt2`, `mlp`, `timed`; add one; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        model,
        "\"gpt2\"",
        expect![[
            r#"costs.json:9:14: `workload.model` is "gpt2", but must be an object with this as its one key; mend it, or measure again with `pipezero profile`"#
        ]],
    );
    refuses(
        model,
        &model.replace("\"gpt2\"", "\"gpt3\""),
        expect![[
            r#"costs.json:10:7: `workload.model.gpt3` is "gpt3", and known are `gpt2`, `mlp`, `timed`; write one of these; mend it, or measure again with `pipezero profile`"#
        ]],
    );
    let second = format!("{}, \"mlp\": 1}}", model[..model.len() - 1].trim_end());
    refuses(
        model,
        &second,
        expect![
            "costs.json:15:10: `workload.model.mlp` is a second key, and there is one of `gpt2`, `mlp`, `timed`; keep one of the two; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"gradient_norm\",",
        "{\"gradient_norm\": null},",
        expect![[
            r#"costs.json:85:16: `messages[1].kind.gradient_norm` is a key, but the name alone is meant: write "gradient_norm" in place of the object; mend it, or measure again with `pipezero profile`"#
        ]],
    );
}
