use proptest::prelude::*;

use super::rope_scaling::Yarn;
use super::{LlamaConfig, RopeScaling, build};
use crate::element::ElementType;
use crate::error::ModelError;
use crate::shared::GptConfig;
use crate::testing::{
    Backward, Batch, Oracle, Run, assert_same_result, check_against_oracle, config, llama_config, result,
    same_on_all_threads,
};

/// Loss and every gradient against candle's autograd in f64.
fn check(config: &LlamaConfig, num_sequences: usize, seq_length: usize, masked: usize) {
    let batch = Batch::random(num_sequences, seq_length, config.gpt.vocab_size, masked);
    let loss = |oracle: &Oracle, batch: &Batch| oracle.llama_loss(config, batch);
    check_against_oracle(&config.gpt, &build(config).unwrap(), &batch, loss);
}

/// Without biases and norms of heads, as Llama 2 and 3 are.
fn plain() -> LlamaConfig {
    LlamaConfig {
        add_qkv_bias: false,
        add_proj_bias: false,
        add_mlp_bias: false,
        qk_layernorm: false,
        ..llama_config()
    }
}

const YARN: Yarn = Yarn {
    factor: 4.0,
    original_max_position_embeddings: 8,
    attention_factor: 1.2,
    beta_fast: 4.0,
    beta_slow: 0.5,
    truncate: true,
};

const SCALINGS: [RopeScaling; 6] = [
    RopeScaling::Default,
    RopeScaling::Linear { factor: 3.0 },
    RopeScaling::Dynamic { factor: 2.0, original_max_position_embeddings: 6 },
    RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 30,
    },
    RopeScaling::Yarn(YARN),
    RopeScaling::Yarn(Yarn { truncate: false, ..YARN }),
];

#[test]
fn gradients_equal_autograd_for_every_choice() {
    for bits in 0..32_u32 {
        let has = |bit: u32| bits >> bit & 1 == 1;
        let gpt = GptConfig { tie_embeddings: has(4), ..config() };
        let config = LlamaConfig {
            gpt,
            add_qkv_bias: has(0),
            add_proj_bias: has(1),
            add_mlp_bias: has(2),
            qk_layernorm: has(3),
            ..llama_config()
        };
        check(&config, 2, 13, 4);
    }
    for rope_scaling in SCALINGS {
        check(&LlamaConfig { rope_scaling, ..llama_config() }, 2, 13, 0);
        check(&LlamaConfig { rope_scaling, ..plain() }, 1, 5, 0);
    }
}

#[test]
fn gradients_equal_autograd_at_the_edges_of_shapes() {
    check(&plain(), 1, 1, 0);
    check(&LlamaConfig { kv_channels: 2, ffn_hidden_size: 1, ..plain() }, 2, 13, 0);
    // As many heads of keys as of queries, and a sequence longer than a block of queries.
    let gpt = GptConfig { seq_length: 70, num_layers: 1, ..config() };
    check(&LlamaConfig { gpt, num_query_groups: 3, ..llama_config() }, 1, 70, 6);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn gradients_equal_autograd_for_any_shape(
        num_layers in 1_usize..3,
        num_query_groups in 1_usize..4,
        group_size in 1_usize..4,
        half_head in 1_usize..7,
        hidden_size in 4_usize..30,
        ffn_hidden_size in 1_usize..40,
        num_sequences in 1_usize..4,
        seq_length in 1_usize..20,
        scaling in 0_usize..6,
        choices in 0_u32..32,
    ) {
        let has = |bit: u32| choices >> bit & 1 == 1;
        let gpt = GptConfig {
            num_layers,
            hidden_size,
            num_attention_heads: num_query_groups * group_size,
            seq_length: 20,
            tie_embeddings: has(4),
            ..config()
        };
        let config = LlamaConfig {
            gpt,
            ffn_hidden_size,
            num_query_groups,
            kv_channels: 2 * half_head,
            rope_scaling: SCALINGS[scaling],
            add_qkv_bias: has(0),
            add_proj_bias: has(1),
            add_mlp_bias: has(2),
            // A head of two elements is normalised nearly to signs: of its gradient little but rounding is left.
            qk_layernorm: has(3) && half_head > 1,
            ..llama_config()
        };
        check(&config, num_sequences, seq_length, 0);
    }
}

#[test]
fn documents_equal_autograd() {
    for config in [llama_config(), plain()] {
        for lens in [&[5, 1, 7][..], &[1], &[4]] {
            let batch = Batch::random(2, 13, 37, 5).in_documents(lens);
            let loss = |oracle: &Oracle, batch: &Batch| oracle.llama_loss(&config, batch);
            check_against_oracle(&config.gpt, &build(&config).unwrap(), &batch, loss);
        }
    }
}

#[test]
fn grouping_splitting_and_checkpointing_cannot_be_seen_in_the_bits() {
    for config in [llama_config(), plain()] {
        let model = build(&config).unwrap();
        let batch = Batch::random(2, 13, 37, 5).in_documents(&[6, 2]);
        for element in [ElementType::F32, ElementType::Bf16] {
            let run = |layers_per_unit| Run::new(&model, layers_per_unit).with_precision(element);
            let want = result(run(1), &batch, Backward::Full);
            for layers_per_unit in [1, 2, 3, 100] {
                let what = format!("{layers_per_unit} layers per unit in {element:?}");
                for backward in [Backward::Full, Backward::Split] {
                    assert_same_result(&what, &result(run(layers_per_unit), &batch, backward), &want);
                }
                let whole = |num_layers| std::iter::once(0..num_layers).collect();
                let checkpointed = run(layers_per_unit).with_checkpoints(whole);
                assert_same_result(&what, &result(checkpointed, &batch, Backward::Full), &want);
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let gpt = GptConfig { hidden_size: 66, seq_length: 90, vocab_size: 301, ..config() };
    let model = build(&LlamaConfig { gpt, ..llama_config() }).unwrap();
    let batch = Batch::random(3, 90, 301, 7);
    same_on_all_threads("Llama", || {
        let mut run = Run::new(&model, 2);
        let loss = run.step(&batch, Backward::Full, 0.03);
        run.gradients().into_values().flatten().chain([loss.sum as f32]).collect()
    });
}

#[test]
fn values_that_break_a_rule_are_refused_with_the_rule() {
    type Change = fn(&mut LlamaConfig);
    let cases: [(Change, &str); 9] = [
        (|c| c.ffn_hidden_size = 0, "ffn_hidden_size = 0: must be at least 1"),
        (|c| c.num_query_groups = 0, "num_query_groups = 0: must be at least 1"),
        (
            |c| c.num_query_groups = 2,
            "num_query_groups = 2: must divide num_attention_heads = 3: every head of keys is shared by as many of queries",
        ),
        (|c| c.kv_channels = 5, "kv_channels = 5: must be even: rotary embeddings turn pairs of elements"),
        (|c| c.norm_epsilon = 0.0, "norm_epsilon = 0: must be a positive, finite number, such as 1e-5"),
        (
            |c| c.rotary_base = 1.0,
            "rotary_base = 1: must be a finite number above 1; Llama 2 has 10000, Llama 3 has 500000",
        ),
        (
            |c| c.rope_scaling = RopeScaling::Linear { factor: 0.5 },
            "rope_scaling.factor = 0.5: must be a finite number of at least 1",
        ),
        (
            |c| c.rope_scaling = RopeScaling::Yarn(Yarn { beta_slow: 4.0, ..YARN }),
            "rope_scaling.beta_slow = 4: must be positive and below rope_scaling.beta_fast = 4",
        ),
        (|c| c.gpt.dropout = 0.1, "dropout = 0.1: the llama family has no dropout; use 0"),
    ];
    for (change, expected) in cases {
        let mut config = llama_config();
        change(&mut config);
        match build(&config) {
            Err(error @ ModelError::Shape { .. }) => assert_eq!(error.to_string(), expected),
            other => panic!("{other:?}"),
        }
    }
}
