"""Tests of agenda.py: whatever happens to the machine, nothing that was measured is lost or measured twice.

    python3 benches/gpu/test_agenda.py
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import ledger

HERE = os.path.dirname(os.path.abspath(__file__))
AGENDA = os.path.join(HERE, "agenda.py")
# As NVIDIA's program answers the two questions of machine.py.
NVIDIA_SMI = """#!/bin/sh
case "$1" in
*name*) echo "${GPU_NAME:-NVIDIA H200}, 580.1" ;;
--list-gpus) echo "GPU 0" && echo "GPU 1" ;;
*) echo 1980 ;;
esac
"""
# A command that is killed with the whole agenda where LOST names it, as by a machine that goes away.
COMMAND = """
import os, signal, sys
if os.environ.get("LOST") == sys.argv[1]:
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(0)
print("figure: of", sys.argv[1])
print('figures: {"value": 1}')
sys.exit(3 if os.environ.get("WRONG") == sys.argv[1] else 0)
"""
# A command whose child has a session of its own, tells its process id, and stays.
WITH_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
with open(sys.argv[1], "w") as file:
    file.write(str(child.pid))
print('figures: {"value": 1}', flush=True)
"""
FOREVER = WITH_CHILD + "child.wait()\n"


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


class WithAgenda(unittest.TestCase):
    """A folder with an agenda, programs, and a machine with a GPU."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("tools", "bin"):
            os.mkdir(self.path(name))
        self.write("tools/nvidia-smi", NVIDIA_SMI)
        os.chmod(self.path("tools/nvidia-smi"), 0o755)
        self.write("source", "1")
        self.write("command.py", COMMAND)
        self.ledger = self.path("ledger.jsonl")
        self.agenda([self.experiment(name) for name in ("A", "B", "C")])

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def experiment(self, name, **others):
        command = ["{python}", self.path("command.py"), name]
        of_all = {"id": name, "title": name, "needs_s": 1, "limit_s": 60, "commands": [command]}
        of_all |= {"files": [self.path("source")], "figure": "a value", "predicted": None, "rule": "none"}
        return of_all | others

    def agenda(self, found):
        self.write("agenda.json", json.dumps({"experiments": found}))

    def call(self, command, *arguments, **variables):
        """Exit status and output of agenda.py."""
        environment = os.environ | {"PATH": f"{self.path('tools')}:{os.environ['PATH']}"} | variables
        # What is killed leaves its temporary folder.
        environment["TMPDIR"] = self.folder
        places = ["--agenda", self.path("agenda.json"), "--ledger", self.ledger]
        places += ["--out", self.path("out"), "--bin", self.path("bin")]
        done = subprocess.run(
            [sys.executable, "-B", AGENDA, command, *places, *arguments],
            env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def ids(self, ledger_path=None):
        return [line["id"] for line in ledger.read(ledger_path or self.ledger)[0]]


class Lost(WithAgenda):
    def test_a_machine_that_goes_away_during_any_experiment_loses_that_one_alone(self):
        for place, name in enumerate("ABC"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                self.ledger = os.path.join(folder, "ledger.jsonl")
                status, _ = self.call("run", LOST=name)
                self.assertEqual(status, -9)
                self.assertEqual(self.ids(), list("ABC"[:place]))
                status, text = self.call("run")
                self.assertEqual((status, self.ids()), (0, list("ABC")), text)
        # What came back on the way is the same.
        self.assertEqual(self.ids(self.path("out/ledger.jsonl")), list("ABC" * 3))

    def test_half_a_line_is_reported_and_the_next_line_is_whole(self):
        self.call("run")
        with open(self.ledger, "rb") as file:
            whole = file.read()
        begins = whole.rstrip(b"\n").rfind(b"\n") + 1
        for cut in range(begins + 1, len(whole) - 1):
            self.write("ledger.jsonl", whole[:cut].decode())
            self.assertEqual(self.ids(), ["A", "B"])
            self.assertEqual(len(ledger.read(self.ledger)[1]), 1)
            ledger.append(self.ledger, {"id": "D"})
            self.assertEqual(self.ids(), ["A", "B", "D"])
        status, text = self.call("run")
        self.assertEqual((status, self.ids()), (0, ["A", "B", "D", "C"]))
        self.assertIn("no whole line, ignored", text)

    def test_a_whole_line_without_its_line_break_counts(self):
        self.write("ledger.jsonl", '{"id": "A"}')
        ledger.append(self.ledger, {"id": "B"})
        self.assertEqual((self.ids(), ledger.read(self.ledger)[1]), (["A", "B"], []))


class Keys(WithAgenda):
    def test_what_is_in_the_ledger_runs_again_only_if_something_is_another(self):
        self.call("run")
        changes = {
            "nothing": (lambda: None, {}, 0),
            "a file's content": (lambda: self.write("source", "2"), {}, 3),
            "the kind of device": (lambda: None, {"GPU_NAME": "NVIDIA H100"}, 3),
            "nothing, on the first device": (lambda: None, {}, 0),
            "a command": (
                lambda: self.agenda([self.experiment(name, commands=[["{python}", self.path("command.py"), name, "2"]]) for name in "AB"]),
                {},
                2,
            ),
        }  # fmt: skip
        for what, (change, variables, num_more) in changes.items():
            with self.subTest(what):
                change()
                before = len(self.ids())
                status, text = self.call("run", **variables)
                self.assertEqual((status, len(self.ids()) - before), (0, num_more), text)

    def test_a_line_says_all_that_it_should(self):
        self.call("run")
        line = ledger.read(self.ledger)[0][0]
        self.assertEqual((line["status"], line["exit_code"], line["device"]), ("ok", 0, "NVIDIA H200"))
        self.assertEqual(line["figures"], {"value": 1, "text": ["of A"]})
        self.assertEqual(line["anchor"]["sm_mhz_before"], 1980)
        self.assertEqual(set(line["versions"]), {"cublaslt", "nvrtc", "nccl", "torch"})
        self.assertEqual(len(line["key"]), 64)
        self.assertNotIn("replayed", line)

    def test_again_repeats_and_first_comes_first(self):
        self.call("run")
        self.call("run", "--again", "B")
        self.assertEqual(self.ids(), list("ABCB"))
        # What was ok once stays so.
        self.assertEqual(self.call("run", "--again", "B", WRONG="B")[0], 1)
        self.assertEqual((self.call("run")[0], self.ids()), (0, list("ABCBB")))
        self.ledger = self.path("other.jsonl")
        self.call("run", "--first", "C,B")
        self.assertEqual(self.ids(), list("CBA"))
        status, text = self.call("run", "--first", "X")
        self.assertEqual((status, "no experiment X" in text), (2, True))

    def test_programs_of_other_sources_are_not_measured(self):
        self.write("bin/program", "")
        found = self.experiment("A", commands=[["{python}", self.path("command.py"), "A", "{bin}/program"]])
        self.agenda([found])
        status, text = self.call("packed")
        self.assertEqual(status, 0, text)
        self.write("bin/packed.json", text)
        self.assertIn("would run", self.call("plan")[1])
        self.write("source", "2")
        self.assertIn("run benches/gpu/pack.sh again", self.call("plan")[1])
        os.remove(self.path("bin/program"))
        self.assertIn("there is no ", self.call("plan")[1])


class Time(WithAgenda):
    def test_what_does_not_fit_the_budget_is_skipped_and_the_next_one_is_not(self):
        self.agenda([self.experiment("A", needs_s=1000, limit_s=1000), self.experiment("B")])
        status, text = self.call("run", "--budget", "50")
        self.assertEqual((status, self.ids()), (0, ["B"]))
        self.assertIn("takes about 1000 s", text)

    def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(self):
        self.write("forever.py", FOREVER)
        command = ["{python}", self.path("forever.py"), self.path("child")]
        self.agenda([self.experiment("A", needs_s=0.5, limit_s=1.5, commands=[command]), self.experiment("B")])
        status, text = self.call("run")
        self.assertEqual((status, self.ids()), (1, ["A", "B"]), text)
        line = ledger.read(self.ledger)[0][0]
        self.assertEqual((line["status"], line["exit_code"], line["figures"]), ("timed out", None, {"value": 1}))
        with open(self.path("child"), encoding="utf-8") as file:
            self.assertFalse(is_running(int(file.read())))

    def test_what_a_command_leaves_running_is_ended_too(self):
        self.write("with_child.py", WITH_CHILD)
        self.agenda([self.experiment("A", commands=[["{python}", self.path("with_child.py"), self.path("child")]])])
        self.assertEqual(self.call("run")[0], 0)
        with open(self.path("child"), encoding="utf-8") as file:
            self.assertFalse(is_running(int(file.read())))


class Failures(WithAgenda):
    def test_what_failed_is_tried_again_after_all_others(self):
        status, _ = self.call("run", WRONG="A")
        self.assertEqual((status, self.ids()), (1, list("ABC")))
        self.assertEqual(ledger.read(self.ledger)[0][0]["exit_code"], 3)
        self.agenda([self.experiment(name) for name in "ABCD"])
        status, _ = self.call("run")
        self.assertEqual((status, self.ids()), (0, list("ABCDA")))

    def test_without_what_stops_nothing_is_run_and_what_is_always_run_is_kept_with_every_line(self):
        self.agenda([self.experiment("A"), self.experiment("B", always=True, stops=True)])
        self.assertEqual((self.call("run", WRONG="B")[0], self.ids()), (1, ["B"]))
        self.call("run")
        self.call("run")
        self.assertEqual(self.ids(), ["B", "B", "A", "B"])

    def test_what_needs_more_gpus_than_there_are_is_not_run(self):
        self.agenda([self.experiment("A", gpus=3), self.experiment("B", gpus=2)])
        status, text = self.call("run")
        self.assertEqual((status, self.ids()), (0, ["B"]))
        self.assertIn("needs 3 GPUs, and 2 are here", text)
        self.assertEqual(ledger.read(self.ledger)[0][0]["num_gpus"], 2)

    def test_a_program_that_prints_no_figure_has_failed(self):
        self.agenda([self.experiment("A", commands=[["{python}", "-c", ""]])])
        self.assertEqual(self.call("run")[0], 1)
        self.assertEqual(ledger.read(self.ledger)[0][0]["why"], "it printed no figure")

    def test_a_mistake_is_one_line(self):
        mistakes = [
            (self.experiment("A", colour=1), "unknown ['colour']"),
            (self.experiment("A", needs_s=100), "at most limit_s"),
            (self.experiment("A", files=["@none"]), "a group of files"),
            (self.experiment("A", files=["no such file"]), "no file is named"),
            (self.experiment("A", commands=[["{pithon}"]]), "{pithon} is no placeholder"),
        ]
        for found, text in mistakes:
            with self.subTest(text):
                self.agenda([found])
                status, output = self.call("plan")
                self.assertEqual((status, text in output, "Traceback" in output), (2, True, False), output)
        self.agenda([self.experiment("A"), self.experiment("A")])
        self.assertEqual(self.call("plan")[0], 2)

    def test_a_rehearsal_writes_into_no_ledger_of_a_gpu(self):
        os.mkdir(self.path("fake"))
        self.write("fake/libcuda.so", "")
        before = self.ids(os.path.join(HERE, "../../docs/gpu/ledger.jsonl"))
        self.ledger = os.path.abspath(os.path.join(HERE, "../../docs/gpu/ledger.jsonl"))
        self.assertEqual(self.call("run", "--rehearse", self.path("fake"))[0], 2)
        self.assertEqual(self.ids(), before)

    def test_take_adds_what_is_new(self):
        self.call("run", "--first", "C")
        home = self.path("home.jsonl")
        ledger.append(home, ledger.read(self.ledger)[0][1])
        other, self.ledger = self.ledger, home
        self.assertIn("2 new lines", self.call("take", other)[1])
        self.assertIn("0 new lines", self.call("take", other)[1])
        self.assertEqual(sorted(self.ids()), list("ABC"))
        self.assertIn("rule: none", self.call("show")[1])


if __name__ == "__main__":
    unittest.main()
