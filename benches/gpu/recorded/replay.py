"""What stands in a rehearsal in the place of a tool that is not there: it prints what was recorded beside it.

The programs `ncu`, `sanitizer` and `torch` of this folder end here. torch_gpt.txt and its losses were recorded on a CPU with PyTorch 2.11, lab.txt on the fake GPU. The others were
written by hand in the form of the tool's output, since no machine with a GPU has recorded them yet; their times are 1000 ns, or 1 ms, wherever a
time stands.
"""

import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def after(option, arguments):
    return arguments[arguments.index(option) + 1] if option in arguments else None


def show(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        print(file.read(), end="")


def replay(tool, arguments):
    if tool == "ncu":
        shutil.copyfile(os.path.join(HERE, "ncu.csv"), after("--log-file", arguments))
    elif tool == "sanitizer":
        show(f"sanitizer-{after('--tool', arguments)}.txt")
    else:
        script = os.path.basename(arguments[0]).removesuffix(".py")
        show(f"{script}.txt")
        if after("--losses", arguments):
            shutil.copyfile(os.path.join(HERE, f"{script}-losses.jsonl"), after("--losses", arguments))


if __name__ == "__main__":
    replay(sys.argv[1], sys.argv[2:])
