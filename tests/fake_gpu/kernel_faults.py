"""Writes a copy of the CUDA kernels in which every small mistake that a person might make can be switched on.

The mistakes are found in the text of the kernels, by patterns, so that they follow the kernels as these
change. All are compiled into one library: each has a number, and where `fake_gpu::mutated(number)` gives 1
instead of 0, the kernel makes the mistake. A build for each mistake would take hours.
"""

import re
from collections import Counter
from dataclasses import dataclass

# A comparison is recognised by the spaces around its operator, which template brackets do not have.
COMPARISON = re.compile(r"([\w\]).]+) (<=|>=|<|>) (?=([-\w(.]+))")
FLOAT_NUMBER = re.compile(r"-?\d+\.")
# Where a loop goes on by a constant number of places.
STRIDE = re.compile(r"(\w+) \+= (?=([A-Z]\w*( \* [A-Z]\w*)?)\) \{)")
BARRIER = re.compile(r"__syncthreads\(\);")
WARP_BARRIER = re.compile(r"__syncwarp\(\);")
MASK = re.compile(r"_sync\((?=WHOLE_WARP\b)|__syncwarp\((?=\);)")
# Whether an output is added to or overwritten, where the kernel is told.
MODE = re.compile(r"(?<=, )add(?=\);)|(?<=return )add(?= \?)|(?<== )add(?= \?)")
SUM = re.compile(r"^( +)([\w.\->]+(?:\[[^\];=]*\])*) \+= ([^;]*);", re.MULTILINE)
FUSED_SUM = re.compile(r"fmaf\(([^;]+), ([^,;]+)\);")
STORE = re.compile(r"^( +)([\w.\->]*\w(?:\[[^\];=]*\]+)+(?:\.\w+)?) = ([^;={][^;]*);", re.MULTILINE)
FUNCTION = re.compile(r"\b(\w+)\s*\([^;{}]*\)\s*\{")
NO_FUNCTIONS = {"if", "for", "while", "switch"}


@dataclass
class KernelFault:
    """A mistake that can be switched on."""

    number: int
    kind: str
    file: str
    line: int
    function: str
    # What the mistake is, in words or as changed code.
    what: str

    @property
    def name(self):
        """What it is called in `equivalents.txt`, without numbers that change with the files."""
        return f"{self.kind} {self.file} {self.function} {self.what}"


def blanked(text, pattern, flags=0):
    """The text with spaces for all that a pattern finds, every line and column staying where it is."""
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=flags)


def code_of(text):
    """The code that runs on a device: no comments, preprocessor, assertions, constants or code for the host alone."""
    text = blanked(text, r"//[^\n]*")
    text = blanked_host_code(text)
    text = blanked(text, r"^ *#[^\n]*", re.MULTILINE)
    return blanked(text, r"static_assert\([^;]*;|static const [^;{]*;")


def blanked_host_code(text):
    """The text without what lies between `#else` and `#endif` of an `#ifdef __CUDACC__`."""
    lines = []
    # What the line lies in, the outermost first.
    conditions = []
    for line in text.split("\n"):
        if line.startswith("#if"):
            conditions.append("device" if line.startswith("#ifdef __CUDACC__") else "other")
        elif line.startswith("#else") and conditions[-1] == "device":
            conditions[-1] = "host"
        elif line.startswith("#endif"):
            conditions.pop()
        lines.append(" " * len(line) if "host" in conditions else line)
    return "\n".join(lines)


class Rewriting:
    """One file on its way to a copy in which mistakes can be switched on."""

    def __init__(self, file, text, first_number):
        self.file = file
        self.text = text
        self.code = code_of(text)
        self.next_number = first_number
        self.faults = []
        # Text to be put in, as (place, end of what it replaces, order among those at one place, text).
        self.edits = []
        self.seen = Counter()
        without_bounds = blanked(self.code, r"__launch_bounds__\s*\([^)]*\)")
        self.functions = [
            (found.start(), found.group(1))
            for found in FUNCTION.finditer(without_bounds)
            if found.group(1) not in NO_FUNCTIONS
        ]

    def function_at(self, place):
        names = [name for start, name in self.functions if start < place]
        return names[-1] if names else "-"

    def switch(self, kind, place, what):
        """Notes a fault, and gives the code that says whether it is switched on."""
        function = self.function_at(place)
        self.seen[function, kind, what] += 1
        count = self.seen[function, kind, what]
        what = what if count == 1 else f"{what}, number {count}"
        line = self.text.count("\n", 0, place) + 1
        number = self.next_number
        self.next_number += 1
        self.faults.append(KernelFault(number, kind, self.file, line, function, what))
        return f"::fake_gpu::mutated({number})"

    def put(self, place, piece, end=None, order=0):
        self.edits.append((place, place if end is None else end, order, piece))

    def add_barriers(self):
        for pattern, what in [(BARRIER, "no __syncthreads"), (WARP_BARRIER, "no __syncwarp")]:
            for found in pattern.finditer(self.code):
                self.put(found.start(), f"if (!{self.switch('barrier', found.start(), what)}) ")

    def add_masks(self):
        for found in MASK.finditer(self.code):
            whole = "WHOLE_WARP" if self.code.startswith("WHOLE_WARP", found.end()) else "~0u"
            end = found.end() + (len("WHOLE_WARP") if whole == "WHOLE_WARP" else 0)
            last = self.switch("mask", found.start(), "no last lane")
            first = self.switch("mask", found.start(), "no first lane")
            self.put(found.end(), f"{whole} ^ ({last} << 31 | {first})", end)

    def add_bounds(self):
        for found in COMPARISON.finditer(self.code):
            left, operator, right = found.groups()
            # Numbers with a point, and the two floats of `larger`, have no edge that one could be off by.
            if FLOAT_NUMBER.match(self.code[found.end() :]) or left == "a":
                continue
            further = self.switch("bound", found.start(), f"{left} {operator} 1 + {right}")
            self.put(found.end(), f"{further} + ")
            # What is more than nothing stays so, one higher.
            if right != "0":
                nearer = self.switch("bound", found.start(), f"{left} + 1 {operator} {right}")
                self.put(found.end(1), f" + {nearer}")

    def add_strides(self):
        for found in STRIDE.finditer(self.code):
            switch = self.switch("stride", found.start(), f"{found.group(1)} += 1 + {found.group(2)}")
            self.put(found.end(), f"{switch} + ")

    def add_modes(self):
        for found in MODE.finditer(self.code):
            adds = self.switch("mode", found.start(), "always adds")
            puts = self.switch("mode", found.start(), "always overwrites")
            self.put(found.start(), f"({adds} ? 1 : {puts} ? 0 : add)", found.end())

    def add_sums(self):
        for found in SUM.finditer(self.code):
            target = found.group(2)
            switch = self.switch("sum", found.start(2), f"{target} = instead of +=")
            self.put(found.end(2), f" = ({switch} ? 0 : {target}) + (", found.start(3))
            self.put(found.end(3), ")", order=1)
        for found in FUSED_SUM.finditer(self.code):
            switch = self.switch("sum", found.start(), f"fmaf onto 0 instead of {found.group(2)}")
            self.put(found.start(2), f"{switch} ? 0.0f : ")

    def add_stores(self):
        for found in STORE.finditer(self.code):
            target = found.group(2)
            switch = self.switch("store", found.start(2), f"{target} += instead of =")
            stored = f"::fake_gpu::stored<::std::remove_reference_t<decltype({target})>>"
            self.put(found.start(3), f"{stored}({switch}, {target}, ")
            self.put(found.end(3), ")", order=1)

    def rewritten(self):
        """The file's text with all switches in it."""
        self.add_barriers()
        self.add_masks()
        self.add_bounds()
        self.add_strides()
        self.add_modes()
        self.add_sums()
        self.add_stores()
        text = self.text
        for place, end, _, piece in sorted(self.edits, reverse=True):
            text = text[:place] + piece + text[end:]
        return text


def rewrite_kernels(kernels, copy):
    """Writes the kernels of a folder into another, and gives the faults that are in them."""
    faults = []
    for path in sorted(kernels.iterdir()):
        # 0 is no fault.
        rewriting = Rewriting(path.name, path.read_text(), 1 + len(faults))
        copied = copy / path.name
        text = rewriting.rewritten()
        if not copied.exists() or copied.read_text() != text:
            copied.write_text(text)
        faults += rewriting.faults
    return faults
