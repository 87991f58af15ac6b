"""Trains the model of a pipezero run file with PyTorch, to compare speeds and losses: the same sizes, batch and optimizer.

    python3 benches/gpu/torch_gpt.py [--how eager|compile] [--steps N] [--skipped N] [--lines FILE] RUN.json

It is trained as is usual with PyTorch on one GPU: f32 weights, bf16 by autocast where the file says `bf16`,
`scaled_dot_product_attention`, fused AdamW, gradients clipped to norm 1. Tokens are those of `data.tokens` in pipezero's order
(samples.py); where the file has text, they are drawn at random from the vocabulary. A step's time is wall time, from the end of one step to that of
the next, reading tokens included.

It prints a line of JSON: the median step without the first ones, tokens a second, and the share of the GPU's
peak by the same formula as for pipezero. If the GPU's memory is too small, a step is computed in two halves,
or four quarters, and the line says so (`micro_batch`).
"""

import argparse
import json
import os
import struct
import time

import torch
from torch import nn

from samples import Samples
from speed import measured, read_run, write
from torch_models import FAMILIES, name_here

BACKENDS = ("flash", "cudnn", "mem_efficient", "math")


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


def load(model, path):
    """Weights that pipezero has written, in f32."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, content = json.loads(file.read(length)), bytearray(file.read())
    tensors = {}
    for name, each in header.items():
        if name != "__metadata__":
            begin, end = each["data_offsets"]
            values = torch.frombuffer(content, dtype=torch.float32, offset=begin, count=(end - begin) // 4)
            tensors[name_here(name)] = values.view(each["shape"])
    if "head.weight" not in tensors:
        tensors["head.weight"] = tensors["tokens.weight"]
    model.load_state_dict(tensors)


def rates_of(path):
    """The learning rate of each step, as a run of pipezero has written it to its metrics.jsonl."""
    with open(path, encoding="utf-8") as file:
        return [line["lr"] for line in map(json.loads, file) if "lr" in line]


class Tokens:
    """Inputs and targets of each step."""

    def __init__(self, run, arguments):
        self.shape = (run["train_batch_size"], run["model"]["seq_length"] + 1)
        self.vocabulary = run["model"].get("vocab_size", 256)
        has_file = "tokens" in run["data"]
        self.samples = Samples(run, os.path.dirname(os.path.abspath(arguments.run))) if has_file else None

    def of_step(self, step):
        if self.samples is None:
            return torch.randint(self.vocabulary, self.shape)
        read = self.samples.of_step(step)
        # Types without a sign are not of every operation, so they are read as others, and the sign is taken away.
        is_wide = read.itemsize == 4
        values = torch.frombuffer(read, dtype=torch.int32 if is_wide else torch.int16).to(torch.int64)
        return (values & ((1 << 8 * read.itemsize) - 1)).view(self.shape)


def use_attention(name, run, device):
    """One of PyTorch's kernels for attention, or the one that is fastest at this run's shape."""
    choices = BACKENDS[:3] if name == "fastest" else (name,)
    if name == "any" or device != "cuda":
        return name
    if len(choices) > 1:
        from torch_attention import time_ms

        times = {}
        for choice in choices:
            times[choice] = sum(time_ms(choice, run["model"], run["train_batch_size"]))
        print(f"attention, forward and backward, ms: {times}")
        choices = (min(times, key=times.get),)
    for backend in BACKENDS:
        getattr(torch.backends.cuda, f"enable_{backend}_sdp")(backend == choices[0])
    return choices[0]


def train(run, arguments, device, num_parts):
    """The seconds of each step, and all losses."""
    torch.manual_seed(0)
    with torch.device(device):
        model = FAMILIES[run["model"]["family"]](run["model"])
    if arguments.weights:
        load(model, arguments.weights)
    optimizer = optimizer_of(model, run["optimizer"]["params"])
    loss_of = torch.compile(model) if arguments.how == "compile" else model
    rates = rates_of(arguments.rates) if arguments.rates else None
    tokens, is_bf16 = Tokens(run, arguments), run.get("bf16", {}).get("enabled", False)
    seconds, losses = [], []
    read = tokens.of_step(1)
    begins = time.perf_counter()
    for step in range(1, arguments.steps + 1):
        sample = read.to(device)
        for group in optimizer.param_groups if rates else ():
            group["lr"] = rates[step - 1]
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for part in sample.split(sample.shape[0] // num_parts):
            with torch.autocast(device, torch.bfloat16, enabled=is_bf16):
                loss = loss_of(part[:, :-1].contiguous(), part[:, 1:].contiguous()) / num_parts
            loss.backward()
            total = total + loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        # While the device computes.
        read = tokens.of_step(step + 1)
        # Where it waits for the device, as a program that prints its losses does.
        losses.append(total.item())
        ends = time.perf_counter()
        seconds.append(ends - begins)
        begins = ends
        if step <= 5 or step % 100 == 0 or step == arguments.steps:
            print(f"step {step}: {seconds[-1] * 1e3:.1f} ms, loss {losses[-1]:.4f}", flush=True)
    if arguments.profile:
        inputs = (sample[:, :-1].contiguous(), sample[:, 1:].contiguous())
        profile(arguments.profile, model, lambda: loss_of(*inputs), optimizer)
    return seconds, losses


def profile(path, model, forward, optimizer):
    """The kernels of three more steps, into a file; the ones that take most of a step as figures."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    device = next(model.parameters()).device.type
    activities += [torch.profiler.ProfilerActivity.CUDA] if device == "cuda" else []
    num_steps = 3
    with torch.profiler.profile(activities=activities) as profiled:
        for _ in range(num_steps):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16):
                loss = forward()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
    found = profiled.key_averages()
    with open(path, "w", encoding="utf-8") as file:
        file.write(found.table(sort_by="self_device_time_total", row_limit=60, max_name_column_width=90))
    # Operations of the host have the time of their kernels too, and marks span several: only kernels are added.
    of_device = [each for each in found if each.device_type != torch.autograd.DeviceType.CPU]
    kernels = [each for each in of_device if not each.key.startswith(("Optimizer.", "## Call", "Torch-Compiled"))]
    each_ms = sorted(((each.self_device_time_total / 1e3 / num_steps, each.key) for each in kernels), reverse=True)
    figures = {"kernels_ms": round(sum(ms for ms, _ in each_ms), 2)}
    figures |= {name[:60]: round(ms, 2) for ms, name in each_ms[:8]}
    print(f"figures: {json.dumps({'profile': figures})}")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--how", choices=("eager", "compile"), default="eager")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--skipped", type=int, default=5, help="first steps that do not count")
    parser.add_argument("--lines", help="where the line of JSON is added")
    parser.add_argument("--set", action="append", default=[], help="KEY.PATH=VALUE, as for pipezero")
    parser.add_argument("--what", help="its name in the line [torch and --how]")
    parser.add_argument("--weights", help="a weights.safetensors of pipezero to begin with")
    parser.add_argument("--rates", help="a metrics.jsonl of pipezero, whose learning rates are used")
    parser.add_argument("--losses", help="where a line of JSON is written for each step")
    parser.add_argument("--profile", help="where the table of kernels is written")
    parser.add_argument("--attention", choices=("any", "fastest", *BACKENDS), default="any")
    parser.add_argument("run")
    return parser.parse_args()


def trained(run, arguments, device):
    """In as many parts as memory asks for."""
    for num_parts in (1, 2, 4):
        try:
            return num_parts, *train(run, arguments, device, num_parts)
        except torch.OutOfMemoryError as error:
            print(f"does not fit in {num_parts} parts: {error}", flush=True)
        # Outside the block in which the error still holds what was allocated.
        torch.cuda.empty_cache()
    raise SystemExit("it does not fit into the GPU's memory in four parts")


def main():
    arguments = parse()
    run = read_run(arguments.run, arguments.set)
    # On a CPU this says nothing about speed; it is how the program is tried without a GPU.
    device = "cuda" if torch.cuda.is_available() else "cpu"
    attention = use_attention(arguments.attention, run, device)
    num_parts, seconds, losses = trained(run, arguments, device)
    if arguments.losses:
        with open(arguments.losses, "w", encoding="utf-8") as file:
            for step, loss in enumerate(losses, 1):
                file.write(json.dumps({"step": step, "loss": loss}) + "\n")
    more = {
        "micro_batch": run["train_batch_size"] // num_parts,
        "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "attention": attention,
        "loss": losses[-1],
    }
    what = arguments.what or f"torch {arguments.how}"
    write(measured(arguments.run, what, seconds, arguments.skipped, more, arguments.set), arguments.lines)


if __name__ == "__main__":
    main()
