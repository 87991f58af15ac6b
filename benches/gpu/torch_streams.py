"""What it gives to compute a product on one stream while another stream adds up memory: the question before pipezero does so.

    python3 benches/gpu/torch_streams.py

The product is that of a weight gradient of GPT-2 with 124 million parameters, again and again; the other kernel moves as long as these take. The
overlap is how much of the shorter of both is hidden behind the longer one.
"""

import json

import torch

from torch_timing import median_ms

ROWS, WIDTH, INNER = 32768, 768, 3072
NUM_PRODUCTS = 8


def main():
    left = torch.randn(INNER, ROWS, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    moved = torch.randn(ROWS, INNER, device="cuda")
    other = torch.cuda.Stream()

    def products():
        for _ in range(NUM_PRODUCTS):
            torch.mm(left, right)

    def moves(number):
        for _ in range(number):
            moved.mul_(1.0)

    products_ms = median_ms(products)
    number = max(1, round(products_ms / median_ms(lambda: moves(1))))
    moves_ms = median_ms(lambda: moves(number))

    def both():
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            moves(number)
        products()
        torch.cuda.current_stream().wait_stream(other)

    both_ms = median_ms(both)
    overlap = (products_ms + moves_ms - both_ms) / min(products_ms, moves_ms)
    figures = {"products_ms": products_ms, "moves_ms": moves_ms, "both_ms": both_ms, "overlap": overlap}
    print(f"figures: {json.dumps({name: round(value, 3) for name, value in figures.items()})}")


if __name__ == "__main__":
    main()
