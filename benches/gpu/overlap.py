"""How many of a traced run's gathers ran while their rank computed, by the events on the GPU.

    python3 benches/gpu/overlap.py RUN_DIRECTORY         after `pipezero train --trace`

It reads two files that `train` writes (docs/simulator.md): trace.json, the traced step of middle length for
trace viewers, in which a gather reaches from when it was issued to when its rank knew that it had arrived;
and that step's own file below trace/, which has besides when the rank began to wait for each gather. Both are
times at which the rank's stream came to a place, not times of the host.

Two shares are printed, of the time of all gathers of all ranks: in which the rank computed, and in which it
waited for the gather. The time of a gather for which no rank waited is known from above alone: it may
have ended before its rank asked. So the sure figures are the second share, and how many gathers were not
waited for. A step's first gathers always are.
"""

import glob
import json
import os
import re
import sys

COMPUTES = {"forward", "backward", "input gradient", "weight gradient", "recompute", "optimizer"}


def joined(spans):
    """Spans without overlaps, in order."""
    result = []
    for begin, end in sorted(spans):
        if result and begin <= result[-1][1]:
            result[-1][1] = max(result[-1][1], end)
        else:
            result.append([begin, end])
    return result


def shared(span, spans):
    """How much of a span lies in others that do not overlap."""
    return sum(max(0.0, min(span[1], end) - max(span[0], begin)) for begin, end in spans)


def ranks(folder):
    """Of each rank, a process of the trace: its name, computes, and gathers by their place in its row."""
    with open(os.path.join(folder, "trace.json"), encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    found = {}
    for event in events:
        rank = found.setdefault(event["pid"], {"name": "", "computes": [], "gathers": {}})
        if event["ph"] == "M" and event["name"] == "process_name":
            rank["name"] = event["args"]["name"]
        elif event["ph"] == "X" and event["cat"] == "gather":
            rank["gathers"][event["args"]["index"]] = (event["ts"], event["ts"] + event["dur"])
        elif event["ph"] == "X" and event["cat"] in COMPUTES:
            rank["computes"].append((event["ts"], event["ts"] + event["dur"]))
    return [found[pid] for pid in sorted(found)]


def waits(folder, step):
    """Of each rank, for how many microseconds it waited for each instruction."""
    with open(glob.glob(os.path.join(folder, "trace", f"step-*{step}.json"))[0], encoding="utf-8") as file:
        rows = json.load(file)["ranks"]
    between = lambda begin, end: 0.0 if begin is None or end is None else (end - begin) / 1000
    return [[between(*pair) for pair in zip(row["awaited"], row["arrived"])] for row in rows]


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = sys.argv[1]
    traced = ranks(folder)
    step = int(re.match(r"step (\d+) ", traced[0]["name"]).group(1))
    total = computing = waiting = num_gathers = num_free = 0
    print("rank            gathers  time, us  while computing, us  waited for, us  not waited for")
    for rank, waited in zip(traced, waits(folder, f"{step:06}")):
        computes = joined(rank["computes"])
        own = sum(end - begin for begin, end in rank["gathers"].values())
        under = sum(shared(span, computes) for span in rank["gathers"].values())
        stood = [waited[index] for index in rank["gathers"]]
        # A few microseconds are what recording two events takes.
        free = sum(wait < 5 for wait in stood)
        print(f"{rank['name']:15} {len(stood):7} {own:9.0f} {under:20.0f} {sum(stood):15.0f} {free:15}")
        total, computing, waiting = total + own, computing + under, waiting + sum(stood)
        num_gathers, num_free = num_gathers + len(stood), num_free + free
    if total == 0:
        sys.exit("the step has no gathers: is it a run of ZeRO-3 on several data ranks?")
    print(
        f"figure: step {step}: of the time of {num_gathers} gathers the rank computed in "
        f"{computing / total:.1%} and waited for them in {waiting / total:.1%}; "
        f"{num_free} were not waited for"
    )


if __name__ == "__main__":
    main()
