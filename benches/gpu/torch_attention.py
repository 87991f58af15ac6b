"""Attention of PyTorch, kernel by kernel, at the shapes of run files: what pipezero's own is held against.

    python3 benches/gpu/torch_attention.py RUN.json...

Forward and backward, causal, in bf16, of random data. A rate counts the products that causal attention needs: 2 forward and 5 backward, of half the
matrix. A kernel that cannot compute a shape is left out.
"""

import json
import os
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from speed import read_run
from torch_timing import median_ms

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "mem_efficient": SDPBackend.EFFICIENT_ATTENTION,
}


def time_ms(backend, model, num_sequences):
    """Of a layer's forward and backward; infinite where the kernel cannot do it."""
    heads, seq = model["num_attention_heads"], model["seq_length"]
    size, groups = model["hidden_size"] // heads, model.get("num_query_groups", heads)

    def drawn(num_heads):
        shape = (num_sequences, num_heads, seq, size)
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    q, k, v = drawn(heads), drawn(groups), drawn(groups)

    def forward():
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=groups < heads)

    try:
        with sdpa_kernel(BACKENDS[backend]):
            forward_ms = median_ms(forward)
            attended, gradient = forward(), torch.randn_like(q)
            backward_ms = median_ms(lambda: torch.autograd.grad(attended, (q, k, v), gradient, retain_graph=True))
    except RuntimeError as error:
        print(f"{backend}: {str(error).splitlines()[0]}")
        return float("inf"), float("inf")
    return forward_ms, backward_ms


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    figures = {}
    for path in sys.argv[1:]:
        run = read_run(path)
        model, name = run["model"], os.path.basename(path).removesuffix(".json")
        product = run["train_batch_size"] * model["seq_length"] ** 2 * model["hidden_size"]
        for backend in BACKENDS:
            times = time_ms(backend, model, run["train_batch_size"])
            if times[0] < float("inf"):
                # A product has 2 operations for each pair, of which a causal mask leaves half.
                rates = [number * product / ms / 1e9 for number, ms in zip((2, 5), times)]
                values = [round(each, 3) for each in (*times, *rates)]
                keys = ("forward_ms", "backward_ms", "forward_tflop_s", "backward_tflop_s")
                figures[f"{name}, {backend}"] = dict(zip(keys, values))
    print(f"figures: {json.dumps(figures)}")
    sys.exit(0 if figures else 1)


if __name__ == "__main__":
    main()
