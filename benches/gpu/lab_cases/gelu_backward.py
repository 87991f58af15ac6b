"""`gelu_backward` of gelu.cu: `dy` becomes the gradient of `x`, and `x` becomes `gelu(x)`."""

import ctypes

import torch

SHAPES = {"124m": (32768, 3072), "1.3b": (16384, 8192), "tiny": (5, 37)}
THREADS = 256
PACK_BYTES = 16


def case(dtype, rows, width):
    x, dy = (torch.randn(rows, width).to(dtype) for _ in range(2))
    exact = x.double().requires_grad_()
    y = torch.nn.functional.gelu(exact, approximate="tanh")
    (dx,) = torch.autograd.grad(y, exact, dy.double())
    num_packs = -(-x.numel() * x.element_size() // PACK_BYTES)
    return {
        "kernel": "gelu_backward",
        "arguments": [x, dy, ctypes.c_uint64(x.numel())],
        "expected": {0: y.detach(), 1: dx},
        "grid": (-(-num_packs // THREADS), 1, 1),
        "threads": (THREADS, 1, 1),
        # Both are read and written.
        "bytes": 4 * x.numel() * x.element_size(),
        # Half a unit in the last place of bf16 is 2e-3 of a number; the mean is less.
        "limit": {torch.float32: 1e-6, torch.bfloat16: 3e-3, torch.float16: 4e-4}[dtype],
    }
