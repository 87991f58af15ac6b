"""The rotary frequencies that transformers computes for each scaling, and what it multiplies sines and cosines by.

transformers computes them in float32: powers of the base are off by some units in the last place.
"""

import json
from pathlib import Path

import numpy
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

OUT = Path(__file__).parent.parent / "rope_frequencies.json"

LLAMA_31 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768)

# Base, elements of a head, tokens, scaling.
CASES = [
    (10000.0, 128, 4096, dict(rope_type="linear", factor=2.0)),
    (100.0, 10, 13, dict(rope_type="linear", factor=3.0)),
    # As long as the training was, and longer.
    (10000.0, 64, 2048, dict(rope_type="dynamic", factor=4.0, original_max_position_embeddings=2048)),
    (10000.0, 64, 1000, dict(rope_type="dynamic", factor=4.0, original_max_position_embeddings=2048)),
    (10000.0, 64, 2049, dict(rope_type="dynamic", factor=4.0, original_max_position_embeddings=2048)),
    (500000.0, 128, 16384, dict(rope_type="dynamic", factor=1.5, original_max_position_embeddings=4096)),
    (500000.0, 128, 131072, LLAMA_31),
    (500000.0, 64, 131072, LLAMA_31 | dict(factor=32.0)),
    (10000.0, 16, 100, LLAMA_31 | dict(low_freq_factor=0.5, high_freq_factor=16.0, original_max_position_embeddings=30)),
    (1000000.0, 128, 131072, YARN),
    (10000.0, 64, 4096, YARN | dict(original_max_position_embeddings=1024)),
    # Ends of the ramp between pairs.
    (1000000.0, 128, 131072, YARN | dict(truncate=False)),
    (150000.0, 64, 131072, YARN | dict(factor=32.0, original_max_position_embeddings=4096, truncate=False)),
    (10000.0, 32, 512, YARN | dict(original_max_position_embeddings=100, beta_fast=7.3, beta_slow=0.9, truncate=False)),
    (10000.0, 32, 512, YARN | dict(original_max_position_embeddings=100, beta_fast=7.3, beta_slow=0.9)),
    # A ramp that begins before the first pair, and one that ends behind the last.
    (100.0, 10, 13, YARN | dict(original_max_position_embeddings=8, beta_fast=4.0, beta_slow=0.5, truncate=False)),
    (100.0, 12, 4096, YARN | dict(original_max_position_embeddings=2000, beta_fast=64.0, beta_slow=0.25)),
    # What scores grow by.
    (10000.0, 16, 64, YARN | dict(original_max_position_embeddings=16, factor=1.0)),
    (10000.0, 16, 64, YARN | dict(original_max_position_embeddings=16, factor=40.0, mscale=0.707, mscale_all_dim=1.0)),
    (10000.0, 16, 64, YARN | dict(original_max_position_embeddings=16, factor=40.0, attention_factor=1.2)),
]


def case(base, head_size, seq_length, scaling):
    own = dict(scaling)
    longest = seq_length
    if own["rope_type"] == "dynamic":
        # The longest sequence of the model is where its frequencies begin to change.
        longest = own.pop("original_max_position_embeddings")
    config = transformers.LlamaConfig(
        hidden_size=2 * head_size, num_attention_heads=2, num_key_value_heads=2, head_dim=head_size,
        max_position_embeddings=longest, rope_parameters=own | dict(rope_theta=base),
    )
    frequencies, scale = ROPE_INIT_FUNCTIONS[own["rope_type"]](config, torch.device("cpu"), seq_len=seq_length)
    shortest = [float(numpy.format_float_scientific(value, unique=True)) for value in frequencies.numpy()]
    assert len(shortest) == head_size // 2
    return dict(
        base=base, head_size=head_size, seq_length=seq_length, scaling=scaling, frequencies=shortest, attention_factor=float(scale)
    )


def main():
    lines = ",\n".join(" " + json.dumps(case(*one), separators=(",", ":")) for one in CASES)
    OUT.write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
