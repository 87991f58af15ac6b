"""The account of one training step: each kernel, how often it is called, and its time, by the run's own events or by NVIDIA's profiler (ncu).

    python3 benches/gpu/account.py --table FILE.csv PIPEZERO profile RUN.json --set device=cuda --out COSTS --kernels KERNELS.csv
    python3 benches/gpu/account.py --ncu NCU --table FILE.csv PIPEZERO train RUN.json --set device=cuda --set steps=3 --out DIR

The run's own events stand before and behind each call on its stream, and copies and clears are counted too. ncu times each kernel by itself, with
caches and clocks as they are (`--cache-control none --clock-control none`), so that times are near those of a run; its step is the last one that is
whole: from a launch of `embedding` behind one of the optimizer to the next such launch, or to the run's end.
"""

import argparse
import collections
import csv
import json
import os
import subprocess
import sys
import tempfile

OPTIONS = ("--metrics", "gpu__time_duration.sum", "--cache-control", "none", "--clock-control", "none", "--csv")
NS = {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
FIRST, OPTIMIZER = "embedding", "adamw"
# Kernels of cuBLASLt, by the beginnings or parts of their names.
PRODUCTS = ("nvjet", "cutlass", "gemm", "cublas", "splitK")


def launches(path):
    """Name and nanoseconds of each launch, in their order."""
    with open(path, encoding="utf-8", errors="replace") as file:
        # Lines of ncu itself, and of the program, stand before and between.
        lines = [line for line in file if line.startswith('"')]
    found = []
    for row in csv.DictReader(lines):
        if row.get("Metric Name") == "gpu__time_duration.sum":
            name = row["Kernel Name"].split("(")[0].strip()
            found.append((name, float(row["Metric Value"].replace(",", "")) * NS[row["Metric Unit"]]))
    return found


def last_step(found):
    """The launches of the last step that has an optimizer."""
    steps, has_optimizer = [[]], False
    for launch in found:
        if launch[0] == FIRST and has_optimizer:
            steps.append([])
            has_optimizer = False
        has_optimizer = has_optimizer or launch[0] == OPTIMIZER
        steps[-1].append(launch)
    whole = [step for step in steps if any(name == OPTIMIZER for name, _ in step)]
    return whole[-1] if whole else []


def is_product(name):
    return any(part in name for part in PRODUCTS)


def by_ncu(arguments):
    """Nanoseconds of each launch of a step, by kernel."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "ncu.csv")
        status = subprocess.run(
            [arguments.ncu, *OPTIONS, "--log-file", log, *arguments.command], check=False
        ).returncode
        found = launches(log) if os.path.exists(log) else []
    step = last_step(found)
    if status != 0 or not step:
        sys.exit(f"ncu ended with status {status}; {len(found)} launches, of which {len(step)} are of a whole step")
    times = collections.defaultdict(list)
    for name, ns in step:
        times[name].append(ns)
    return times


def by_events(arguments):
    """The same, by what the run itself has written: as if all calls of one size took equally long."""
    status = subprocess.run(arguments.command, check=False).returncode
    if status != 0:
        sys.exit(f"the run ended with status {status}")
    times = collections.defaultdict(list)
    with open(arguments.command[arguments.command.index("--kernels") + 1], encoding="utf-8") as file:
        for row in csv.DictReader(file):
            calls = int(row["calls"])
            times[row["kernel"]] += [float(row["ns"]) / calls] * calls
    return times


def figures_of(times):
    """What the ledger keeps, in ms."""

    def ms(is_counted):
        return round(sum(sum(each) for name, each in times.items() if is_counted(name)) / 1e6, 3)

    return {
        "kernels_ms": ms(lambda name: True),
        "num_launches": sum(map(len, times.values())),
        "products_ms": ms(is_product),
        "attention_ms": ms(lambda name: name.startswith("attention")),
        "embedding_backward_ms": ms(lambda name: name == "embedding_backward"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ncu", help="NVIDIA's program [the run's own events]")
    parser.add_argument("--table", required=True, help="where the account goes, as CSV")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    times = by_ncu(arguments) if arguments.ncu else by_events(arguments)
    total = sum(map(sum, times.values()))
    with open(arguments.table, "w", encoding="utf-8") as file:
        file.write("kernel,calls,us_each,ms,share\n")
        for name, each in sorted(times.items(), key=lambda pair: -sum(pair[1])):
            ms = sum(each) / 1e6
            file.write(f"{name},{len(each)},{ms * 1e3 / len(each):.1f},{ms:.3f},{ms * 1e6 / total:.4f}\n")
    with open(arguments.table, encoding="utf-8") as file:
        print(file.read())
    print(f"figures: {json.dumps(figures_of(times))}")


if __name__ == "__main__":
    main()
