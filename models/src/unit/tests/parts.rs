//! Where a unit's parameters lie is not seen in what it computes.

use crate::element::ElementType;
use crate::layer::MaskKey;
use crate::model::Model;
use crate::parameter::ParameterSpec;
use crate::shared::GptConfig;
use crate::testing::{
    Backward, Batch, Run, assert_same_bits, assert_same_result, config, llama_config, result, segments,
};
use crate::{gpt2, llama, mlp};

/// Which part a parameter lies in.
type PartOf = dyn Fn(&ParameterSpec) -> usize;

fn is_matrix(spec: &ParameterSpec) -> bool {
    spec.shape.len() > 1
}

fn models() -> Vec<(&'static str, Model)> {
    vec![
        ("gpt2", gpt2::build(&GptConfig { dropout: 0.1, ..config() }).unwrap()),
        ("llama", llama::build(&llama_config()).unwrap()),
        ("mlp", mlp::build(&config()).unwrap()),
    ]
}

#[test]
fn parts_change_no_bit_of_losses_and_gradients() {
    let masks = Some(MaskKey { seed: 1, step: 2, first_sequence: 3 });
    let batch = Batch { masks, ..Batch::random(2, 13, 37, 3) };
    let parts: [(&str, &PartOf); 3] = [
        ("matrices first", &|spec| usize::from(!is_matrix(spec))),
        ("matrices last, none between", &|spec| if is_matrix(spec) { 2 } else { 0 }),
        ("three", &|spec| spec.name.bytes().map(usize::from).sum::<usize>() % 3),
    ];
    for (name, model) in models() {
        for element in [ElementType::F32, ElementType::Bf16] {
            for (backward, is_checkpointed) in
                [(Backward::Full, false), (Backward::Split, false), (Backward::Full, true)]
            {
                let segments_of =
                    |num_layers| if is_checkpointed { segments([(0, num_layers)]) } else { Vec::new() };
                let ready = |run: Run| run.with_precision(element).with_checkpoints(segments_of);
                let wanted = result(ready(Run::new(&model, 3)), &batch, backward);
                for (how, part_of) in &parts {
                    let got = result(ready(Run::in_parts(&model, 3, part_of)), &batch, backward);
                    assert_same_result(&format!("{name}, {element:?}, {backward:?}, {how}"), &got, &wanted);
                }
            }
        }
    }
}

#[test]
fn one_part_is_overwritten_while_another_is_added_to() {
    let (batches, seed) = ([0, 1].map(|masked| Batch::random(2, 13, 37, masked)), 0.5);
    let is_overwritten = |spec: &ParameterSpec| usize::from(is_matrix(spec));
    for (name, model) in models() {
        for backward in [Backward::Full, Backward::Split] {
            let run = || Run::in_parts(&model, 3, is_overwritten);
            let (mut both, mut second, mut mixed) = (run(), run(), run().overwriting(1));
            for batch in &batches {
                both.step(batch, backward, seed);
                mixed.step(batch, backward, seed);
            }
            second.step(&batches[1], backward, seed);
            let (both, second) = (both.gradients(), second.gradients());
            let shapes = mixed.parameters();
            for (parameter, got) in mixed.gradients() {
                let want = if shapes[&parameter].0.len() > 1 { &second } else { &both };
                assert_same_bits(&format!("{name}, {backward:?}, {parameter}"), &got, &want[&parameter]);
            }
            assert_ne!(both, second);
        }
    }
}

#[test]
fn frozen_parts_change_no_bit_of_the_other_gradients() {
    let masks = Some(MaskKey { seed: 1, step: 2, first_sequence: 3 });
    let batch = Batch { masks, ..Batch::random(2, 13, 37, 3) };
    let parts: [(&str, &PartOf); 4] = [
        ("matrices", &|spec| usize::from(is_matrix(spec))),
        ("vectors", &|spec| usize::from(!is_matrix(spec))),
        ("every second", &|spec| spec.name.bytes().map(usize::from).sum::<usize>() % 2),
        ("all but one", &|spec| usize::from(spec.name != "h.1.ln_1.weight")),
    ];
    for (name, model) in models() {
        for element in [ElementType::F32, ElementType::Bf16] {
            for (backward, is_checkpointed) in
                [(Backward::Full, false), (Backward::Split, false), (Backward::Full, true)]
            {
                let segments_of =
                    |num_layers| if is_checkpointed { segments([(0, num_layers)]) } else { Vec::new() };
                let ready = |run: Run| run.with_precision(element).with_checkpoints(segments_of);
                let mut all = ready(Run::new(&model, 3));
                let loss = all.step(&batch, backward, 0.5);
                for (how, is_frozen) in &parts {
                    let case = format!("{name}, {element:?}, {backward:?}, {how} frozen");
                    let mut run = ready(Run::in_parts(&model, 3, is_frozen)).freezing(1);
                    assert_eq!(run.step(&batch, backward, 0.5), loss, "{case}");
                    let (wanted, mut num_trained) = (all.gradients(), 0);
                    for (parameter, got) in run.gradients() {
                        if got.iter().all(|value| !value.is_nan()) {
                            assert_same_bits(&format!("{case}, {parameter}"), &got, &wanted[&parameter]);
                            num_trained += 1;
                        }
                    }
                    let is_trained = |spec: &ParameterSpec| is_frozen(spec) == 0;
                    let specs = model.layers.iter().flat_map(|layer| layer.layer.parameters());
                    assert_eq!(num_trained, specs.filter(is_trained).count(), "{case}");
                }
            }
        }
    }
}
