#!/usr/bin/env python3
"""Runs the next experiments of the agenda on a GPU, for as many seconds as there are, and keeps what they gave.

benches/gpu/agenda.json has them in their order, each with a rule that was written before: which value is expected, and what is done at
which value. docs/gpu/ledger.jsonl gets one line for each that was run, as soon as it has ended. What has a line with status ok is not run
again until its command, the files it depends on, or the kind of device are others.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time

import experiments
import ledger
import limited
from experiments import HERE, REPO, AgendaError
from call import Call, commit_here

EXAMPLES = """
examples:
  benches/gpu/pack.sh                                    on a machine with Rust: builds the programs
  benches/gpu/agenda.py plan --device "NVIDIA H200"      what an H200 would run next
  benches/gpu/agenda.py run --budget 560                 on the machine with the GPU
  benches/gpu/agenda.py run --budget 200 --first E6,E9,E8    a kernel has changed: is it right, and faster?
  benches/gpu/agenda.py run --budget 60 --again E12      once more, though it is in the ledger
  benches/gpu/agenda.py take gpu-results/ledger.jsonl    adds the lines that came back to docs/gpu/ledger.jsonl
  benches/gpu/agenda.py show                             the newest figure of each, with its rule
  benches/gpu/agenda.py run --rehearse target/fake-gpu   all of it without a GPU, on tiny models

exit status: 0; 1 if an experiment failed or took too long, 2 if an argument or agenda.json is wrong
"""
LEDGER = os.path.join(REPO, "docs", "gpu", "ledger.jsonl")
RESULTS = os.environ.get("OUT") or os.path.join(REPO, "target", "gpu-results")


def in_short(figures):
    """Figures as one line of text."""
    texts = figures.get("text") or [f"{name} {value}" for name, value in figures.items()]
    text = "; ".join(texts)
    return text if len(text) <= 300 else text[:300] + " ..."


def report(lines):
    for line in lines:
        print(line, file=sys.stderr)


def plan(arguments, agenda, work):
    call = Call(arguments, work)
    report(call.complaints)
    print(
        f"on {call.device}, {arguments.budget:.0f} s, {len(call.lines)} lines in {arguments.ledger}"
        + ("" if call.gpu else "; there is no GPU here")
    )
    left_s = arguments.budget
    for experiment in call.ordered(agenda):
        reason = call.why_not(experiment, left_s)
        left_s -= 0 if reason else experiment["needs_s"]
        what = f"would run, about {experiment['needs_s']} s" if reason is None else f"not now: {reason}"
        print(f"{experiment['id']:9} {experiment['title']}\n{'':9}   {what}")
    print(f"about {arguments.budget - left_s:.0f} s of {arguments.budget:.0f} s")
    return 0


def run(arguments, agenda, work):
    call = Call(arguments, work)
    report(call.complaints)
    if call.gpu is None:
        print("there is no GPU here: nvidia-smi says nothing; --rehearse runs without one", file=sys.stderr)
        return 1
    call.begin_log()
    print(f"on {call.device}, {arguments.budget:.0f} s; lines go to {arguments.ledger}", flush=True)
    num_bad = 0
    for experiment in call.ordered(agenda):
        reason = call.why_not(experiment, call.left_s())
        if reason:
            print(f"{experiment['id']:9} not now: {reason}", flush=True)
            # A rehearsal shows that everything runs.
            num_bad += call.is_rehearsal and not experiment.get("needs")
            continue
        line = call.run(experiment)
        replayed = ", replayed" if line.get("replayed") else ""
        why = f"; {line['why']}" if "why" in line else ""
        print(
            f"{line['id']:9} {line['status']}{replayed} after {line['seconds']} s: {in_short(line['figures'])}{why}",
            flush=True,
        )
        num_bad += line["status"] != ledger.OK
        if experiment.get("stops") and line["status"] != ledger.OK:
            print("no other experiment means anything without it", flush=True)
            break
    seconds = time.monotonic() - call.begins
    print(f"{num_bad} not ok, {seconds:.0f} s in all; output in {call.out}/agenda.log")
    return 1 if num_bad else 0


def show(arguments, agenda, _work):
    lines, complaints = ledger.read(arguments.ledger)
    report(complaints)
    of_agenda = {each["id"]: each for each in agenda}
    for name, line in ledger.newest(lines).items():
        state = line.get("status", "") + (", replayed" if line.get("replayed") else "")
        of = [line.get("date"), line.get("device"), line.get("commit") and f"commit {line['commit']}", line.get("source")]
        print(f"{name:9} {state}, {', '.join(filter(None, of))}")
        print(f"{'':9} figure: {in_short(line.get('figures', {})) or line.get('why', '')}")
        if name in of_agenda:
            print(f"{'':9} predicted: {of_agenda[name]['predicted']}\n{'':9} rule: {of_agenda[name]['rule']}")
    print(f"{len(lines)} lines in {arguments.ledger}")
    return 0


def take(arguments, _agenda, _work):
    num_new, complaints = ledger.take(arguments.ledger, arguments.other)
    report(complaints)
    print(f"{num_new} new lines in {arguments.ledger}")
    return 0


def packed(arguments, agenda, _work):
    """What pack.sh writes: of which sources, for each experiment, the programs are."""
    places = experiments.Places(arguments.bin, None, {}, False)
    of_each = {each["id"]: experiments.built(each, places) for each in agenda if not each.get("needs")}
    print(json.dumps({"commit": commit_here(), "built": of_each}, indent=1))
    return 0


def ids(text):
    return [each for each in text.split(",") if each]


def parse():
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=formatter)
    commands = parser.add_subparsers(required=True, metavar="plan | run | show | take | packed")
    texts = {
        plan: "what would run now, and why the others would not",
        run: "run experiments in their order, until the budget is used up",
        show: "the newest line of each experiment, with its rule",
        take: "add the lines of a ledger that came back from another machine",
        packed: "for pack.sh: the commit, and hashes of what programs are built from",
    }
    for function, text in texts.items():
        command = commands.add_parser(
            function.__name__, help=text, description=text, epilog=EXAMPLES, formatter_class=formatter
        )
        command.set_defaults(function=function, rehearse=None, first=[], again=[], budget=None)
        command.add_argument("--agenda", default=os.path.join(HERE, "agenda.json"), help="[agenda.json]")
        command.add_argument("--ledger", help="where lines are [docs/gpu/ledger.jsonl; a temporary file in a rehearsal]")
        command.add_argument("--bin", default=os.path.join(REPO, "target", "gpu"), help="programs [target/gpu]")
        command.add_argument("--out", help="log, lines and files [OUT, else target/gpu-results]")
        if function is take:
            command.add_argument("other", help="a ledger.jsonl")
        if function in (plan, run):
            command.add_argument("--budget", type=float, default=None, help="seconds [540; 3600 in a rehearsal]")
            command.add_argument("--first", type=ids, help="ids to begin with, such as E6,E9,E8", default=[])
            command.add_argument("--again", type=ids, help="ids to run though they are in the ledger", default=[])
            command.add_argument("--rehearse", metavar="DIR", help="folder of the fake CUDA libraries")
        if function is plan:
            command.add_argument("--device", help="a kind of GPU [this machine's, else that of the newest line]")
    return parser.parse_args()


def checked(arguments, agenda, work):
    """Arguments with their defaults; an error for what is wrong."""
    known = [each["id"] for each in agenda]
    unknown = [each for each in arguments.first + arguments.again if each not in known]
    if unknown:
        raise AgendaError(f"no experiment {', '.join(unknown)}; there are {', '.join(known)}")
    if arguments.budget is not None and arguments.budget < 0:
        raise AgendaError(f"--budget {arguments.budget}: it takes seconds")
    if arguments.rehearse and not os.path.exists(os.path.join(arguments.rehearse, "libcuda.so")):
        raise AgendaError(f"no fake GPU: {arguments.rehearse}/libcuda.so; tests/fake_gpu/build.sh builds it")
    if arguments.rehearse and arguments.ledger and os.path.abspath(arguments.ledger) == LEDGER:
        raise AgendaError("a rehearsal's lines say nothing of a GPU: leave out --ledger")
    if arguments.budget is None:
        arguments.budget = 3600.0 if arguments.rehearse else 540.0
    arguments.bin = os.path.abspath(arguments.bin)
    if arguments.rehearse:
        arguments.ledger = arguments.ledger or os.path.join(work, "ledger.jsonl")
        arguments.out = arguments.out or os.path.join(work, "results")
    arguments.ledger = arguments.ledger or LEDGER
    arguments.out = arguments.out or RESULTS


def main():
    arguments = parse()
    # So that what was started is ended, and the folder removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    limited.adopt_orphans()
    with tempfile.TemporaryDirectory() as work:
        try:
            agenda = experiments.read(arguments.agenda)
            checked(arguments, agenda, work)
            sys.exit(arguments.function(arguments, agenda, work))
        except AgendaError as error:
            print(error, file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main()
