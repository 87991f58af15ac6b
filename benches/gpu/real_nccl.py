#!/usr/bin/env python3
"""Loads NVIDIA's NCCL where there is no GPU: it is found, has the version that it should, makes ids and explains errors.

    cargo test -p tests --test it --no-run        # says where the program of the tests is
    python3 benches/gpu/real_nccl.py PROGRAM

The library comes from NVIDIA's package for Python and is installed into target/nccl. The driver and its other libraries are fake (tests/fake_gpu),
which it does not know; so it refuses to connect anything, and says why.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = "2.28.9"
TEST = "cuda::on_a_device::real_nccl"


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = ROOT / "target/nccl"
    library = folder / "nvidia/nccl/lib/libnccl.so.2"
    if not library.exists():
        package = f"nvidia-nccl-cu13=={VERSION}"
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), package]
        subprocess.run(install, check=True)
    fake_gpu = ROOT / "target/fake-gpu"
    kernels = ROOT / "models/src/queue/cuda/kernels"
    subprocess.run(["sh", str(ROOT / "tests/fake_gpu/build.sh"), str(fake_gpu), str(kernels)], check=True)
    variables = {
        "LD_LIBRARY_PATH": f"{library.parent}:{fake_gpu}",
        "PIPEZERO_CACHE": "",
        "PIPEZERO_REAL_NCCL": VERSION,
    }
    test = [sys.argv[1], TEST, "--ignored", "--nocapture"]
    done = subprocess.run(test, env=os.environ | variables, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0 or "1 passed" not in done.stdout:
        sys.exit(f"{done.stdout}\n{done.stderr}")
    print(*[line for line in done.stdout.splitlines() if line.startswith("figure: ")], sep="\n")


if __name__ == "__main__":
    main()
