"""Names places in a program's code by the functions that lead there."""

import re
import subprocess
from collections import Counter
from pathlib import Path

# Code that says nothing about a place: other people's, that without a source, and the queue's own on its way
# to the driver.
NOT_OF_INTEREST = re.compile(r"^/rustc/|/registry/|^\?\?|queue/cuda/(queue|points|operations|edge)\.rs")
NUM_FUNCTIONS = 8


def shortened(function, file):
    """The name of a function and of its file, without paths and types."""
    function = re.sub(r"::h[0-9a-f]{16}$", "", function)
    while "<" in function and re.search(r"<[^<>]*>", function):
        function = re.sub(r"<[^<>]*>", "", function)
    names = [name for name in function.split("::") if name and name[0] not in "{<"]
    return f"{Path(file).stem}::{names[-1] if names else 'closure'}"


def functions_at(program, addresses):
    """The functions, inlined ones too, that the code at each address is of, from the innermost."""
    # A return address is that of the next instruction, which may be another line's.
    asked = "\n".join(hex(int(address, 16) - 1) for address in addresses)
    command = ["addr2line", "-a", "-f", "-i", "-C", "-e", str(program)]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    found, lines = {}, iter(done.stdout.splitlines())
    for line in lines:
        if line.startswith("0x"):
            functions = found.setdefault(int(line, 16) + 1, [])
        else:
            file = next(lines).rsplit(":", 1)[0]
            # The compiler's own name for what catches a panic differs from build to build.
            if not NOT_OF_INTEREST.search(file) and "__rust_try" not in line:
                functions.append(shortened(line, file))
    return found


def named_sites(program, lines):
    """For each fault of a list with a place in the program: the functions that lead there."""
    frames_of = {setting: frames for setting, _, *frames in lines if frames}
    addresses = sorted({frame for frames in frames_of.values() for frame in frames})
    if not addresses:
        return {}
    functions = functions_at(program, addresses)
    named, seen = {}, Counter()
    for setting, frames in sorted(frames_of.items(), key=lambda found: found[1]):
        names = [name for frame in frames for name in functions.get(int(frame, 16), [])]
        # A closure has the name of the function around it.
        names = [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]
        name = " < ".join(names[:NUM_FUNCTIONS])
        kind = setting.split(":")[0]
        seen[kind, name] += 1
        # Two calls in one function.
        named[setting] = name if seen[kind, name] == 1 else f"{name}, number {seen[kind, name]}"
    return named
