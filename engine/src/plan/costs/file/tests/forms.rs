//! What is valid JSON of another form than a costs file's.

use super::{FILE, refuses};

#[test]
fn an_object_is_no_list_of_its_values() {
    let host = "{\n    \"name\": \"a machine\",\n    \"cores\": 2,\n    \"ranks\": 2\n  }";
    refuses(host, "[\"a machine\", 2, 2]", "3:11: `host` must be an object, but is a list");
    refuses(
        "\"gradient_norm\": {\n        \"elements\": 24992,\n        \"ns\": 30000\n      }",
        "\"gradient_norm\": [24992, 30000]",
        "34:24: `units[0].gradient_norm` must be an object, but is a list",
    );
    let size = &FILE[FILE.rfind("{\n          \"bytes\"").unwrap()..FILE.rfind("\n      ]").unwrap()];
    refuses(size, "[192, 0, 0, 15000, 0]", "88:9: `messages[1].sizes[0]` must be an object, but is a list");
}

/// One of several kinds has its kind for its key, or for its name.
#[test]
fn kinds_are_named() {
    let model = &FILE[FILE.find("{\n      \"gpt2\"").unwrap()..FILE.find(",\n    \"seq_length\"").unwrap()];
    refuses(
        model,
        "{}",
        "9:14: `workload.model` is an object, but has no key: it needs one of `gpt2`, `mlp` or `timed`",
    );
    refuses(
        model,
        "\"gpt2\"",
        "9:14: `workload.model` must be an object with this as its one key, but is the string \"gpt2\"",
    );
    refuses(
        model,
        &model.replace("\"gpt2\"", "\"gpt3\""),
        "10:7: `workload.model.gpt3` is an unknown key; did you mean `gpt2`?",
    );
    let second = format!("{}, \"mlp\": 1}}", model[..model.len() - 1].trim_end());
    refuses(
        model,
        &second,
        "15:10: `workload.model.mlp` is a second key, and only one belongs here; keep one of the two",
    );
    refuses(
        "\"gradient_norm\",",
        "{\"gradient_norm\": null},",
        "85:33: `messages[1].kind.gradient_norm` is null, but the name alone belongs here; write it in place of the object",
    );
}
