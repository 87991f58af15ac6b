#!/usr/bin/env python3
"""Runs the same commands with two binaries and compares everything that they print and write, bit for bit.

    python3 tests/same_bits/compare.py OLD_BINARY NEW_BINARY [--only WORD] [--limit SECONDS]

The cases are in cases.py: the examples of engine/configs, cut to 5 steps, with every task of the master files; a run file
for every schedule, precision, ZeRO level, family and feature; master files; and the answers to DeepSpeed's files. Both
binaries read the same files, and each writes into a folder of its own.

* Of `train` and `tokenize` everything that they write is compared: losses, norms, rates and loss scales of each step,
  evaluations, weights, checkpoints, each rank's memory and traffic, run files. Times are not.
* Of `check`, `plan`, `show`, `simulate`, `eval` and `generate` the exit status and what they print are compared.

Every difference is printed with its case, file and key. The exit status is 1 if anything differs, or if a run fails.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cases
import written

# Of each case.
NUM_PRINTED = 10
SIDES = "old", "new"


@dataclasses.dataclass
class Ended:
    """How a command ended and what it printed, with words in place of temporary folders."""

    status: object
    stdout: str
    stderr: str

    def values(self):
        printed = {"status": self.status}
        for name, text in (("stdout", self.stdout), ("stderr", self.stderr)):
            printed |= {f"{name} line {number}": line for number, line in enumerate(text.splitlines(), 1)}
        return printed

    def verdict(self):
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line or line.startswith("x ")][:3] or lines[-1:]
        return " ".join([f"status {self.status}", *(errors if self.status else [])])


@dataclasses.dataclass
class Totals:
    num_runs: int = 0
    num_commands: int = 0
    num_values: int = 0
    num_differences: int = 0
    different: list = dataclasses.field(default_factory=list)


def run(binary, home, arguments, inputs, limit):
    arguments = [argument.replace(cases.INPUTS, str(inputs)) for argument in arguments]
    # Tables and messages are as wide as the variable says.
    environment = {**os.environ, "COLUMNS": "100"}
    environment.pop("PIPEZERO_LOG", None)
    try:
        done = subprocess.run([binary, *arguments], cwd=home, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired as expired:
        return Ended(f"none, stopped after {limit:g} s", "", (expired.stderr or b"").decode(errors="replace"))
    texts = [text.decode(errors="replace") for text in (done.stdout, done.stderr)]
    return Ended(done.returncode, *(text.replace(str(inputs), "INPUTS").replace(str(home), "HOME") for text in texts))


def on_both(sides, task):
    """What the task returns for each side. Both are computed at once."""
    with concurrent.futures.ThreadPoolExecutor(len(sides)) as threads:
        return list(threads.map(task, sides))


def compare(command, sides, inputs, limit):
    """How many values of a command were compared, and the differences."""
    ended = on_both(sides, lambda side: run(*side, command.arguments, inputs, limit))
    # What fails with both binaries shows nothing.
    if not command.may_fail and any(each.status != 0 for each in ended):
        return 1, [("fails", [each.verdict() for each in ended])]
    if not command.writes:
        values = [each.values() for each in ended]
        return len(values[0]), list(written.compare_values(*values))
    folders = [home / command.writes for _, home in sides]
    num_values, found = written.compare_folders(*folders)
    if not num_values:
        found.append(("writes nothing", folders))
    if command.is_read_later:
        shutil.copytree(folders[0], inputs / command.writes, dirs_exist_ok=True)
    return num_values, found


def compare_case(case, sides, inputs, limit, totals):
    began, num_before, found = time.monotonic(), totals.num_values, []
    for name, contents in case.files.items():
        path = inputs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents)
    for command in case.commands:
        num_values, differences = compare(command, sides, inputs, limit)
        totals.num_values += num_values
        totals.num_runs += command.arguments[0] == "train"
        totals.num_commands += 1
        words = " ".join(command.arguments[:NUM_PRINTED]).replace(f"{cases.INPUTS}/", "")
        found += [(f"{words}: {key}", what) for key, what in differences]
    for _, home in sides:
        shutil.rmtree(home / "runs" / case.name, ignore_errors=True)
    verdict = f"{len(found)} DIFFERENCES" if found else "equal"
    seconds = time.monotonic() - began
    print(f"{case.name:32} {verdict:16} {totals.num_values - num_before:>9} values {seconds:6.1f} s", flush=True)
    for key, what in found[:NUM_PRINTED]:
        print(f"    {key}")
        for side, value in zip(SIDES, what):
            print(f"      {side}: {value}")
    if len(found) > NUM_PRINTED:
        print(f"    and {len(found) - NUM_PRINTED} more")
    totals.num_differences += len(found)
    if found:
        totals.different.append(case.name)


def program(path):
    found = shutil.which(path)
    if found is None:
        sys.exit(f"{path} is no program")
    return str(pathlib.Path(found).absolute())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", default="", help="cases whose name contains this word")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a command may take")
    arguments = parser.parse_args()
    # The folders are removed at Ctrl-C already.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    binaries = [program(path) for path in (arguments.old, arguments.new)]
    began, totals = time.monotonic(), Totals()
    with tempfile.TemporaryDirectory(prefix="same-bits-") as folder:
        folder = pathlib.Path(folder).resolve()
        sides = [(binary, folder / name) for binary, name in zip(binaries, SIDES)]
        for _, home in sides:
            home.mkdir()
        chosen = [case for case in cases.cases() if arguments.only in case.name]
        if not chosen:
            sys.exit(f"no case has a name with `{arguments.only}`")
        tokens = cases.texts()
        # What others read.
        if all(case.name != tokens.name for case in chosen):
            chosen.insert(0, tokens)
        for case in chosen:
            compare_case(case, sides, folder / "inputs", arguments.limit, totals)
    print(f"{len(totals.different)} of {len(chosen)} cases differ; {totals.num_runs} runs of `train` and "
          f"{totals.num_commands - totals.num_runs} other commands with each binary, {totals.num_values} values compared, "
          f"{totals.num_differences} differences, {time.monotonic() - began:.0f} s")
    for name in totals.different:
        print(f"  different: {name}")
    sys.exit(1 if totals.different else 0)


if __name__ == "__main__":
    main()
