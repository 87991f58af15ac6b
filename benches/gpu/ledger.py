"""The ledger of experiments on GPUs: one line of JSON for each, added when it ended and never changed.

A machine may go away at any moment, so a line is on disk before the next experiment begins. If the power failed while one was written,
half a line is left at the end: it is reported, ignored, and closed by a line break before the next one.
"""

import json
import os

OK, FAILED, TIMED_OUT = "ok", "failed", "timed out"


def read(path):
    """The lines, oldest first, and a complaint for each that is none."""
    lines, complaints = [], []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            texts = file.read().split("\n")
    except FileNotFoundError:
        return lines, complaints
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if isinstance(line, dict) and "id" in line:
            lines.append(line)
        else:
            complaints.append(f"{path}:{number}: no whole line, ignored: {text[:60]}")
    return lines, complaints


def append(path, line):
    """Adds a line; it is on disk when this returns."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "a+b") as file:
        text = json.dumps(line) + "\n"
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            text = text if file.read(1) == b"\n" else "\n" + text
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def take(path, other):
    """Adds the lines of another ledger that this one lacks; how many they were, and complaints."""
    known, complaints = read(path)
    more, others = read(other)
    new = [line for line in more if line not in known]
    for line in new:
        append(path, line)
    return len(new), complaints + others


def statuses(lines):
    """The status of each key: ok where one of its lines is, else that of its newest."""
    found = {}
    for line in lines:
        key = line.get("key")
        if key and found.get(key) != OK:
            found[key] = line.get("status")
    return found


def newest(lines):
    """The newest line of each id, in the order in which ids came first."""
    return {line["id"]: line for line in lines}
