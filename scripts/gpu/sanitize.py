"""Runs tests of kernels under the tools of NVIDIA's compute-sanitizer, many processes at once.

    python3 scripts/gpu/sanitize.py [--limit SECONDS] [--tools a,b] SANITIZER IT FILTER

A tool makes a kernel up to a thousand times as slow, so each test has a process of its own with each tool, as
many at once as there are cores. A pair of test and tool that is not done when the limit is over is named as
unfinished. The exit status is 1 where a tool reported something, or a test failed.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

# racecheck is the slowest, so it begins first.
TOOLS = ("racecheck", "initcheck", "memcheck", "synccheck")


def tests(program, wanted):
    listed = subprocess.run([program, wanted, "--ignored", "--list"], capture_output=True, text=True, check=True)
    return [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]


def run(sanitizer, program, tool, test, ends):
    """What became of one test under one tool, and what was printed where it is not clean."""
    left = ends - time.monotonic()
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--print-limit", "5"]
    command += [program, test, "--exact", "--ignored"]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=max(left, 0.1), check=False
        )
    except subprocess.TimeoutExpired:
        return "unfinished", ""
    is_clean = done.returncode == 0 and re.search(r"SUMMARY: 0 (errors|hazards)", done.stdout)
    return ("clean", "") if is_clean else ("NOT CLEAN", done.stdout[:6000])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=140, help="seconds")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("sanitizer", help="NVIDIA's program")
    parser.add_argument("it", help="the program of the tests")
    parser.add_argument("filter", help="of its tests")
    arguments = parser.parse_args()
    begins = time.monotonic()
    ends = begins + arguments.limit
    found = tests(arguments.it, arguments.filter)
    if not found:
        sys.exit(f"no test is named {arguments.filter}")
    pairs = [(tool, test) for tool in arguments.tools.split(",") for test in found]
    counts = {}

    def one(pair):
        result, text = run(arguments.sanitizer, arguments.it, *pair, ends)
        tool, test = pair
        print(f"{time.monotonic() - begins:6.1f} s  {tool:9}  {result:10}  {test}\n{text}", end="", flush=True)
        counts[tool, result] = counts.get((tool, result), 0) + 1

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, pairs))
    each = [f"{tool}: {counts.get((tool, 'clean'), 0)} of {len(found)} tests clean" for tool in arguments.tools.split(",")]
    unfinished = sum(count for (_, result), count in counts.items() if result == "unfinished")
    wrong = sum(count for (_, result), count in counts.items() if result == "NOT CLEAN")
    print(f"figure: {', '.join(each)}; {unfinished} unfinished, {wrong} not clean")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
