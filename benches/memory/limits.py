"""Runs under control groups with little memory: each lives under what `pipezero plan` says that its process needs, and no plan says much more.

    python3 benches/memory/limits.py PIPEZERO [--only NAME] [--folder DIR]

Needs root, and control groups of version 1 or 2. For each run it prints the planned figure, whether the run lives under that figure rounded up to a
MiB, whether it is refused at 95 % of it before it starts, and the smallest limit under which it lives. For the last one the program must not see the
limit, or it would refuse: it runs in a mount namespace of its own, in which /sys/fs/cgroup is empty. The exit status is 1 where a run dies under its
plan or starts below it, or where the smallest limit is less than 93 % of the plan. Nothing is left behind.
"""

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile

MIB = 1 << 20
# A run that takes longer has stopped.
TIMEOUT_S = 300


class Group:
    """A control group that bounds memory, of either version."""

    def __init__(self, name):
        old = "/sys/fs/cgroup/memory"
        self.is_v1 = os.path.exists(old + "/memory.limit_in_bytes")
        self.folder = os.path.join(old if self.is_v1 else "/sys/fs/cgroup", name)
        os.mkdir(self.folder)
        if not self.is_v1:
            self.write("memory.swap.max", 0)

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(str(value))

    def limit(self, num_bytes):
        """Bounds what processes that are started from now on may hold; `None` is no bound."""
        # Cached files of the last run do not count against this one.
        if self.is_v1:
            self.write("memory.force_empty", 0)
            self.write("memory.limit_in_bytes", -1 if num_bytes is None else num_bytes)
        else:
            self.write("memory.max", "max" if num_bytes is None else num_bytes)

    def run(self, command, folder, hides_limit=False):
        """The exit status and the output of a command in the group."""
        if hides_limit:
            script = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\""
            command = ["unshare", "--mount", "sh", "-c", script, "sh", *command]
        enter = 'echo $$ > "$1"; shift; exec "$@"'
        command = ["sh", "-c", enter, "sh", os.path.join(self.folder, "cgroup.procs"), *command]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S)
        return done.returncode, done.stdout

    def remove(self):
        os.rmdir(self.folder)


def gpt(layers, width, vocabulary=256, length=64, heads=8, family="gpt2", **more):
    return {"family": family, "num_layers": layers, "hidden_size": width, "num_attention_heads": heads, "seq_length": length,
            "vocab_size": vocabulary, **more}


def run(model, **sections):
    adam = {"type": "AdamW", "params": {"lr": 0.0001}}
    data = {"text": "text.txt", "validation": 0.1}
    base = {"model": model, "data": data, "train_batch_size": 8, "steps": 3, "optimizer": adam, "threads": 1,
            "evaluation": {"every": 2, "batches": 1}}
    return base | sections


# Every cause weighs most in one of them: parameters, activations, logits, ranks, threads, text, a tokenizer, checkpoints.
RUNS = {
    "one rank, 200 MiB": run(gpt(4, 512)),
    "one rank, logits": run(gpt(2, 128, vocabulary=32768, length=128)),
    "one rank, two threads": run(gpt(6, 768), threads=2),
    "pipeline of 2": run(gpt(8, 512), parallel={"pipeline": 2}, gradient_accumulation_steps=4),
    "2 x 2, ZeRO-3": run(gpt(8, 768), parallel={"pipeline": 2, "data": 2}, zero_optimization={"stage": 3},
                         gradient_accumulation_steps=2),
    "4 data ranks, ZeRO-1, bf16": run(gpt(6, 512), parallel={"data": 4}, zero_optimization={"stage": 1}, bf16={"enabled": True}),
    "8 ranks": run(gpt(8, 512), parallel={"pipeline": 4, "data": 2}, gradient_accumulation_steps=4),
    "checkpoints": run(gpt(6, 640), checkpoint={"every": 1, "keep": 1}),
    "400 MB of text": run(gpt(4, 512, family="llama"), data={"text": "large.txt", "validation": 0.05}),
    "one rank, 2 GiB": run(gpt(12, 896)),
    "2 data ranks, ZeRO-2": run(gpt(4, 512), parallel={"data": 2}, zero_optimization={"stage": 2}, gradient_accumulation_steps=2),
}


def texts(folder):
    words = ["the ", "cat ", "sat ", "on a ", "mat, ", "and ", "then ", "it\n"]
    text = "".join(words[index * index % 7 % 8] for index in range(100_000))
    with open(os.path.join(folder, "text.txt"), "w") as file:
        file.write(text)
    with open(os.path.join(folder, "large.txt"), "w") as file:
        while file.tell() < 400_000_000:
            file.write(text)


def smallest(group, command, folder, planned, enough):
    """The smallest limit in MiB under which a run lives that does not see it; that of 93 % of the plan where it lives even there."""

    def lives(limit):
        group.limit(limit * MIB)
        return group.run(command, folder, hides_limit=True)[0] == 0

    too_few, enough = planned * 93 // 100 // MIB, enough // MIB
    if lives(too_few):
        return too_few
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if lives(middle) else (middle, enough)
    return enough


def examine(group, program, name, folder):
    path = os.path.join(folder, "run.json")
    with open(path, "w") as file:
        json.dump(RUNS[name], file)
    group.limit(None)
    command = [program, "plan", path, "--json"]
    plan = json.loads(subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout)
    planned = plan["process"]["bytes"]
    ranks = sum(rank["memory"]["peak"] for rank in plan["ranks"])
    train = [program, "train", path, "--out", os.path.join(folder, "out"), "--overwrite"]
    enough = math.ceil(planned / MIB) * MIB
    group.limit(enough)
    status, said = group.run(train, folder)
    lives = status == 0
    if not lives:
        print(said[-2000:], status)
    group.limit(int(planned * 0.95))
    status, said = group.run(train, folder)
    is_refused = status == 1 and re.search(r"error: the run needs .* of memory \(ranks: ", said) is not None
    if not is_refused:
        print(said[-2000:], status)
    least = smallest(group, train, folder, planned, enough if lives else 2 * enough)
    return ranks, planned, lives, is_refused, least


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--only")
    parser.add_argument("--folder", help="where runs are written [default: a temporary folder]")
    args = parser.parse_args()
    # So that the group and the folder are removed too where this script is ended.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    group = Group(f"pipezero-limits-{os.getpid()}")
    is_good = True
    print(f"| {'run':<28} | ranks MiB | planned MiB | lives at it | refused at 95 % | smallest MiB | of the plan |")
    print("|---|---|---|---|---|---|---|")
    try:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            texts(folder)
            for name in [args.only] if args.only else RUNS:
                ranks, planned, lives, is_refused, least = examine(group, os.path.abspath(args.program), name, folder)
                share = least * MIB / planned
                is_good = is_good and lives and is_refused and share >= 0.93
                print(f"| {name:<28} | {ranks / MIB:.1f} | {planned / MIB:.1f} | {'yes' if lives else 'NO'} | {'yes' if is_refused else 'NO'} | {least} | {100 * share:.1f} % |", flush=True)
    finally:
        group.remove()
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
