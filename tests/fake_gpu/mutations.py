#!/usr/bin/env python3
"""Puts faults into runs on the fake GPU, one at a time, and writes a table of what finds them.

    cargo test -p tests --test it --no-run        # says where the program of the tests is
    tests/fake_gpu/mutations.py PROGRAM --seeds 20 --out table.csv

Faults are in kernels (`kernel_faults.py`), and in what a program asks of the driver and of cuBLASLt
(`faults.h`).
Only tests that reach a fault are run for it, quick ones first. Ends with 1 if a fault is never found that
`equivalents.txt` does not know.
"""

import argparse
import csv
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

# No folder of compiled files beside the sources.
sys.dont_write_bytecode = True

from call_sites import named_sites
from kernel_faults import rewrite_kernels

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
ALL_TESTS = "cuda::on_a_device::"
# Tests that take seconds: they are run for what no other test finds, and on fewer seeds.
SLOW_TESTS = ("::training::", "::state::", "::features::", "::orders::")
# Tests of several processes, which need a host in common.
OTHER_TESTS = ("::processes::",)
# Faults in the text of kernels.
KINDS_IN_KERNELS = {"barrier", "mask", "mode", "bound", "stride", "sum", "store"}
# Faults that are asked for in each kernel on its own, wherever the code is that they have in common.
KINDS_BY_KERNEL = ("barrier", "mask")
# How many times longer than it computes a test may take, on a machine that does other things too.
BUSY = 10


@dataclass
class Test:
    name: str
    seconds: float = 0.0

    @property
    def is_slow(self):
        return any(part in self.name for part in SLOW_TESTS)


@dataclass
class Fault:
    """A fault that some test reaches."""

    setting: str  # For FAKE_GPU_FAULT.
    # What it is called in the table and in `equivalents.txt`.
    kind: str
    name: str
    place: str
    tests: list = field(default_factory=list)


@dataclass
class Finding:
    """What became of a fault: which tests found it, on how many seeds, and how they failed."""

    num_seeds: int = 0
    num_found: int = 0
    by: Counter = field(default_factory=Counter)
    how: Counter = field(default_factory=Counter)


class Runner:
    """Runs tests of the program on the fake GPU."""

    def __init__(self, program, libraries, folder, devices):
        self.program = program
        self.libraries = libraries
        self.folder = folder
        self.devices = devices

    def start(self, command, limit, variables):
        """Runs it for so many seconds of computing at most: on a busy machine these take longer."""
        environment = os.environ | variables

        def limit_computing():
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))

        # A test that is killed leaves its temporary files, which go with this folder.
        with tempfile.TemporaryDirectory() as temporary:
            return subprocess.run(
                command,
                cwd=self.folder,
                env=environment | {"TMPDIR": temporary},
                timeout=BUSY * limit,
                preexec_fn=limit_computing,
                capture_output=True,
                errors="replace",
            )

    def run(self, test, seed, limit, **variables):
        """How a test fails, in a word or two; None if it passes."""
        variables |= {
            "PIPEZERO_CACHE": "",
            "LD_LIBRARY_PATH": str(self.libraries),
            "FAKE_GPU_SEED": str(seed),
            "FAKE_GPU_DEVICES": str(self.devices),
        }
        command = [self.program, test, "--exact", "--ignored", "--test-threads=1"]
        try:
            done = self.start(command, limit, variables)
        except subprocess.TimeoutExpired:
            return "no end"
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return "no end"
        if done.returncode == 0:
            if "running 1 test" not in done.stdout:
                sys.exit(f"the program has no test {test}")
            return None
        told = [line for line in done.stderr.splitlines() if line.startswith("fake GPU: ")]
        if told and done.returncode < 0:
            return "the fake GPU stops it"
        return "a signal ends it" if done.returncode < 0 else "the test fails"

    def tests(self):
        listed = self.start([self.program, ALL_TESTS, "--ignored", "--list"], 60, {})
        lines = listed.stdout.splitlines()
        names = [line.removesuffix(": test") for line in lines if line.endswith(": test")]
        return [Test(name) for name in names if not any(part in name for part in OTHER_TESTS)]


def build(chosen, work):
    """Builds the fake GPU; gives its folder, and the faults in its kernels that can be switched on. There are none where
    no kind of them is asked for."""
    kernels, faults, libraries = chosen.kernels, [], work / "libraries"
    if chosen.kinds == "*" or KINDS_IN_KERNELS.intersection(chosen.kinds.split(",")):
        kernels = work / "kernels"
        kernels.mkdir(parents=True, exist_ok=True)
        faults = rewrite_kernels(chosen.kernels, kernels)
    else:
        # Where tests build it too.
        libraries = TESTS.parent / "target" / ("fake-gpu" if chosen.unchecked else "checked-fake-gpu")
    checked = [] if chosen.unchecked else ["checked"]
    subprocess.run(["sh", str(HERE / "build.sh"), str(libraries), str(kernels), *checked], check=True)
    return libraries, {str(fault.number): fault for fault in faults}


def kernel_fault(setting, of_kernels):
    """The fault that a line `kernel:NUMBER:KERNEL` of a list is, as it is asked for and called."""
    _, number, kernel = setting.split(":")
    known = of_kernels[number]
    place = f"{known.file}:{known.line}"
    if known.kind in KINDS_BY_KERNEL:
        return Fault(setting, known.kind, f"{known.name} in {kernel}", place)
    return Fault(f"kernel:{number}", known.kind, known.name, place)


def reached_faults(runner, tests, work, of_kernels, jobs):
    """All faults that tests reach, in the order of their names, each with these tests, the quickest first."""

    def list_faults(test):
        path = work / f"{test.name.replace('::', '-')}.list"
        start = time.monotonic()
        failure = runner.run(test.name, 1, 600, FAKE_GPU_LIST_FAULTS=str(path))
        test.seconds = time.monotonic() - start
        if failure:
            sys.exit(f"{test.name} fails without a fault: {failure}")
        return test.name, [line.split() for line in path.read_text().splitlines()]

    with ThreadPoolExecutor(jobs) as pool:
        lists = dict(pool.map(list_faults, tests))
    sites = named_sites(runner.program, [line for found in lists.values() for line in found])
    faults = {}
    for test in sorted(tests, key=lambda test: test.seconds):
        for setting, count, *_ in lists[test.name]:
            kind, place = setting.split(":", 1)
            if kind == "kernel":
                fault = kernel_fault(setting, of_kernels)
            else:
                called = f"{kind} {sites.get(setting, place)}"
                fault = Fault(setting, kind, called, f"{count} times" if setting in sites else place)
            known = faults.setdefault(fault.setting, fault)
            if test not in known.tests:
                known.tests.append(test)
    in_kernels = {setting.split(":")[1] for setting in faults if setting.startswith("kernel:")}
    unreached = set(of_kernels) - in_kernels
    # The order is fixed, so that a sample takes the same faults in every run.
    in_order = sorted(faults.values(), key=lambda fault: (fault.name, fault.setting))
    return in_order, [of_kernels[number] for number in sorted(unreached, key=int)]


def look_for(fault, runner, seeds, slow_seeds, is_first_enough):
    """Runs the tests that reach a fault, on each seed until one has found it; on no other seed then, if the first is enough."""
    finding = Finding()
    quick = [test for test in fault.tests if not test.is_slow]
    slow = [test for test in fault.tests if test.is_slow]
    rounds = [(quick, seeds)] if quick else []
    rounds.append((slow, min(seeds, slow_seeds)))
    for tests, num_seeds in rounds:
        if finding.num_found > 0 or not tests:
            break
        finding.num_seeds = 0
        for seed in range(1, num_seeds + 1):
            if is_first_enough and finding.num_found > 0:
                break
            finding.num_seeds += 1
            # What has found it before is likely to find it again.
            for test in sorted(tests, key=lambda test: -finding.by[test.name.removeprefix(ALL_TESTS)]):
                failure = runner.run(test.name, seed, 20 + 5 * test.seconds, FAKE_GPU_FAULT=fault.setting)
                if failure:
                    finding.num_found += 1
                    finding.by[test.name.removeprefix(ALL_TESTS)] += 1
                    finding.how[failure] += 1
                    break
    return finding


def equivalents():
    """Patterns of names of faults that change nothing, each with its reason."""
    known, pattern = {}, None
    for line in (HERE / "equivalents.txt").read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line[0] == " ":
            known[pattern] = f"{known[pattern]} {line.strip()}".strip()
        else:
            pattern = line.strip().replace("[", "[[]")
            known[pattern] = ""
    return known


def summarise(rows):
    """Prints, for each kind of fault, how many were found."""
    counts = defaultdict(Counter)
    for row in rows:
        counts[row["kind"]][row["verdict"]] += 1
    verdicts = ["on all seeds", "on some seeds", "changes nothing", "survives", "not reached"]
    print(f"{'kind':12}" + "".join(f"{verdict:>16}" for verdict in ["faults", *verdicts]))
    for kind, found in sorted(counts.items()):
        print(f"{kind:12}{found.total():16}" + "".join(f"{found[verdict]:16}" for verdict in verdicts))


def reason_of(fault, known):
    """Why a fault changes nothing; None if it may change something."""
    return next((why for pattern, why in known.items() if fnmatchcase(fault.name, pattern)), None)


def row_of(fault, finding, known):
    reason = reason_of(fault, known)
    if finding.num_found == finding.num_seeds:
        verdict = "on all seeds"
    elif finding.num_found > 0:
        verdict = "on some seeds"
    else:
        verdict = "survives" if reason is None else "changes nothing"
    return {
        "kind": fault.kind,
        "fault": fault.name,
        "place": fault.place,
        "setting": fault.setting,
        "found": finding.num_found,
        "seeds": finding.num_seeds,
        "verdict": verdict,
        "by": "; ".join(f"{name} {count}" for name, count in finding.by.most_common()),
        "how": "; ".join(f"{how} {count}" for how, count in finding.how.most_common()),
        "reason": reason if verdict == "changes nothing" else "",
    }


def not_reached(known):
    place = f"{known.file}:{known.line}"
    row = row_of(Fault("", known.kind, known.name, place), Finding(num_seeds=1), {})
    return row | {"verdict": "not reached"}


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=Path, help="the integration tests, built")
    parser.add_argument("--kernels", type=Path, default=TESTS.parent / "models/src/queue/cuda/kernels")
    parser.add_argument("--tests", type=Path, default=TESTS, help="the folder that tests are run in")
    parser.add_argument("--work", type=Path, default=TESTS.parent / "target/mutations")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--slow-seeds", type=int, default=1, help="seeds of tests that take seconds")
    parser.add_argument("--until-found", type=int, default=0, help="stops at the first seed that finds a fault, and tries so many")
    parser.add_argument("--only", default="", help="a regular expression that faults' names or settings have")
    parser.add_argument("--again", type=Path, help="an earlier table: only what survived in it")
    parser.add_argument("--kinds", default="*", help="kinds of faults, with commas between them")
    parser.add_argument("--use", default="", help="only tests whose names have one of these in them, with commas between")
    parser.add_argument("--sample", type=int, default=1, help="every so manyth fault")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--devices", type=int, default=1, help="number of fake GPUs")
    parser.add_argument("--unchecked", action="store_true", help="reads and writes are not looked at")
    parser.add_argument("--list", action="store_true", help="prints the faults that are reached, runs none")
    parser.add_argument("--out", type=Path, help="a file for the table, with commas")
    return parser.parse_args()


def chosen_faults(faults, chosen):
    kinds = chosen.kinds.split(",")
    faults = [fault for fault in faults if chosen.kinds == "*" or fault.kind in kinds]
    faults = [fault for fault in faults if re.search(chosen.only, f"{fault.name} {fault.setting}")]
    if chosen.again:
        with chosen.again.open() as file:
            survivors = {row["fault"] for row in csv.DictReader(file) if row["verdict"] == "survives"}
        faults = [fault for fault in faults if fault.name in survivors]
    return faults[:: chosen.sample]


def main():
    chosen = options()
    work = chosen.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    libraries, of_kernels = build(chosen, work)
    runner = Runner(chosen.program.resolve(), libraries, chosen.tests, chosen.devices)
    used = chosen.use.split(",")
    tests = [test for test in runner.tests() if any(part in test.name for part in used)]
    reached, unreached = reached_faults(runner, tests, work, of_kernels, chosen.jobs)
    faults = chosen_faults(reached, chosen)
    if chosen.list:
        for fault in faults:
            print(f"{fault.setting}\t{fault.name}\t{fault.place}\t{len(fault.tests)} tests")
        return 0
    known, rows, start = equivalents(), [], time.monotonic()
    with ThreadPoolExecutor(chosen.jobs) as pool:
        def find(fault):
            seeds, slow_seeds = chosen.seeds, chosen.slow_seeds
            # Many seeds are for what may be found on one of them only by chance.
            if chosen.until_found and reason_of(fault, known) is None:
                seeds = slow_seeds = chosen.until_found
            return fault, look_for(fault, runner, seeds, slow_seeds, chosen.until_found > 0)

        for fault, finding in pool.map(find, faults):
            rows.append(row_of(fault, finding, known))
            row = rows[-1]
            count = f"{len(rows)}/{len(faults)} {row['found']} of {row['seeds']}:"
            print(count, row["fault"], row["by"], flush=True)
    if chosen.only == "" and chosen.kinds == "*" and not chosen.again:
        rows += [not_reached(fault) for fault in unreached]
    if chosen.out:
        with chosen.out.open("w", newline="") as file:
            table = csv.DictWriter(file, rows[0].keys())
            table.writeheader()
            table.writerows(rows)
    summarise(rows)
    survivors = [row["fault"] for row in rows if row["verdict"] in ("survives", "not reached")]
    print(f"{time.monotonic() - start:.0f} s, {len(survivors)} survivors", *survivors, sep="\n  ")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
