"""Ends runs on the GPU in the middle, and looks at what they leave in its memory: nothing.

    python3 benches/gpu/left_behind.py --out DIR PIPEZERO RUN.json

A run is ended by Ctrl-C, by SIGTERM, and by SIGKILL, which it cannot see; and one is started that needs more
memory than the GPU has, which must say so. After each, nvidia-smi must show as little in
use as before. The exit status is 1 where something was left, or a run ended otherwise than it should.
"""

import argparse
import re
import signal
import subprocess
import sys
import time

# How long the driver may take to free what a killed process had.
FREED_WITHIN_S = 10
FIRST_STEP_WITHIN_S = 60


def used_mib():
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout)


def ended(command, signal_number):
    """The exit status of a run that gets a signal once it has trained a step."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + FIRST_STEP_WITHIN_S
    for line in process.stdout:
        print("   ", line, end="")
        if re.match(r"step \d+/", line) or time.monotonic() > deadline:
            break
    try:
        in_use = used_mib()
        process.send_signal(signal_number)
        rest = process.communicate(timeout=FIRST_STEP_WITHIN_S)[0]
    finally:
        process.kill()
    print(rest[-600:])
    return process.returncode, in_use


def freed(before):
    """MiB that are still in use beside what was before."""
    deadline = time.monotonic() + FREED_WITHIN_S
    while (left := used_mib() - before) > 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, help="run directory")
    parser.add_argument("pipezero")
    parser.add_argument("run")
    arguments = parser.parse_args()
    command = [arguments.pipezero, "train", arguments.run, "--set", "device=cuda", "--out", arguments.out]
    command += ["--overwrite"]
    before = used_mib()
    wrong = []
    for name, number in [("SIGINT", signal.SIGINT), ("SIGTERM", signal.SIGTERM), ("SIGKILL", signal.SIGKILL)]:
        status, in_use = ended([*command, "--set", "steps=100000"], number)
        left = freed(before)
        print(f"{name}: status {status}, {in_use - before} MiB were in use, {left} MiB are left")
        is_expected = status == (-number if number == signal.SIGKILL else 0)
        if left > 0 or in_use <= before or not is_expected:
            wrong.append(name)
    large = ["--set", "train_micro_batch_size_per_gpu=8192", "--set", "train_batch_size=8192"]
    refused = subprocess.run([*command, *large], capture_output=True, text=True, check=False)
    print(refused.stdout[-600:], refused.stderr[-1200:])
    says_why = " of memory" in refused.stderr and "is available" in refused.stderr
    if refused.returncode == 0 or not says_why or freed(before) > 0:
        wrong.append("too large")
    print(f"figure: {'wrong: ' + ', '.join(wrong) if wrong else 'nothing left after 3 signals and a refused run'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
