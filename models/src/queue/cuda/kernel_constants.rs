//! Numbers that launches and kernels have to agree on are written in both: here they are read off the kernels' sources.

use super::arguments::{
    NUM_BLOCK_PACKS, NUM_BLOCK_WARPS, NUM_ROPE_PAIRS_MAX, NUM_TERMS_MAX, NUM_THREADS, WIDE_BYTES,
};
use super::attention::AttentionKernels;
use super::operations::NUM_SQUARES_PER_BLOCK;
use super::program::sources;
use crate::element::ElementType;
use crate::kernels::attention::AttentionShape;

fn text(element: ElementType) -> String {
    sources(element).collect::<Vec<_>>().join("\n")
}

/// What a constant is, `static const u32 NAME = VALUE;`, of numbers and other constants with `*` and `<<` between.
fn constant(text: &str, name: &str) -> usize {
    let (_, after) = text.split_once(&format!("static const u32 {name} = ")).expect(name);
    let (value, _) = after.split_once(';').expect("it ends");
    let factor = |word: &str| word.parse().unwrap_or_else(|_| constant(text, word));
    match value.split_once(" << ") {
        Some((one, bits)) => factor(one) << factor(bits),
        None => value.split(" * ").map(factor).product(),
    }
}

#[test]
fn launches_have_the_kernels_constants() {
    let (f32, bf16) = (text(ElementType::F32), text(ElementType::Bf16));
    for (text, name, expected) in [
        (&f32, "BLOCK_SIZE", NUM_THREADS as usize),
        (&f32, "WARPS_PER_BLOCK", NUM_BLOCK_WARPS),
        (&f32, "WIDE_BYTES", WIDE_BYTES),
        (&f32, "NUM_BLOCK_PACKS", NUM_BLOCK_PACKS),
        (&f32, "NUM_ROPE_PAIRS_MAX", NUM_ROPE_PAIRS_MAX),
        (&f32, "NUM_SUM_TERMS_MAX", NUM_TERMS_MAX),
        (&f32, "NUM_SQUARES_PER_BLOCK", NUM_SQUARES_PER_BLOCK),
        (&bf16, "MMA_BLOCK_ROWS", AttentionKernels::of(heads_of(64), ElementType::Bf16, false).num_rows),
    ] {
        assert_eq!(constant(text, name), expected, "{name}");
    }
}

fn heads_of(head_size: usize) -> AttentionShape {
    AttentionShape { num_sequences: 1, seq_length: 1, num_heads: 1, num_kv_heads: 1, head_size }
}

/// `__launch_bounds__` says how many threads a kernel is compiled for; one without tensor cores is a `typedef` of so many warps with so many rows.
#[test]
fn attention_is_launched_with_the_threads_and_rows_that_it_is_compiled_for() {
    for (element, head_size, alias) in [
        (ElementType::F32, 64, Some("64")),
        (ElementType::F32, 128, Some("128")),
        (ElementType::F32, 256, Some("256")),
        (ElementType::Bf16, 64, None),
        (ElementType::Bf16, 128, None),
    ] {
        let of = |has_documents| AttentionKernels::of(heads_of(head_size), element, has_documents);
        let (text, kernels) = (text(element), of(false));
        let names = |of: AttentionKernels| [of.forward, of.backward_queries, of.backward_keys];
        for name in names(of(false)).into_iter().chain(names(of(true))) {
            let (before, _) = text.split_once(&format!(" {name}(")).expect(name);
            let (_, bounds) = before.rsplit_once("__launch_bounds__(").expect("it has bounds");
            let num_threads = bounds.split([',', ')']).next().and_then(|number| number.parse().ok());
            assert_eq!(num_threads, Some(kernels.num_threads), "{name}");
        }
        for direction in alias.map_or(&[][..], |_| &["Forward", "Backward"]) {
            let alias = format!("Attention{direction}{}", alias.unwrap_or_default());
            let (before, _) = text.split_once(&format!("> {alias};")).expect(&alias);
            let (_, numbers) = before.rsplit_once('<').expect("it has arguments");
            let numbers: Vec<usize> =
                numbers.split(", ").map(|number| number.parse().expect("a number")).collect();
            let [_, num_warps, num_warp_rows] = numbers[..] else { panic!("{alias}: {numbers:?}") };
            let launched = (kernels.num_threads as usize, kernels.num_rows);
            assert_eq!((32 * num_warps, num_warps * num_warp_rows), launched, "{alias}");
        }
    }
}
