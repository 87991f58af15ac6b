"""Runs `pipezero train` on the GPU, and holds the memory that it uses against what was planned.

    python3 benches/gpu/memory.py --out DIR [--is-tiny] [--kept FILE] PIPEZERO RUN.json [argument of train]

Three figures: what `pipezero plan` says; what the run's own ledger counted (summary.json), which must be
equal; and by how much the GPU's memory in use rose, which nvidia-smi is asked every 0.1 seconds. The last is
larger: it contains the driver's context, the kernels' code and the libraries' buffers. A run with `--is-tiny`
has next to no memory of its own, so it says how large these are, and writes that to the file of `--kept`. A
run without it reads the file, and lists them apart from what remains, such as the driver's rounding of each
buffer to pages of 2 MiB.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading

MIB = 1 << 20


class Watched:
    """The GPU's memory in use, in MiB: before a run, and its peak."""

    def __init__(self):
        self.first = self.peak = None
        self.began = threading.Event()
        query = [
            "nvidia-smi",
            "--query-gpu=memory.used",
            "--format=csv,noheader,nounits",
            "--id=0",
            "-lms",
            "100",
        ]
        self.asking = (
            subprocess.Popen(query, stdout=subprocess.PIPE, text=True) if shutil.which(query[0]) else None
        )
        if self.asking:
            threading.Thread(target=self.read, daemon=True).start()
            self.began.wait(15)

    def read(self):
        for line in self.asking.stdout:
            if line.strip().isdigit():
                used = int(line)
                self.first = used if self.first is None else self.first
                self.peak = max(used, self.peak or 0)
            self.began.set()

    def rise_bytes(self):
        if self.asking:
            self.asking.kill()
        return None if self.peak is None else (self.peak - self.first) * MIB


def peaks(ranks):
    return [rank["memory"]["peak"] for rank in ranks]


def planned(pipezero, run, settings):
    command = [pipezero, "plan", run, "--json", *settings]
    return peaks(
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["ranks"]
    )


def in_mib(num_bytes):
    return f"{num_bytes / MIB:.1f} MiB"


def beside(rise, ledger, arguments):
    """Lines about what the GPU has in use beside the run's buffers, and the same in short."""
    if rise is None:
        return [], "there is no nvidia-smi to ask"
    more = rise - ledger
    lines = [
        f"rise of the GPU's memory in use    {in_mib(rise)}",
        f"beside the ledger                  {in_mib(more)}",
    ]
    if arguments.is_tiny:
        with open(arguments.kept, "w", encoding="utf-8") as file:
            json.dump({"beside_bytes": more}, file)
        return lines, f"context, code and libraries {in_mib(more)}"
    if not os.path.exists(arguments.kept):
        return lines, f"GPU {in_mib(rise)}"
    with open(arguments.kept, encoding="utf-8") as file:
        fixed = json.load(file)["beside_bytes"]
    lines.append(f"  context, code and libraries      {in_mib(fixed)}")
    lines.append(f"  the rest                         {in_mib(more - fixed)}")
    parts = f"context, code and libraries {in_mib(fixed)}, the rest {in_mib(more - fixed)}"
    return lines, f"GPU {in_mib(rise)}, of it {parts}"


def settings_of(others):
    """The pairs `--set KEY=VALUE` among arguments of train: `plan` takes these alone."""
    places = [place for place, other in enumerate(others) if other == "--set"]
    return ["--set", "device=cuda", *(each for place in places for each in others[place : place + 2])]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, help="the run directory")
    parser.add_argument("--is-tiny", action="store_true")
    parser.add_argument("--kept", default="beside.json")
    parser.add_argument("pipezero")
    parser.add_argument("run")
    parser.add_argument("others", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    plan = planned(arguments.pipezero, arguments.run, settings_of(arguments.others))
    watched = Watched()
    command = [arguments.pipezero, "train", arguments.run, "--set", "device=cuda", *arguments.others]
    status = subprocess.run([*command, "--out", arguments.out, "--overwrite"], check=False).returncode
    rise = watched.rise_bytes()
    if status != 0:
        sys.exit(status)
    with open(os.path.join(arguments.out, "summary.json"), encoding="utf-8") as file:
        ledger = peaks(json.load(file)["ranks"])
    lines, in_short = beside(rise, sum(ledger), arguments)
    print(f"planned, all ranks                 {in_mib(sum(plan))}")
    print(f"measured by the ledger, all ranks  {in_mib(sum(ledger))}")
    print("\n".join(lines))
    verdict = "= planned" if plan == ledger else f"and planned were {plan}"
    print(f"figure: measured on all ranks ({len(ledger)}) {in_mib(sum(ledger))} {verdict}; {in_short}")
    sys.exit(0 if plan == ledger else 1)


if __name__ == "__main__":
    main()
