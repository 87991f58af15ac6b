"""The sizes of published models, and how many parameters transformers gives such a model.

Retyped from the config.json on the models' pages on huggingface.co, without what has no part in training or in the sizes. A parameter that two layers share counts once.
"""

import json
from pathlib import Path

import torch
import transformers

OUT = Path(__file__).parent.parent / "published_shapes.json"


def gpt2(width, layers, heads):
    return dict(
        model_type="gpt2", vocab_size=50257, n_positions=1024, n_embd=width, n_layer=layers, n_head=heads, activation_function="gelu_new",
        layer_norm_epsilon=1e-5, resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1,
    )


def like_llama(model_type, vocab, width, ffn, layers, heads, groups, longest, **more):
    return dict(
        model_type=model_type, vocab_size=vocab, hidden_size=width, intermediate_size=ffn, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=groups, max_position_embeddings=longest, hidden_act="silu",
    ) | more


LLAMA_31 = dict(
    factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192, rope_type="llama3"
)
LLAMA_3 = dict(rms_norm_eps=1e-5, rope_theta=500000.0)
QWEN2 = dict(rms_norm_eps=1e-6, rope_theta=1000000.0, use_sliding_window=False, max_window_layers=28)
QWEN3 = dict(QWEN2, head_dim=128, attention_bias=False, sliding_window=None, max_window_layers=36)

SHAPES = {
    "openai-community/gpt2": gpt2(768, 12, 12),
    "openai-community/gpt2-medium": gpt2(1024, 24, 16),
    "openai-community/gpt2-large": gpt2(1280, 36, 20),
    "openai-community/gpt2-xl": gpt2(1600, 48, 25),
    "distilbert/distilgpt2": gpt2(768, 6, 12),
    "meta-llama/Llama-2-7b-hf": like_llama("llama", 32000, 4096, 11008, 32, 32, 32, 4096, rms_norm_eps=1e-5),
    "meta-llama/Llama-2-13b-hf": like_llama("llama", 32000, 5120, 13824, 40, 40, 40, 4096, rms_norm_eps=1e-5),
    "meta-llama/Llama-2-70b-hf": like_llama("llama", 32000, 8192, 28672, 80, 64, 8, 4096, rms_norm_eps=1e-5),
    "meta-llama/Meta-Llama-3-8B": like_llama("llama", 128256, 4096, 14336, 32, 32, 8, 8192, **LLAMA_3),
    "meta-llama/Llama-3.1-70B": like_llama(
        "llama", 128256, 8192, 28672, 80, 64, 8, 131072, rope_scaling=LLAMA_31, mlp_bias=False, **LLAMA_3
    ),
    "meta-llama/Llama-3.1-405B": like_llama(
        "llama", 128256, 16384, 53248, 126, 128, 8, 131072, rope_scaling=LLAMA_31, mlp_bias=False, **LLAMA_3
    ),
    "meta-llama/Llama-3.2-1B": like_llama(
        "llama", 128256, 2048, 8192, 16, 32, 8, 131072, head_dim=64, tie_word_embeddings=True,
        rope_scaling=LLAMA_31 | dict(factor=32.0), **LLAMA_3
    ),
    "meta-llama/Llama-3.2-3B": like_llama(
        "llama", 128256, 3072, 8192, 28, 24, 8, 131072, head_dim=128, tie_word_embeddings=True,
        rope_scaling=LLAMA_31 | dict(factor=32.0), **LLAMA_3
    ),
    "TinyLlama/TinyLlama-1.1B": like_llama("llama", 32000, 2048, 5632, 22, 32, 4, 2048, rms_norm_eps=1e-5),
    "HuggingFaceTB/SmolLM-135M": like_llama(
        "llama", 49152, 576, 1536, 30, 9, 3, 2048, rms_norm_eps=1e-5, tie_word_embeddings=True
    ),
    "mistralai/Mistral-7B-v0.3": like_llama(
        "mistral", 32768, 4096, 14336, 32, 32, 8, 32768, rms_norm_eps=1e-5, rope_theta=1000000.0, sliding_window=None
    ),
    "mistralai/Mistral-Nemo-Base-2407": like_llama(
        "mistral", 131072, 5120, 14336, 40, 32, 8, 128000, head_dim=128, rms_norm_eps=1e-5, rope_theta=1000000.0, sliding_window=None
    ),
    "Qwen/Qwen2-0.5B": like_llama("qwen2", 151936, 896, 4864, 24, 14, 2, 131072, tie_word_embeddings=True, **QWEN2),
    "Qwen/Qwen2.5-7B": like_llama("qwen2", 152064, 3584, 18944, 28, 28, 4, 131072, **QWEN2),
    "Qwen/Qwen2.5-72B": like_llama("qwen2", 152064, 8192, 29568, 80, 64, 8, 131072, **QWEN2),
    "Qwen/Qwen3-0.6B": like_llama("qwen3", 151936, 1024, 3072, 28, 16, 8, 40960, tie_word_embeddings=True, **QWEN3),
    "Qwen/Qwen3-8B": like_llama("qwen3", 151936, 4096, 12288, 36, 32, 8, 40960, **QWEN3),
    "Qwen/Qwen3-32B": like_llama("qwen3", 151936, 5120, 25600, 64, 64, 8, 40960, **QWEN3),
}


def main():
    rows = []
    for name, config in SHAPES.items():
        # A copy, since reading a configuration changes it.
        copy = json.loads(json.dumps(config))
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(
                transformers.AutoConfig.for_model(**copy)
            )
        model.tie_weights()
        rows.append(dict(name=name, num_parameters=model.num_parameters(), config=config))
    OUT.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    for row in rows:
        print(f"{row['name']:40} {row['num_parameters']:>18,}")


if __name__ == "__main__":
    main()
