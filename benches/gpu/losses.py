"""Compares the losses of two runs of the same run file, on a GPU and on a CPU.

    python3 benches/gpu/losses.py --name f32 --limit 1e-4 --table A-losses.tsv RUN_ON_GPU RUN_ON_CPU

Both runs begin with the same weights and see the same samples, but add in other orders. Training amplifies
whatever differs (docs/numerics.md), most of all where the first steps are too long; so these runs begin with
a learning rate that rises from 0. The limit is many times what rounding explains and far below what a wrong
gradient does. The exit status is 1 beyond it.
"""

import argparse
import json
import math
import os
import sys


def losses(folder):
    """By step."""
    found = {}
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        for line in map(json.loads, file):
            if "loss" in line:
                found[line["step"]] = line["loss"]
    return found


def difference(gpu, cpu):
    """As a share of the CPU's. A loss that is no number is as far away as can be."""
    if gpu is None or cpu is None or not (math.isfinite(gpu) and math.isfinite(cpu)):
        return math.inf
    return abs(gpu - cpu) / abs(cpu)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", required=True, help="of the comparison, in the table")
    parser.add_argument("--limit", type=float, required=True, help="of the share that losses may differ by")
    parser.add_argument("--table", help="a file to which each step's losses are added")
    parser.add_argument("gpu", help="run directory")
    parser.add_argument("cpu", help="run directory")
    arguments = parser.parse_args()
    gpu, cpu = losses(arguments.gpu), losses(arguments.cpu)
    steps = sorted(gpu.keys() | cpu.keys())
    if not steps:
        sys.exit("neither run has a step")
    shares = {step: difference(gpu.get(step), cpu.get(step)) for step in steps}
    rows = [
        f"{arguments.name}\t{step}\t{gpu.get(step)}\t{cpu.get(step)}\t{shares[step]:.2e}" for step in steps
    ]
    print("\n".join(rows))
    if arguments.table:
        is_new = not os.path.exists(arguments.table)
        with open(arguments.table, "a", encoding="utf-8") as file:
            file.write(("run\tstep\tgpu\tcpu\tdifference\n" if is_new else "") + "\n".join(rows) + "\n")
    largest = max(shares.values())
    print(
        f"figure: largest difference {largest:.1e} in {len(steps)} steps (limit {arguments.limit:.0e}); "
        f"last loss {gpu.get(steps[-1])}"
    )
    figures = {"largest_difference": largest, "num_steps": len(steps), "last_loss": gpu.get(steps[-1])}
    print(f"figures: {json.dumps({arguments.name: figures})}")
    # Written so that NaN fails.
    sys.exit(0 if largest <= arguments.limit else 1)


if __name__ == "__main__":
    main()
