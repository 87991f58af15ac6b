"""Trains one run on several grids of ranks, all on this GPU, and compares the weights that they write: the same bits.

    python3 benches/gpu/same_weights.py --out DIR [--set KEY=VALUE] PIPEZERO RUN.json

Twice one rank, so that a race shows even there, and two stages; two data ranks, and the same in two stages with ZeRO-3. The exit status is 1 where
two of equal data degree differ.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys

# Of equal data degree, since the gradients of more data ranks are added in another order.
GRIDS = (
    {"1 rank": (), "1 rank again": (), "2 stages": ("parallel.pipeline=2",)},
    {
        "2 data ranks": ("parallel.data=2",),
        "2 x 2, ZeRO-3": ("parallel.pipeline=2", "parallel.data=2", "zero_optimization.stage=3"),
    },
)


def trained(arguments, name, settings):
    """The hash of the weights that a run has written."""
    folder = os.path.join(arguments.out, name.replace(" ", "-"))
    command = [arguments.pipezero, "train", arguments.run, "--out", folder, "--overwrite"]
    for setting in ("device=cuda", *arguments.set, *settings):
        command += ["--set", setting]
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        sys.exit(f"{name}: status {status}")
    path = os.path.join(folder, "weights.safetensors")
    with open(path, "rb") as file:
        hashed = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    os.remove(path)
    return hashed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for run directories")
    parser.add_argument("--set", action="append", default=[], help="KEY.PATH=VALUE, as for pipezero")
    parser.add_argument("pipezero")
    parser.add_argument("run")
    arguments = parser.parse_args()
    hashes = [{name: trained(arguments, name, each) for name, each in grids.items()} for grids in GRIDS]
    is_same = all(len(set(each.values())) == 1 for each in hashes)
    print(f"figures: {json.dumps({'is_same': is_same, 'weights': hashes[0] | hashes[1]})}")
    sys.exit(0 if is_same else 1)


if __name__ == "__main__":
    main()
