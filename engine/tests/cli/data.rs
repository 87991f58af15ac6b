//! Data that does not go with the run: `check` says so as `train` does, at the key, before anything of it is read as a whole.

use expect_test::expect;

use crate::command::Home;
use crate::tokens;

/// As in [`tokens::home`], with the tokens made, and files of other kinds beside them.
fn home() -> Home {
    let home = tokens::home();
    home.run("tokenize documents.jsonl --tokenizer tokenizer.json --out data").success();
    let as_bytes = |token: u32| token.to_le_bytes();
    home.write("wide.bin", (0..200).flat_map(as_bytes).collect::<Vec<u8>>());
    home.write("text.bin", home.read("text.txt"));
    home.write(
        "beyond.bin",
        [1_u16, 2, 319, 320, 5, 6]
            .repeat(20)
            .iter()
            .flat_map(|token| token.to_le_bytes())
            .collect::<Vec<u8>>(),
    );
    let masked = serde_json::json!({ "tokens": vec![1; 90], "mask": vec![0; 90] });
    home.write("masked.jsonl", masked.to_string());
    home.run("tokenize masked.jsonl --tokenizer tokenizer.json --out masked").success();
    home.write("short.bin", [7, 0].repeat(10));
    std::fs::copy(home.path("data.idx"), home.path("index.bin")).unwrap();
    home
}

#[test]
fn check_refuses_what_train_would() {
    let home = home();
    home.refuses(
        "check run.json --set",
        expect![[r#"
            $ model.vocab_size=266
            [2] error: not a valid run with --set model.vocab_size=266, 1 mistake:
              x `data.tokenizer`: the tokenizer has tokens up to 266, but the model knows tokens below vocab_size 266; set `model.vocab_size` to 267 or more, or, where `model.from` says it, use that model's own tokenizer
                ,-[run.json:9:44]
              8 |   },
              9 |   "data": { "tokens": "data", "tokenizer": "tokenizer.json", "validation": 0.2 },
                :                                            ^^^^^^^^^^^^^^^^
             10 |   "evaluation": { "every": 2, "batches": 1 },
                `----
            $ data.end_token=320
            [2] error: not a valid run, 1 mistake:
              x `data.end_token`: token 320 is not below vocab_size 320, so it never comes; write the one that the data has
               ,-[--set:1:16]
             1 | data.end_token=320
               :                ^^^
               `----
            $ data.tokens=["data","data.bin"] --set data.weights=[1,1e-9]
            [2] error: not a valid run, 1 mistake:
              x `data.weights`: weight 0.000000001 of source 2 is less than 1 of 4096 of the sum of all weights, so it would never come; give it more, or leave it out
               ,-[--set:1:14]
             1 | data.weights=[1,1e-9]
               :              ^^^^^^^^
               `----
            $ data.tokens=short.bin
            [2] error: not a valid run, 1 mistake:
              x `data.tokens`: the data has 10 tokens, but a sequence to train on and one to validate on, each of seq_length 16, need 34 with their last targets; name more data, set `data.validation` to 0 or shorten seq_length
               ,-[--set:1:13]
             1 | data.tokens=short.bin
               :             ^^^^^^^^^
               `----
            $ data.tokens=["data","short.bin"] --set data.weights=[1,1]
            [2] error: not a valid run, 1 mistake:
              x `data.tokens`: file 2: the data has 10 tokens, but a sequence to train on and one to validate on, each of seq_length 16, need 34 with their last targets; name more data, set `data.validation` to 0 or shorten seq_length
               ,-[--set:1:13]
             1 | data.tokens=["data","short.bin"]
               :             ^^^^^^^^^^^^^^^^^^^^
               `----
            $ data.validation=null --set data.validation_tokens=short.bin
            [2] error: not a valid run, 1 mistake:
              x `data.validation_tokens`: the data has 10 tokens, but one sequence of seq_length 16 needs 17 with its last target; name more data or shorten seq_length
               ,-[--set:1:24]
             1 | data.validation_tokens=short.bin
               :                        ^^^^^^^^^
               `----
            $ data.tokens=masked
            [2] error: not a valid run, 1 mistake:
              x `data.tokens`: none of its 90 tokens carries loss; write it again with completions, or with a mask that has ones
               ,-[--set:1:13]
             1 | data.tokens=masked
               :             ^^^^^^
               `----
            $ data.tokens=wide.bin
            [2] error: not a valid run, 1 mistake:
              x `data.tokens`: `~/wide.bin`: it is read as u16, and begins as tokens do that are stored as u32; write "token_type": "u32" in `data`
               ,-[--set:1:13]
             1 | data.tokens=wide.bin
               :             ^^^^^^^^
               `----
            $ data.tokens=text.bin
            [2] error: not a valid run, 1 mistake:
              x `data.tokens`: `~/text.bin`: it holds no tokens: it is text; name it as `data.text`, or make tokens of it with `pipezero tokenize`
               ,-[--set:1:13]
             1 | data.tokens=text.bin
               :             ^^^^^^^^
               `----
            $ data.tokens=beyond.bin
            [2] error: not a valid run, 1 mistake:
              x `data.tokens`: `~/beyond.bin`: token 320 at token 3 (byte 6) is beyond vocab_size 320; the file is of another tokenizer or of another `data.token_type` or byte order, or the model needs a larger `vocab_size`
               ,-[--set:1:13]
             1 | data.tokens=beyond.bin
               :             ^^^^^^^^^^
               `----
            $ data.tokens=index.bin
            [2] error: not a valid run, 1 mistake:
              x `data.tokens`: `~/index.bin`: it holds no tokens: it is an index of Megatron's, which belongs beside its .bin under the name .idx
               ,-[--set:1:13]
             1 | data.tokens=index.bin
               :             ^^^^^^^^^
               `----
            $ data.tokens=*.bin
            [2] error: not a valid run, 1 mistake:
              x `data.tokens` is "*.bin", but `~/*.bin`: there is no such file; patterns are not expanded in lists of files of tokens: name each `.bin` or prefix
               ,-[--set:1:13]
             1 | data.tokens=*.bin
               :             ^^^^^
               `----
              help: relative paths start at the run file's folder
            $ data.tokens=[]
            [2] error: not a valid run, 1 mistake:
              x `data.tokens` is empty, but it must name at least one file of tokens, and none may be empty
               ,-[--set:1:13]
             1 | data.tokens=[]
               :             ^^
               `----
              help: add one
            $ data.tokens=beyond.bin --set data.tokenizer=null --set data.document_attention=true --set model.vocab_size=400
            [2] error: not a valid run, 1 mistake:
              x `data.document_attention`: `~/beyond.bin` has no index, and nothing says where its documents end, which `data.document_attention` needs; name the token that ends them as `data.end_token`
               ,-[--set:1:25]
             1 | data.document_attention=true
               :                         ^^^^
               `----
            $ data.text=text.txt --set data.tokens=null --set data.weights=[1]
            [2] error: not a valid run, 1 mistake:
              x `data.weights` is a list of 1, but weights are of the files of `data.tokens`, and this run has none: a text is read as a whole
               ,-[--set:1:14]
             1 | data.weights=[1]
               :              ^^^
               `----
              help: remove it, or make files of tokens with `pipezero tokenize`
            $ data.text=text.txt --set data.tokens=null --set model.seq_length=50000 --set data.tokenizer=null
            [2] error: not a valid run, 1 mistake:
              x `data.text`: the data has 42857 tokens, but a sequence to train on and one to validate on, each of seq_length 50000, need 100002 with their last targets; name more data, set `data.validation` to 0 or shorten seq_length
               ,-[--set:1:11]
             1 | data.text=text.txt
               :           ^^^^^^^^
               `----
        "#]],
    );
    let said = "token 320 at token 3 (byte 6) is beyond vocab_size 320";
    for command in ["check run.json", "train run.json --out out"] {
        let error = home.run(format!("{command} --set data.tokens=beyond.bin")).failure(2);
        assert!(error.contains(said) && error.contains("1 | data.tokens=beyond.bin"), "{error}");
    }
    assert!(!home.path("out").exists());
    home.run("check run.json --set data.tokens=wide.bin --set data.token_type=u32").success();
}

/// What has no effect, or not the one that was meant, is said.
#[test]
fn keys_without_effect_and_json_read_as_text_are_named() {
    let home = home();
    let said = |line: &str| home.run(line).stderr;
    let hint = "each file of tokens says itself how it stores them";
    assert!(said("check run.json --set data.token_type=u32").contains(hint));
    let mixed = "check run.json --set data.token_type=u32 --set data.tokens=[\"data\",\"wide.bin\"]";
    assert!(!said(mixed).contains(hint));
    // A name says what a file is.
    home.write("documents.txt", home.read("documents.jsonl"));
    let as_text = "documents.txt` begins as JSON does and is read as text, names of fields and all";
    assert!(said("check run.json --set data.tokens=null --set data.text=documents.txt").contains(as_text));
    assert!(
        !said("check run.json --set data.tokens=null --set data.text=documents.jsonl").contains("as text")
    );
    home.run("train run.json --out out").success();
    let scored = home.run("eval out --data documents.txt --batches 1");
    assert!(scored.stderr.contains(as_text));
    scored.success();
    let made = home.run("tokenize documents.txt --tokenizer tokenizer.json --out as-text");
    assert!(made.stderr.contains(as_text));
    made.success();
    home.refuses(
        "eval out --data",
        expect![[r#"
            $ data text.txt
            [2] error: `data` is a file of tokens, and `text.txt` is text; name one kind, and the other in a second call
            $ text.txt wide.bin
            [2] error: `wide.bin` is a file of tokens, and `text.txt` is text; name one kind, and the other in a second call
        "#]],
    );
}
