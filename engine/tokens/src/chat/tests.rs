//! Conversations of every published form against transformers' `apply_chat_template`, token by token, and every way in which one is refused.

use std::fs;
use std::path::{Path, PathBuf};

use pipezero_files::records::Layout;
use serde_json::{Value, json};

use super::*;
use crate::documents::{Document, DocumentFault, DocumentMaker, Fields};
use crate::{TextCodec, Tokenizer};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/chat").join(name)
}

/// A folder with the tokenizer of the golden figures, a template, and a configuration.
fn folder(template: Option<&str>, config: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(golden("tokenizer.json"), folder.path().join(Tokenizer::FILE)).unwrap();
    fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    if let Some(template) = template {
        fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    }
    folder
}

fn maker(folder: &Path, date: i64) -> DocumentMaker {
    let codec = TextCodec::of(Some(Tokenizer::load(folder, None).unwrap()));
    let end_token = codec.end_token();
    DocumentMaker::new(codec, end_token, Fields::default(), Some(Date(date)))
}

fn made(maker: &DocumentMaker, object: &Value) -> Result<Document, DocumentFault> {
    maker.document(&Layout::Lines, &object.to_string())
}

/// Tokens, and a digit for each: whether it is learned.
fn tokens_and_targets(document: Document) -> (Vec<u32>, String) {
    let digit = |has_loss| if has_loss { "1" } else { "0" };
    let targets = document.parts.iter().map(|(tokens, has_loss)| digit(*has_loss).repeat(tokens.len()));
    let targets = targets.collect();
    (document.parts.into_iter().flat_map(|(tokens, _)| tokens).collect(), targets)
}

#[test]
fn conversations_are_those_of_transformers() {
    let golden_file: Value = serde_json::from_slice(&fs::read(golden("golden.json")).unwrap()).unwrap();
    let (mut num_equal, mut num_refused) = (0, 0);
    for case in golden_file["cases"].as_array().unwrap() {
        let name = case["template"].as_str().unwrap();
        let template = fs::read_to_string(golden(&format!("{name}.jinja"))).unwrap();
        let special =
            json!({ "bos_token": case["bos_token"], "eos_token": { "content": case["eos_token"] } });
        let mut config = special.clone();
        config["chat_template"] = json!([{ "name": "default", "template": template }]);
        // Beside the tokenizer, and within its configuration.
        let folders = [folder(Some(&template), &special), folder(None, &config)];
        let makers =
            folders.each_ref().map(|folder| maker(folder.path(), golden_file["seconds"].as_i64().unwrap()));
        let is_for_it = |conversation: &&Value| conversation["only"].as_str().is_none_or(|only| only == name);
        let all = golden_file["conversations"].as_array().unwrap();
        let conversations: Vec<&Value> = all.iter().filter(is_for_it).collect();
        let expected = case["conversations"].as_array().unwrap();
        assert_eq!(conversations.len(), expected.len());
        for (number, (conversation, expected)) in conversations.into_iter().zip(expected).enumerate() {
            for maker in &makers {
                let document = made(maker, conversation);
                let at = format!("conversation {number} by {name}: {document:?} against {expected}");
                if expected["tokens"].is_null() {
                    assert!(matches!(document, Err(DocumentFault::Chat(_))), "{at}");
                    num_refused += 1;
                    continue;
                }
                let (tokens, targets) = tokens_and_targets(document.unwrap_or_else(|_| panic!("{at}")));
                assert_eq!(json!(tokens), expected["tokens"], "{at}");
                assert_eq!(targets, expected["targets"], "{at}");
                num_equal += 1;
            }
        }
    }
    assert_eq!((num_equal, num_refused), (2 * 71, 2 * 7));
}

/// A template that shows what it gets.
const SHOWN: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

/// The forms of other data sets are those messages.
#[test]
fn every_form_of_a_conversation_is_a_list_of_messages() {
    let folder = folder(Some(SHOWN), &json!({}));
    let maker = maker(folder.path(), 0);
    let read = |object: Value| {
        let document = made(&maker, &object).unwrap_or_else(|fault| panic!("{object}: {fault}"));
        assert!(document.is_conversation);
        let (tokens, targets) = tokens_and_targets(document);
        let letter = |token: u32| char::from(u8::try_from(token).expect("a byte"));
        let text: String = tokens.iter().map(|&token| letter(token)).collect();
        let spoken: String = text
            .chars()
            .zip(targets.chars())
            .filter(|(_, target)| *target == '1')
            .map(|(letter, _)| letter)
            .collect();
        (text, spoken)
    };
    let expected = ("<user>a\nb<assistant>c".to_owned(), "c".to_owned());
    let message = |role: &str, content: &str| json!({ "role": role, "content": content });
    let (asked, answered) = (message("user", "a\nb"), message("assistant", "c"));
    for object in [
        json!({ "messages": [asked, answered] }),
        json!({ "messages": [asked, answered], "prompt": "a\nb", "id": 7, "text": null }),
        json!({ "conversations": [{ "from": "human", "value": "a\nb" }, { "from": "gpt", "value": "c" }] }),
        json!({ "conversations": [asked, answered] }),
        json!({ "prompt": "a\nb", "completion": "c" }),
        json!({ "prompt": [asked], "completion": [answered] }),
        json!({ "prompt": "a\nb", "completion": [answered] }),
        json!({ "instruction": "a", "input": "b", "output": "c" }),
        json!({ "instruction": "a\nb", "input": "", "output": "c", "history": null }),
        json!({ "instruction": "a\nb", "output": "c" }),
    ] {
        assert_eq!(read(object.clone()), expected, "{object}");
    }
    assert_eq!(
        read(json!({ "system": "s", "instruction": "a", "output": "c" })),
        ("<system>s<user>a<assistant>c".to_owned(), "c".to_owned())
    );
    // What the assistant has said in a prompt is given.
    let given = json!({ "prompt": [asked, message("assistant", "x"), asked], "completion": [answered] });
    assert_eq!(read(given).1, "c");
}

#[test]
fn what_is_no_conversation_is_refused() {
    let shown = folder(Some(SHOWN), &json!({}));
    let maker = maker(shown.path(), 0);
    let answered = json!({ "role": "assistant", "content": "c" });
    for (object, said) in [
        (json!({ "messages": [] }), "\"messages\" is empty; write a list of messages such as"),
        (json!({ "messages": "a" }), "\"messages\" is a string, and must be a list"),
        (json!({ "messages": ["a"] }), "message 1 of \"messages\" is no object; each message is"),
        (json!({ "messages": [answered, { "content": "c" }] }), "message 2 of \"messages\" has no \"role\""),
        (json!({ "messages": [{ "role": 1, "content": "c" }] }), "has a \"role\" that is no string"),
        (json!({ "messages": [{ "role": "user", "content": "c" }] }), "no message in it is the assistant's"),
        (
            json!({ "conversations": [{ "from": "alien", "value": "c" }] }),
            "message 1 of \"conversations\" is from \"alien\", and is to be from one of human, user, gpt",
        ),
        (json!({ "prompt": [answered], "completion": 7 }), "\"completion\" is no list"),
        (json!({ "prompt": 7, "completion": "a" }), "\"prompt\" is a number, and must be a string"),
        (json!({ "prompt": "a", "completion": [{ "role": "user", "content": "c" }] }), "no message in it is"),
        (json!({ "prompt": [answered] }), "it has \"prompt\" and no \"completion\"; a pair has both"),
        (
            json!({ "messages": [answered], "text": "a" }),
            "it has \"text\" and \"messages\", and an object holds one",
        ),
        (
            json!({ "messages": [answered], "prompt": "a", "completion": "a" }),
            "it has \"prompt\" and \"messages\"",
        ),
        (json!({ "instruction": "a", "output": "c", "text": "a" }), "it has \"text\" and \"instruction\""),
        (json!({ "instruction": "a", "output": 7 }), "\"output\" is a number, and must be a string"),
        (json!({ "instruction": "a", "response": "c" }), "but \"instruction\", \"response\"; name the field"),
        (json!({ "messages": [answered], "tools": "a" }), "\"tools\" is a string, and must be a list"),
    ] {
        let fault = made(&maker, &object).expect_err(&object.to_string()).to_string();
        assert!(fault.contains(said), "{object}: {fault}");
    }
}

/// Without a template a prompt and its completion are texts, and all else is refused.
#[test]
fn a_conversation_needs_a_template() {
    let (pair, messages) = (
        json!({ "prompt": "ab", "completion": "c" }),
        json!({ "messages": [{ "role": "assistant", "content": "c" }] }),
    );
    let bare = folder(None, &json!({ "eos_token": "</s>" }));
    let shown = folder(Some(SHOWN), &json!({}));
    let tokenizer =
        |folder: &tempfile::TempDir| TextCodec::of(Some(Tokenizer::load(folder.path(), None).unwrap()));
    for (codec, date, said) in [
        (TextCodec::Bytes, Some(Date(0)), "text is read as bytes, which have no chat template"),
        (
            tokenizer(&bare),
            Some(Date(0)),
            "has no chat template; put the model's chat_template.jinja beside it",
        ),
        (tokenizer(&shown), None, "--no-chat-template leaves out the template"),
    ] {
        let maker = DocumentMaker::new(codec, None, Fields::default(), date);
        let document = made(&maker, &pair).unwrap();
        assert_eq!(document.parts, [(vec![97, 98], false), (vec![99], true)]);
        assert!(document.is_conversation);
        assert!(made(&maker, &messages).unwrap_err().to_string().contains(said), "{said}");
    }
}

fn fault_of(template: &str, object: &Value) -> String {
    let folder = folder(Some(template), &json!({}));
    made(&maker(folder.path(), 0), object)
        .expect_err(template)
        .to_string()
        .replace(folder.path().to_str().unwrap(), "FOLDER")
}

#[test]
fn a_template_that_fails_says_where() {
    let said = |role: &str, content: &str| json!({ "role": role, "content": content });
    let turns = json!({ "messages": [said("user", "a"), said("assistant", "b"), said("user", "c"), said("assistant", "d")] });
    for (template, expected) in [
        (
            "{% for m in messages %}\n{{ raise_exception('no ' ~ m.role) }}{% endfor %}",
            "the chat template `FOLDER/chat_template.jinja` refuses it, in line 2: no user",
        ),
        ("{{ nothing.of.it }}", "refuses it, in line 1: "),
        ("{% if %}", "refuses it, in line 1: "),
        ("{{ strftime_now('%Q') }}", "strftime_now: %Q is not known here"),
        // Each is bounded in work, memory and depth.
        (
            "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
            "it takes more than its 2000000 units of work",
        ),
        (
            "{% set n = namespace(x='aaaaaaaa') %}{% for a in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            "it takes more than its 2000000 units of work",
        ),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion limit"),
        // What comes later changes what came before.
        (
            "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}",
            "the chat template writes its first 1 messages otherwise alone than before the others, so nothing says what the assistant says: at byte 0 the \
             text is \"1a\" alone and \"4abcd\" before the others; mark what is learned",
        ),
        (
            "{% generation %}{% endgeneration %}a",
            "marks with `{% generation %}` what is learned, and marks nothing",
        ),
    ] {
        let fault = fault_of(template, &turns);
        assert!(fault.contains(expected), "{template}: {fault}");
    }
}

#[test]
fn dates_are_those_of_a_calendar() {
    // Python: datetime.fromtimestamp(SECONDS, UTC).strftime(FORMAT).
    for (seconds, format, expected) in [
        (1_770_091_506, "%d %b %Y", "03 Feb 2026"),
        (1_770_091_506, "%A, %B %e at %H:%M:%S, %I %p%%", "Tuesday, February  3 at 04:05:06, 04 AM%"),
        (951_782_400, "%F %a", "2000-02-29 Tue"),
        (-1, "%y-%m-%d %T", "69-12-31 23:59:59"),
        (0, "%F %A", "1970-01-01 Thursday"),
        (4_107_542_400, "%F %I %p", "2100-03-01 12 AM"),
    ] {
        assert_eq!(Date(seconds).format(format).as_deref(), Ok(expected));
    }
}
