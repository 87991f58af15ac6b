"""Runs tests of kernels under the tools of NVIDIA's compute-sanitizer, many processes at once.

    python3 benches/gpu/sanitize.py [--limit SECONDS] [--tools a,b] SANITIZER IT FILTER

A tool makes a kernel up to a thousand times as slow, so each test has a process of its own with each tool, as
many at once as there are cores. The exit status is 1 where a tool reported something, a test failed, or was
not done when the limit was over.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
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
    # The tool starts the test as a process of its own, which must end with it.
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        printed, _ = running.communicate(timeout=max(left, 0.1))
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        return "unfinished", ""
    is_clean = running.returncode == 0 and re.search(r"SUMMARY: 0 (errors|hazards)", printed)
    return ("clean", "") if is_clean else ("NOT CLEAN", printed[:6000])


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

    def one(pair):
        result, text = run(arguments.sanitizer, arguments.it, *pair, ends)
        tool, test = pair
        print(f"{time.monotonic() - begins:6.1f} s  {tool:9}  {result:10}  {test}\n{text}", end="", flush=True)
        return tool, result

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = Counter(pool.map(one, pairs))
    each = [f"{tool}: {counts[tool, 'clean']} of {len(found)} tests clean" for tool in arguments.tools.split(",")]
    unfinished = sum(count for (_, result), count in counts.items() if result == "unfinished")
    wrong = sum(count for (_, result), count in counts.items() if result == "NOT CLEAN")
    print(f"figure: {', '.join(each)}; {unfinished} unfinished, {wrong} not clean")
    figures = {tool: counts[tool, "clean"] for tool in arguments.tools.split(",")}
    figures |= {"num_tests": len(found), "unfinished": unfinished, "not_clean": wrong}
    print(f"figures: {json.dumps(figures)}")
    sys.exit(1 if wrong or unfinished else 0)


if __name__ == "__main__":
    main()
