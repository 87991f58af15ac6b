"""Runs a command for a limited time, and ends all that it has started.

Whatever a command starts becomes a descendant of this process, also after its parent has ended (PR_SET_CHILD_SUBREAPER), so no process can
stay on the GPU beside the next experiment.
"""

import ctypes
import json
import os
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
# What one experiment may add to the log.
LOG_BYTES_MAX = 600_000


def adopt_orphans():
    """From here on, processes whose parents end are children of this one."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents():
    """The parent of each process that there is."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                # A program's name stands in brackets and may have any sign in it.
                found[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return found


def descendants(ancestor):
    """All processes that a process has started, and those that these have started."""
    found, is_larger = {ancestor}, True
    of_all = parents()
    while is_larger:
        more = {process for process, parent in of_all.items() if parent in found} - found
        found |= more
        is_larger = bool(more)
    return found - {ancestor}


def end_all():
    """Kills every descendant. After each that has ended it looks again: one may have started another before it was killed."""
    while True:
        for process in descendants(os.getpid()):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def run(command, limit_s, log, environment):
    """Runs a command, whose output goes to the end of a file: its exit status, None where it took too long."""
    with open(log, "ab") as file:
        file.write(f"\n===== at most {limit_s:.0f} s: {' '.join(command)}\n".encode())
        file.flush()
        begins = time.monotonic()
        try:
            started = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=environment
            )
        except OSError as error:
            file.write(f"{error}\n".encode())
            return 127
        try:
            status = started.wait(max(limit_s, 0.1))
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end_all()
        file.write(f"===== status {status} after {time.monotonic() - begins:.1f} s\n".encode())
        return status


def output(log, begins):
    """What was written behind a place in the log, of which the middle is taken out where it is long."""
    with open(log, "r+b") as file:
        file.seek(begins)
        written = file.read()
        if len(written) > LOG_BYTES_MAX:
            half = LOG_BYTES_MAX // 2
            left_out = f"\n... {len(written) - 2 * half} bytes left out ...\n".encode()
            file.seek(begins)
            file.write(written[:half] + left_out + written[-half:])
            file.truncate()
    return written.decode(errors="replace")


def figures(text):
    """What lines `figures: {...}` say, put together, and under "text" what lines `figure: ...` say."""
    found, texts = {}, []
    for line in text.splitlines():
        if line.startswith("figure: "):
            texts.append(line.removeprefix("figure: "))
        elif line.startswith("figures: "):
            try:
                found |= json.loads(line.removeprefix("figures: "))
            except (ValueError, TypeError):
                texts.append(line)
    return found | ({"text": texts} if texts else {})


def complaint(text):
    """Why a command failed: a panic's message, an error, or else the last line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("=====")]
    for place, line in enumerate(lines):
        if " panicked at " in line:
            return lines[min(place + 1, len(lines) - 1)][:300]
        if line.startswith(("error: ", "Error: ")):
            return " ".join(each.strip() for each in lines[place : place + 3])[:300]
    return lines[-1][:300] if lines else ""
