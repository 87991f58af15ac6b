//! What is valid JSON of another form than a costs file's.

use expect_test::expect;

use super::{FILE, refuses};

/// One of several kinds has its kind for its key, or for its name.
#[test]
fn an_object_is_no_list_of_its_values_and_kinds_are_named() {
    let size = &FILE[FILE.rfind("{\n          \"bytes\"").unwrap()..FILE.rfind("\n      ]").unwrap()];
    let model = &FILE[FILE.find("{\n      \"gpt2\"").unwrap()..FILE.find(",\n    \"seq_length\"").unwrap()];
    refuses(
        &[
            (
                "{\n    \"name\": \"a machine\",\n    \"cores\": 2,\n    \"ranks\": 2\n  }",
                r#"["a machine", 2, 2]"#,
            ),
            (
                "\"gradient_norm\": {\n        \"elements\": 24992,\n        \"ns\": 30000\n      }",
                r#""gradient_norm": [24992, 30000]"#,
            ),
            (size, "[192, 0, 0, 15000, 0]"),
            (model, "{}"),
            (model, r#""gpt2""#),
            (model, &model.replace("\"gpt2\"", "\"gpt3\"")),
            (model, &format!("{}, \"mlp\": 1}}", model[..model.len() - 1].trim_end())),
            (r#""gradient_norm","#, r#"{"gradient_norm": null},"#),
        ],
        expect![[r#"
            3:11: `host` must be an object, but is a list
            36:24: `units[0].gradient_norm` must be an object, but is a list
            90:9: `messages[1].sizes[0]` must be an object, but is a list
            9:14: `workload.model` is an object, but has no key: it needs one of `gpt2`, `llama`, `mlp` or `timed`
            9:14: `workload.model` must be an object with this as its one key, but is the string "gpt2"
            10:7: `workload.model.gpt3` is an unknown key; did you mean `gpt2`?
            15:10: `workload.model.mlp` is a second key, and only one belongs here; keep one of the two
            87:33: `messages[1].kind.gradient_norm` is null, but the name alone belongs here; write it in place of the object
        "#]],
    );
}
