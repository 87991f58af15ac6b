"""Says whether a program is faster than an older one, from the lines of speed.py in which both took turns.

    python3 benches/gpu/ab.py --lines FILE.jsonl [--old DIR] RUN_NAME

The lines are named `old` and `new` (`speed.py train --what`). The gain is the difference of the medians of their steps; the spread is the largest difference
between two rounds of the same program. A change is kept if the gain is larger than the spread, and larger than half of what
was predicted, which the file predicted-ms in the folder of the older program may say.
"""

import argparse
import json
import os
import statistics


def predicted_ms(folder):
    """What the change should gain, by whoever packed the programs; None where nobody said so."""
    try:
        with open(os.path.join(folder, "predicted-ms"), encoding="utf-8") as file:
            return float(file.read())
    except FileNotFoundError:
        return None


def verdict(times, predicted):
    """What is kept by the rule; times in ms by "old" and "new"."""
    gain = statistics.median(times["old"]) - statistics.median(times["new"])
    spread = max(max(each) - min(each) for each in times.values())
    figures = {"old_ms": times["old"], "new_ms": times["new"], "gain_ms": gain, "spread_ms": spread}
    return figures | {"predicted_ms": predicted, "is_kept": gain > spread and gain > (predicted or 0) / 2}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", required=True)
    parser.add_argument("--old", help="folder of the older program")
    parser.add_argument("name", help="of the run file, without its ending")
    arguments = parser.parse_args()
    with open(arguments.lines, encoding="utf-8") as file:
        lines = [line for line in map(json.loads, file) if line["model"] == arguments.name]
    times = {what: [line["step_s"] * 1e3 for line in lines if line["what"] == what] for what in ("old", "new")}
    if not all(times.values()):
        raise SystemExit(f"{arguments.lines} has {len(times['old'])} lines of old and {len(times['new'])} of new")
    predicted = predicted_ms(arguments.old) if arguments.old else None
    print(f"figures: {json.dumps(verdict(times, predicted))}")


if __name__ == "__main__":
    main()
