"""Trains the model of a pipezero run file with PyTorch, to compare speeds: the same sizes, batch and
optimizer.

    python3 benches/gpu/torch_gpt.py [--how eager|compile] [--steps N] [--skipped N] [--lines FILE] RUN.json

GPT-2 as pipezero's family "gpt2" has it: learned positions, norms before each branch, GELU by tanh, biases, a
head that uses the embedding's weight. It is trained as is usual with PyTorch on one GPU: f32 weights, bf16 by
autocast, `scaled_dot_product_attention`, fused AdamW, gradients clipped to norm 1. Tokens are drawn at random
on the GPU, since their values do not change the time of a step.

It prints a line of JSON: the median step without the first ones, tokens a second, and the share of the GPU's
peak by the same formula as for pipezero. If the GPU's memory is too small, a step is computed in two halves,
or four quarters, and the line says so (`micro_batch`).
"""

import argparse
import time

import torch
from torch import nn
from torch.nn import functional

from speed import measured, read_run, write


class Block(nn.Module):
    """Attention and MLP, each behind a norm, each added to its input."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, seq, width = x.shape
        of_heads = (batch, seq, self.heads, width // self.heads)
        q, k, v = (each.view(of_heads).transpose(1, 2) for each in self.qkv(self.ln_1(x)).split(width, dim=2))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, seq, width))
        return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """From tokens to the mean loss of their targets."""

    def __init__(self, layers, width, heads, seq, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(seq, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def optimizer_of(model, params):
    """AdamW that decays matrices alone, as pipezero does by default."""
    weights = list(model.parameters())
    groups = [
        {
            "params": [weight for weight in weights if weight.dim() > 1],
            "weight_decay": params["weight_decay"],
        },
        {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=params["lr"], betas=tuple(params["betas"]), fused=True)


def train(run, arguments, device, num_parts):
    """The seconds of each step, and the last loss."""
    shape, batch = run["model"], run["train_batch_size"]
    vocabulary, seq = shape.get("vocab_size", 256), shape["seq_length"]
    torch.manual_seed(0)
    with torch.device(device):
        model = Gpt(shape["num_layers"], shape["hidden_size"], shape["num_attention_heads"], seq, vocabulary)
        samples = torch.randint(vocabulary, (arguments.steps, batch, seq + 1))
    optimizer = optimizer_of(model, run["optimizer"]["params"])
    loss_of = torch.compile(model) if arguments.how == "compile" else model
    seconds = []
    for sample in samples:
        synchronize(device)
        begins = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        for part in sample.split(batch // num_parts):
            with torch.autocast(device, torch.bfloat16):
                loss = loss_of(part[:, :-1].contiguous(), part[:, 1:].contiguous()) / num_parts
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        synchronize(device)
        seconds.append(time.perf_counter() - begins)
        print(f"step {len(seconds)}: {seconds[-1] * 1e3:.1f} ms", flush=True)
    return seconds, loss.item() * num_parts


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--how", choices=("eager", "compile"), default="eager")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--skipped", type=int, default=5, help="first steps that do not count")
    parser.add_argument("--lines", help="where the line of JSON is added")
    parser.add_argument("run")
    arguments = parser.parse_args()
    run = read_run(arguments.run)
    # On a CPU this says nothing about speed; it is how the program is tried without a GPU.
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for num_parts in (1, 2, 4):
        try:
            seconds, loss = train(run, arguments, device, num_parts)
            break
        except torch.OutOfMemoryError as error:
            print(f"does not fit in {num_parts} parts: {error}", flush=True)
            # Outside this block, where the error still holds what was allocated.
            failed = True
        if failed:
            torch.cuda.empty_cache()
    else:
        raise SystemExit("it does not fit into the GPU's memory in four parts")
    more = {
        "micro_batch": run["train_batch_size"] // num_parts,
        "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "loss": loss,
    }
    write(
        measured(arguments.run, f"torch {arguments.how}", seconds, arguments.skipped, more), arguments.lines
    )


if __name__ == "__main__":
    main()
