"""Runs gpu_kernels, keeps its table, and says which kernels take most of a step's time and how far each is
from its floor.

    python3 benches/gpu/kernels.py --table FILE.csv GPU_KERNELS --model 124m

The table has a line for each kernel and shape: `kernel,shape,ns,bytes,flops,floor_ns,share`. The floor is the
least time that the bytes at the memory's speed, or the operations at the GPU's peak, allow. Lines go to
FILE.csv as they come, so that a kernel that hangs hides none before it.
"""

import argparse
import csv
import json
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    with open(arguments.table, "w", encoding="utf-8") as table:
        running = subprocess.Popen(arguments.command, stdout=subprocess.PIPE, text=True)
        for line in running.stdout:
            table.write(line)
            table.flush()
            print(line, end="", flush=True)
    status = running.wait()
    with open(arguments.table, encoding="utf-8") as table:
        rows = [row for row in csv.DictReader(table) if row.get("floor_ns")]
    if not rows:
        sys.exit(f"no line of a kernel; status {status}")
    times = {f"{row['kernel']} {row['shape']}": round(float(row["ns"]) / 1e3, 1) for row in rows}
    print(f"figures: {json.dumps({'us': times})}")
    rows.sort(key=lambda row: float(row["ns"]) - float(row["floor_ns"]), reverse=True)
    farthest = (
        f"{row['kernel']} {float(row['floor_ns']) / max(1.0, float(row['ns'])):.0%}" for row in rows[:3]
    )
    print(f"figure: {len(rows)} kernels; most time above their floor, with floor/time: {', '.join(farthest)}")
    sys.exit(status)


if __name__ == "__main__":
    main()
