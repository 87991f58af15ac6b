"""How fast this GPU is today: a copy, and a product of 8192 x 8192 matrices in bf16. Times of different machines are compared by it.

    python3 benches/gpu/anchor.py

The factors are random: products of zeros are faster. Where there is no PyTorch with a GPU, both figures are null.
"""

import json

COPY_BYTES = 4 << 30
SIDE = 8192


def measured():
    """The figures; None for what cannot be measured."""
    try:
        import torch

        from torch_timing import median_ms
    except ImportError:
        return {"copy_gb_s": None, "product_tflop_s": None}
    if not torch.cuda.is_available():
        return {"copy_gb_s": None, "product_tflop_s": None}
    source = torch.empty(COPY_BYTES // 4, dtype=torch.int32, device="cuda").random_()
    target = torch.empty_like(source)
    # What is read and what is written.
    copy_s = median_ms(lambda: target.copy_(source)) / 1e3
    del source, target
    factors = [torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    product_s = median_ms(lambda: factors[0] @ factors[1]) / 1e3
    return {
        "copy_gb_s": round(2 * COPY_BYTES / copy_s / 1e9, 1),
        "product_tflop_s": round(2 * SIDE**3 / product_s / 1e12, 1),
    }


if __name__ == "__main__":
    print(f"figures: {json.dumps(measured())}")
