"""One call of agenda.py: its machine, its seconds, its ledger, and how an experiment is run and kept."""

import datetime
import os
import shutil
import subprocess
import tarfile
import time

import experiments
import ledger
import limited
import machine
from experiments import REPO

# A fake GPU's host may be busy.
REHEARSAL_LIMIT_FACTOR = 5
# Files of experiments that are larger do not come back from every machine.
FILE_BYTES_MAX = 4_000_000


def commit_here():
    """Of the repository; None without git."""
    command = ["git", "-C", REPO, "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


class Call:
    """One call: its machine, its time, its ledger."""

    def __init__(self, arguments, work):
        self.begins = time.monotonic()
        self.arguments, self.work = arguments, work
        self.is_rehearsal = bool(arguments.rehearse)
        self.out = os.path.abspath(arguments.out)
        old = os.path.join(arguments.bin, "old")
        tools = machine.tools()
        self.places = experiments.Places(
            arguments.bin, old if os.path.isdir(old) else None, tools, self.is_rehearsal
        )
        self.gpu = machine.gpu()
        if self.is_rehearsal:
            # It has as many GPUs as it is asked for.
            self.gpu = {"device": machine.FAKE_GPU, "driver": None, "num_gpus": None}
        self.lines, self.complaints = ledger.read(arguments.ledger)
        named = getattr(arguments, "device", None)
        self.device = named or (self.gpu and self.gpu["device"]) or self.device_of_ledger()
        # What has been compiled stays for the next call on this machine.
        cache = work if self.is_rehearsal else os.path.join(REPO, "target", "gpu-cache")
        self.environment = os.environ | {
            "LD_LIBRARY_PATH": machine.library_path(arguments.rehearse, work),
            "CUDA_CACHE_PATH": os.path.join(cache, "jit"),
            "PIPEZERO_CACHE": os.path.join(cache, "kernels"),
            "RUST_BACKTRACE": "1",
        }
        # PyTorch brings its own libraries.
        self.plain_environment = os.environ | {
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "inductor"),
            "TRITON_CACHE_DIR": os.path.join(cache, "triton"),
        }
        if self.is_rehearsal:
            self.environment["FAKE_GPU_SEED"] = "1"
        self.versions = machine.versions(self.environment)
        self.anchor = {}

    def begin_log(self):
        """What every experiment of this call has in common."""
        os.makedirs(self.out, exist_ok=True)
        facts = {"gpu": self.gpu, "versions": self.versions, "commit": experiments.packed(self.places).get("commit")}
        facts |= {"libraries": self.environment["LD_LIBRARY_PATH"], "tools": machine.tools()}
        with open(os.path.join(self.out, "agenda.log"), "a", encoding="utf-8") as file:
            file.write("".join(f"{name}: {value}\n" for name, value in facts.items()))

    def device_of_ledger(self):
        return next((line["device"] for line in reversed(self.lines) if line.get("device")), "unknown")

    def left_s(self):
        return self.arguments.budget - (time.monotonic() - self.begins)

    def key(self, experiment):
        return experiments.key(experiment, self.places, self.device, self.versions)

    def ordered(self, agenda):
        """In their order; those that `--first` names come first, and those that have failed as they are now come last."""
        first = self.arguments.first
        of_keys = ledger.statuses(self.lines)

        def place(experiment):
            if experiment.get("always"):
                return (0, 0)
            if experiment["id"] in first:
                return (1, first.index(experiment["id"]))
            return (3, 0) if of_keys.get(self.key(experiment)) not in (None, ledger.OK) else (2, 0)

        return sorted(agenda, key=place)

    def why_not(self, experiment, left_s):
        """Why an experiment is not run now; None where it is."""
        reason = experiments.missing(experiment, self.places, self.gpu and self.gpu["num_gpus"])
        if reason:
            return reason
        is_wanted = experiment.get("always") or experiment["id"] in self.arguments.again
        if not is_wanted and ledger.statuses(self.lines).get(self.key(experiment)) == ledger.OK:
            return "in the ledger with this key"
        if left_s < experiment["needs_s"]:
            return f"takes about {experiment['needs_s']} s, and {max(left_s, 0):.0f} s are left"
        return None

    def run(self, experiment):
        """Runs an experiment, and adds its line."""
        name, begins = experiment["id"], time.monotonic()
        out, work = os.path.join(self.work, "out"), os.path.join(self.work, "of-one")
        for folder in (out, work):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        log = os.path.join(self.out, "agenda.log")
        with open(log, "ab") as file:
            file.write(f"\n========== {name}: {experiment['title']}\n".encode())
        place, mhz_before = os.path.getsize(log), machine.clock_mhz()
        # Before the commands, which may change what they depend on.
        key = self.key(experiment)
        status, exit_code = self.run_commands(experiment, log, out, work)
        seconds = time.monotonic() - begins
        text = limited.output(log, place)
        figures = limited.figures(text)
        if status == ledger.OK and not figures:
            status, text = ledger.FAILED, "it printed no figure"
        if experiment.get("always"):
            self.anchor = {name: value for name, value in figures.items() if name != "text"}
        line = {
            "id": name,
            "key": key,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "device": self.device,
            "driver": self.gpu["driver"],
            "num_gpus": experiment.get("gpus", 1),
            "versions": self.versions,
            "commit": experiments.packed(self.places).get("commit") or commit_here(),
            "seconds": round(seconds, 1),
            "status": status,
            "exit_code": exit_code,
            "figures": figures,
            "anchor": {
                "copy_gb_s": self.anchor.get("copy_gb_s"),
                "product_tflop_s": self.anchor.get("product_tflop_s"),
                "sm_mhz_before": mhz_before,
                "sm_mhz_after": machine.clock_mhz(),
            },
        }
        if self.places.is_replayed(experiment):
            line["replayed"] = True
        if status != ledger.OK:
            line["why"] = limited.complaint(text)
        self.keep(line, out)
        return line

    def run_commands(self, experiment, log, out, work):
        """The status, and the exit code of the last command that was run."""
        limit_s = experiment["limit_s"] * (REHEARSAL_LIMIT_FACTOR if self.is_rehearsal else 1)
        limit_s = min(limit_s, self.left_s())
        ends = time.monotonic() + limit_s
        written = self.places.commands(experiment)
        for raw, command in zip(written, self.places.expanded(experiment, out, work, limit_s)):
            environment = self.plain_environment if raw[0] in experiments.PLAIN else self.environment
            if self.is_rehearsal:
                environment = environment | {"FAKE_GPU_DEVICES": str(experiment.get("gpus", 1))}
            code = limited.run(command, ends - time.monotonic(), log, environment)
            if code is None:
                return ledger.TIMED_OUT, None
            if code != 0:
                return ledger.FAILED, code
        return ledger.OK, 0

    def keep(self, line, out):
        """The line first; then the experiment's files, in one archive, since few files come back from some machines."""
        ledger.append(self.arguments.ledger, line)
        self.lines.append(line)
        # Where the repository does not come back, this does.
        ledger.append(os.path.join(self.out, "ledger.jsonl"), line)
        with tarfile.open(os.path.join(self.out, "files.tar"), "a") as archive:
            for folder, _, names in os.walk(out):
                for each in (os.path.join(folder, name) for name in sorted(names)):
                    if os.path.getsize(each) <= FILE_BYTES_MAX:
                        archive.add(each, os.path.join(line["id"], os.path.relpath(each, out)))
