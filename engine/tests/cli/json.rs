//! Training data in JSON, and conversations: read by `tokenize` and `data.text` alike, or refused.

use expect_test::expect;
use pipezero::tokens::{TokenFile, TokenType};

use crate::command::Home;
use crate::tokens;

/// ChatML, as short as it can be.
const TEMPLATE: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// As in [`tokens::home`], with conversations in the forms of other data sets.
fn home() -> Home {
    let home = tokens::home();
    home.write("chat_template.jinja", TEMPLATE);
    let chat = |number: usize| {
        let message = |role: &str, content: String| serde_json::json!({ "role": role, "content": content });
        let messages = [
            message("user", format!("the cat {number}?")),
            message("assistant", format!("sat on a mat {number}.")),
        ];
        serde_json::json!({ "messages": messages })
    };
    let chats: Vec<_> = (0..60).map(chat).collect();
    home.write("chats.jsonl", chats.iter().map(|chat| format!("{chat}\n")).collect::<String>());
    let asked = |number: usize| {
        let (instruction, output) = (format!("the cat {number}?"), format!("sat on a mat {number}."));
        serde_json::json!({ "instruction": instruction, "input": "", "output": output })
    };
    let alpaca: Vec<_> = (0..60).map(asked).collect();
    home.write("alpaca.json", serde_json::to_string_pretty(&alpaca).unwrap());
    home
}

/// One object a line in a `.json`, as Megatron has them, a list, and `.jsonl`: the same tokens.
#[test]
fn tokens_are_those_of_the_texts_in_json() {
    let home = home();
    let lines = home.read("documents.jsonl");
    home.write("lines.json", &lines);
    let objects: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    home.write("list.json", serde_json::to_string_pretty(&objects).unwrap());
    let made = ["documents.jsonl", "lines.json", "list.json"].map(|name| {
        home.run(format!("tokenize {name} --tokenizer tokenizer.json --out {name}")).success();
        std::fs::read(home.path(&format!("{name}.bin"))).unwrap()
    });
    assert!(made[0] == made[1] && made[0] == made[2] && !made[0].is_empty());
    // So is what a run reads: the loss of its first step is of the same bits.
    let losses = ["documents.jsonl", "lines.json", "list.json"].map(|name| {
        let out = format!("out-{name}");
        home.run(format!("train run.json --set data.tokens=null --set data.text={name} --out {out}"))
            .success();
        let first = home.read(&format!("{out}/metrics.jsonl"));
        serde_json::from_str::<serde_json::Value>(first.lines().next().unwrap()).unwrap()["loss"].to_string()
    });
    assert!(losses[0] == losses[1] && losses[0] == losses[2], "{losses:?}");
}

/// The same conversations in two forms: the same tokens, and what the assistant says alone carries loss.
#[test]
fn conversations_are_written_by_the_chat_template() {
    let home = home();
    for name in ["chats.jsonl", "alpaca.json"] {
        let printed = home.run(format!("tokenize {name} --tokenizer tokenizer.json --out {name}"));
        assert!(
            printed.stderr.contains(
                "the chat template `chat_template.jinja` wrote the conversations; a run on them attends within documents, unless its \
                 `data.document_attention` is false"
            ),
            "{}",
            printed.stderr
        );
        assert!(printed.success().contains(" in 60 documents (60 of them conversations), "));
    }
    let read = |name: &str| std::fs::read(home.path(name)).unwrap();
    assert!(
        read("chats.jsonl.bin") == read("alpaca.json.bin")
            && read("chats.jsonl.idx") == read("alpaca.json.idx")
    );
    let file = TokenFile::open(&home.path("chats.jsonl.bin"), TokenType::U16).unwrap();
    assert_eq!((file.document_ends().len(), file.unscored().len()), (60, 60));
    // Attention is within documents by default, of the text and of its tokens; what is written counts.
    let hint =
        |path: &str| format!("hint: `data.document_attention`: true, since `~/{path}` holds conversations");
    for (data, path) in [
        ("--set data.tokens=null --set data.text=chats.jsonl", "chats.jsonl"),
        ("--set data.tokens=null --set data.text=[\"text.txt\",\"alpaca.json\"]", "alpaca.json"),
        ("--set data.tokens=chats.jsonl.bin", "chats.jsonl.bin"),
    ] {
        let said = home.run(format!("check run.json {data}"));
        assert!(said.stderr.contains(&hint(path)), "{}", said.stderr);
        said.success();
        for written in ["true", "false"] {
            let said = home.run(format!("check run.json {data} --set data.document_attention={written}"));
            assert!(!said.stderr.contains("holds conversations"), "{}", said.stderr);
            said.success();
        }
    }
    home.run("tokenize documents.jsonl --tokenizer tokenizer.json --out data").success();
    for data in ["--set steps=3", "--set data.tokens=null --set data.text=documents.jsonl"] {
        assert!(!home.run(format!("check run.json {data}")).stderr.contains("holds conversations"));
    }
    // Trained on either way, to the same bits, and the run directory keeps what the default was.
    let runs = [
        ("tokens", "--set data.tokens=chats.jsonl.bin"),
        ("text", "--set data.tokens=null --set data.text=chats.jsonl"),
        ("across", "--set data.tokens=chats.jsonl.bin --set data.document_attention=false"),
    ];
    // A sequence holds more than a conversation.
    let losses = runs.map(|(out, data)| {
        home.run(format!("train run.json {data} --set model.seq_length=96 --out {out}")).success();
        let run: serde_json::Value = serde_json::from_str(&home.read(&format!("{out}/run.json"))).unwrap();
        assert_eq!(run["data"]["document_attention"], out != "across");
        let metrics = home.read(&format!("{out}/metrics.jsonl"));
        let lines = metrics.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.map(|line| line["loss"].to_string()).collect::<Vec<_>>()
    });
    assert!(losses[0] == losses[1] && losses[0] != losses[2], "{losses:?}");
}

#[test]
fn json_that_holds_no_documents_is_refused() {
    let home = home();
    home.write("package.json", "{\n  \"name\": \"left-pad\",\n  \"version\": \"1.0.0\"\n}\n");
    home.write("cut.json", "[{\"text\": \"a\"},\n {\"text\"");
    home.write("inside.json", "{\"data\": [{\"text\": \"a\"}]}");
    home.write("late.json", "{\"text\": \"a\"}\n{\"text\": 5}\n");
    std::fs::create_dir(home.path("bare")).unwrap();
    std::fs::copy(home.path("tokenizer.json"), home.path("bare/tokenizer.json")).unwrap();
    home.refuses(
        "",
        expect![[r#"
            $ check run.json --set data.tokens=null --set data.text=package.json
            [2] error: not a valid run, 1 mistake:
              x `data.text`: ~/package.json:1: it has neither "text", nor "messages", nor "prompt" and "completion", nor "instruction" and "output", nor "tokens", but "name", "version"; name the field of the text with --text-field of `pipezero tokenize`, or leave the file out
               ,-[--set:1:11]
             1 | data.text=package.json
               :           ^^^^^^^^^^^^
               `----
            $ tokenize package.json --tokenizer tokenizer.json --out x
            [2] error: package.json:1: it has neither "text", nor "messages", nor "prompt" and "completion", nor "instruction" and "output", nor "tokens", but "name", "version"; name the field of the text with --text-field of `pipezero tokenize`, or leave the file out
            $ check run.json --set data.tokens=null --set data.text=inside.json
            [2] error: not a valid run, 1 mistake:
              x `data.text`: ~/inside.json:1: it is one object, and a list of objects is inside of it, in "data"; write that list to a file of its own, for example with `jq -c '.["data"][]' FILE > NEW.jsonl`
               ,-[--set:1:11]
             1 | data.text=inside.json
               :           ^^^^^^^^^^^
               `----
            $ tokenize cut.json --tokenizer tokenizer.json --out x
            [2] error: cut.json:2: column 7: EOF while parsing an object; the value that begins here must be a JSON object
            $ train run.json --set data.tokens=null --set data.text=late.json --out out
            [2] error: `data.text`: ~/late.json:2: "text" is a number, and must be a string
            $ check run.json --set data.tokens=null --set data.text=chats.jsonl --set data.tokenizer=bare
            [2] error: not a valid run, 1 mistake:
              x `data.text`: ~/chats.jsonl:1: it is a conversation, and the tokenizer `~/bare/tokenizer.json` has no chat template; put the model's chat_template.jinja beside it, or its tokenizer_config.json with a `chat_template`
               ,-[--set:1:11]
             1 | data.text=chats.jsonl
               :           ^^^^^^^^^^^
               `----
            $ check run.json --set data.tokens=null --set data.text=chats.jsonl --set data.tokenizer=null
            [2] error: not a valid run, 1 mistake:
              x `data.text`: ~/chats.jsonl:1: it is a conversation, and text is read as bytes, which have no chat template; name a tokenizer that has one as `data.tokenizer`
               ,-[--set:1:11]
             1 | data.text=chats.jsonl
               :           ^^^^^^^^^^^
               `----
            $ tokenize chats.jsonl --tokenizer tokenizer.json --no-chat-template --out x
            [2] error: chats.jsonl:1: it is a conversation, and --no-chat-template leaves out the template that would make a text of it; leave that option out
            $ tokenize alpaca.json --tokenizer bare --out x
            [2] error: alpaca.json:2: it is a conversation, and the tokenizer `bare/tokenizer.json` has no chat template; put the model's chat_template.jinja beside it, or its tokenizer_config.json with a `chat_template`
        "#]],
    );
}
