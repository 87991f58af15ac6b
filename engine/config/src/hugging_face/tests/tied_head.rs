use expect_test::expect;

use super::{Folder, GPT2, LLAMA, Tensors, with_fields};

const HEAD: &str = "lm_head.weight";

fn table(tensors: &Tensors) -> (Vec<usize>, Vec<f32>) {
    let name =
        tensors.keys().find(|name| name.ends_with("wte.weight") || name.ends_with("embed_tokens.weight"));
    tensors[name.unwrap()].clone()
}

/// A folder whose head has one element that the embedding has not.
fn differing(config: &str) -> Folder {
    Folder::of(config).with(|tensors| {
        let mut head = table(tensors);
        head.1[43] = -1.0;
        tensors.insert(HEAD.to_owned(), head);
    })
}

fn own_head(folder: &Folder, more: &str) -> Vec<f32> {
    let mut values = vec![f32::NAN; 44];
    folder.open(&folder.run(more)).unwrap().read(HEAD, 0, &mut values).unwrap();
    values
}

#[test]
fn a_head_that_differs_from_the_table_it_is_tied_to_is_refused_with_both_readings() {
    // config.json says that they are tied, and where it says nothing, GPT-2 does.
    let configs = [LLAMA.to_owned(), GPT2.to_owned(), with_fields(GPT2, r#""tie_word_embeddings": true"#)];
    let said: String = configs.iter().map(|config| differing(config).said("")).collect();
    expect![[r#"
        refused: FOLDER/model.safetensors: `lm_head.weight` differs from `model.embed_tokens.weight`, and config.json ties them (`tie_word_embeddings`): transformers 4 drops the head, transformers 5 keeps the head as the file has it; write `model.tie_embeddings` into the run file, true to drop it or false to keep it
        refused: FOLDER/model.safetensors: `lm_head.weight` differs from `transformer.wte.weight`, and config.json ties them (`tie_word_embeddings`): transformers 4 drops the head, transformers 5 keeps the head as the file has it; write `model.tie_embeddings` into the run file, true to drop it or false to keep it
        refused: FOLDER/model.safetensors: `lm_head.weight` differs from `transformer.wte.weight`, and config.json ties them (`tie_word_embeddings`): transformers 4 drops the head, transformers 5 keeps the head as the file has it; write `model.tie_embeddings` into the run file, true to drop it or false to keep it
    "#]].assert_eq(&said);
    // A head of another shape differs too.
    let shorter = Folder::of(LLAMA).with(|tensors| {
        tensors.insert(HEAD.to_owned(), (vec![10, 4], vec![0.0; 40]));
    });
    assert!(shorter.said("").starts_with("refused: "), "{}", shorter.said(""));
}

#[test]
fn the_run_file_decides_whether_such_a_head_is_read() {
    for config in [LLAMA, GPT2] {
        let folder = differing(config);
        let dropped = folder.said(r#", "tie_embeddings": true"#);
        assert!(dropped.starts_with("`lm_head.weight` (it differs from `"), "{dropped}");
        assert!(dropped.ends_with("`model.tie_embeddings` true drops it)\n"), "{dropped}");
        let kept = own_head(&folder, r#", "tie_embeddings": false"#);
        assert_eq!(kept, folder.tensors()[HEAD].1);
    }
}

#[test]
fn nothing_is_said_of_a_copy_of_the_table() {
    for config in [LLAMA, GPT2] {
        let copy = Folder::of(config).with(|tensors| {
            let head = table(tensors);
            tensors.insert(HEAD.to_owned(), head);
        });
        assert_eq!(copy.said(""), "all is read\n");
        assert_eq!(copy.said(r#", "tie_embeddings": true"#), "all is read\n");
        // Untied, it is the head that training begins with.
        let kept = own_head(&copy, r#", "tie_embeddings": false"#);
        assert_eq!(kept, table(&copy.tensors()).1);
    }
}

#[test]
fn a_head_that_is_asked_for_and_not_there_is_missed() {
    let said = Folder::of(LLAMA).said(r#", "tie_embeddings": false"#);
    expect![[r#"
        refused: FOLDER/model.safetensors: it has no tensor `lm_head.weight`, which `model.tie_embeddings` false needs; write true, or remove the key
    "#]].assert_eq(&said);
    // Where config.json has a head of its own, nothing is in doubt.
    let untied = differing(&LLAMA.replace("true", "false"));
    assert_eq!(untied.said(""), "all is read\n");
    let said = untied.said(r#", "tie_embeddings": true"#);
    expect![[r#"
        refused: FOLDER/config.json: its `tie_embeddings` is false, and the run's `model.tie_embeddings` true; make them equal
    "#]].assert_eq(&said);
}
