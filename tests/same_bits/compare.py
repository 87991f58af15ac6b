#!/usr/bin/env python3
"""Trains the same run files with two binaries and compares everything that they write, bit for bit.

    python3 tests/same_bits/compare.py OLD_BINARY NEW_BINARY [--only WORD]

The run files are the examples of engine/configs, cut to 5 steps, and one for every schedule, precision, ZeRO level, family and
feature below. All of them train on one text: docs/*.md, copied once and given to both binaries. Compared are the losses, gradient norms, rates and loss scales of every step, the evaluations, the final weights, and
each rank's memory and traffic. Times and throughput are not. The exit status is 1 where anything differs.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

GPT = {"family": "gpt2", "num_layers": 8, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 32, "vocab_size": 256}
BASE = {
    "model": GPT,
    "parallel": {"pipeline": 2, "data": 2},
    "zero_optimization": {"stage": 3},
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "evaluation": {"every": 2, "batches": 1},
    "seed": 3,
}
ORDER = "0F0,0F1,0F2,0B0,0F3,0B1,,0B2,,0B3\n,1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3,\n"


def changed(changes):
    """The base run with these keys; a key with a dot is one of a section."""
    run = json.loads(json.dumps(BASE))
    for path, value in changes.items():
        *sections, key = path.split(".")
        place = run
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = value
    return run


def made():
    """One run file for every feature: (name, run)."""
    schedules = {
        "gpipe": {},
        "1f1b": {},
        "eager-1f1b": {},
        "interleaved": {"virtual_stages": 2},
        "bfs": {"virtual_stages": 2},
        "zb-h1": {},
        "zb-h2": {},
        "zb-v": {},
    }
    for schedule, more in schedules.items():
        keys = {f"parallel.{key}": value for key, value in more.items()}
        yield f"schedule-{schedule}", changed({"parallel.schedule": schedule, **keys})
        yield f"schedule-{schedule}-zero1", changed(
            {"parallel.schedule": schedule, "zero_optimization.stage": 1, "model.tie_embeddings": True, **keys}
        )
    yield "schedule-file", changed({"parallel.schedule": {"file": "order.csv"}})
    for precision, section in {"bf16": {"enabled": True}, "fp16": {"enabled": True, "initial_scale_power": 8}}.items():
        yield f"precision-{precision}", changed({precision: section})
        yield f"precision-{precision}-zb", changed({precision: section, "parallel.schedule": "zb-h1"})
    yield "zero0", changed({"zero_optimization.stage": 0})
    yield "zero2", changed({"zero_optimization.stage": 2, "parallel.pipeline": 1, "parallel.data": 3})
    yield "zero3-last", changed({"zero_optimization.reduce": "last"})
    yield "zero3-strict", changed({"zero_optimization.resident_units": "strict", "zero_optimization.prefetch_units": 0})
    yield "zero3-half-units", changed({"zero_optimization.unit_layers": 0.5, "zero_optimization.prefetch_units": 2})
    yield "zero3-auto", changed({"zero_optimization.resident_units": "auto", "memory": "4MiB"})
    yield "zero3-persistent", changed({"zero_optimization.stage3_param_persistence_threshold": 5000})
    yield "tied", changed({"model.tie_embeddings": True})
    yield "dropout", changed({"model.dropout": 0.1})
    yield "checkpointing", changed({"activation_checkpointing": {"enabled": True}})
    yield "sgd", changed({"optimizer": {"type": "SGD", "params": {"lr": 0.01, "momentum": 0.9}}})
    yield "parameters", changed({"parallel.partition": "parameters"})
    yield "by-type", changed({"parallel.partition": "type:attn"})
    yield "by-hand", changed({"parallel.partition": [3, 5]})
    yield "few-micro-batches", changed({"parallel.pipeline": 4, "gradient_accumulation_steps": 1})
    yield "mlp", changed({"model": {"family": "mlp", "num_layers": 6, "hidden_size": 24, "seq_length": 16, "vocab_size": 256}, "parallel.partition": "uniform"})
    yield "links", changed(
        {"comm": {"links": {"ranks_per_node": 2, "near": {"latency_us": 5, "gb_per_s": 100}, "far": {"latency_us": 50, "gb_per_s": 10}}}}
    )


def examples():
    """The example runs: (name, run)."""
    for path in sorted((ROOT / "engine/configs").glob("*.json")):
        run = json.loads(path.read_text())
        run.pop("$schema", None)
        if path.stem == "gpt2-124m":
            # Its own batch would take hours on two cores.
            run["model"]["seq_length"] = 32
            run["train_micro_batch_size_per_gpu"], run["gradient_accumulation_steps"] = 1, 2
        yield f"example-{path.stem}", run


def summary_of(out):
    """What a run wrote and what does not depend on the clock."""
    clocks = {"tokens_per_s", "step_s", "tflops", "mfu", "exposed_comm_s", "idle_s"}
    lines = []
    for line in (out / "metrics.jsonl").read_text().splitlines():
        lines.append({key: value for key, value in json.loads(line).items() if key not in clocks})
    summary = json.loads((out / "summary.json").read_text())
    ranks = [{key: rank[key] for key in ("rank", "memory", "traffic")} for rank in summary["ranks"]]
    weights = [path for path in sorted(out.glob("*.safetensors"))]
    assert weights, f"{out} has no weights"
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in weights]
    return {"metrics": lines, "ranks": ranks, "weights": hashes}


def train(binary, file, out):
    command = [binary, "train", str(file), "--out", str(out)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} exits {done.returncode}:\n{done.stderr[-2000:]}")
    return summary_of(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", default="", help="run files whose name contains this word")
    arguments = parser.parse_args()
    num_runs = num_different = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        texts = sorted((ROOT / "docs").glob("*.md"))
        (folder / "text.md").write_bytes(b"".join(path.read_bytes() for path in texts))
        (folder / "order.csv").write_text(ORDER)
        for name, run in [*examples(), *made()]:
            if arguments.only not in name:
                continue
            if run["model"]["family"] != "timed" or "data" in run:
                run["data"] = {"text": "text.md", "validation": 0.1}
            run["steps"] = 5
            file = folder / f"{name}.json"
            file.write_text(json.dumps(run, indent=1))
            old, new = (train(binary, file, folder / f"{name}-{side}") for side, binary in
                        (("old", arguments.old), ("new", arguments.new)))
            num_runs += 1
            parts = [part for part in old if old[part] != new[part]]
            num_different += bool(parts)
            loss = next((line["loss"] for line in reversed(new["metrics"]) if "loss" in line), None)
            verdict = f"DIFFERENT in {', '.join(parts)}" if parts else "equal"
            print(f"{name:32} {verdict}  (last loss {loss}, weights {new['weights'][0][:12]})", flush=True)
    print(f"{num_runs} run files, {num_different} of them different")
    sys.exit(1 if num_different or not num_runs else 0)


if __name__ == "__main__":
    main()
