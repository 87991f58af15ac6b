"""How many instructions each kernel has and issues, and the bounds on them in floors.csv.

`instructions` counts the whole kernel, without NVIDIA's routines for slow divisions and roots. `loop` counts the loop that has most instructions
outside the loops in it. `issued` is for sm_90a only: what warps issue for 1024 elements on the way through packs of 16 bytes. Rows have 4096 columns
then, sums down columns have 4096 rows, and 4 heads are turned. WORK says which threads have which elements; a kernel that is not in it has no `issued`.

`ps` is the time of one element on an H100, if each of its 132 x 4 schedulers issues an instruction in each cycle at 1.98 GHz. No kernel is faster. It
may be slower, since many instructions occupy their unit for more than one cycle.
"""

import csv
import dataclasses
import math
import os
import re

BOUNDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "floors.csv")
NUM_MULTIPROCESSORS, NUM_SCHEDULERS, CYCLES_PER_S = 132, 4, 1.98e9
H100 = "sm_90a"
WIDE = re.compile(r"^(LDG|STG)\.\S*128")
STORE = re.compile(r"^STG\b")
REPAIR = "make it smaller, or raise the bound with --write and say why in the commit"
COUNTS = ("instructions", "loop", "issued")
COLUMNS, ROWS, HEADS = 4096, 4096, 4


@dataclasses.dataclass(frozen=True)
class Work:
    """Which threads have which elements, and how a turn of a loop is known: by its accesses for each pack, in programs for f32 and for 16 bits."""

    threads: str
    accesses: tuple
    # Elements of a pack; none where a pack is 16 bytes of elements.
    pack: int = None
    counted: re.Pattern = WIDE


def each_thread(of_f32, of_halves, **others):
    return Work("thread", ((of_f32, of_halves),), **others)


# By `threads`:
# thread       a thread has one pack
# warp         a warp has one row
# block        a block has one row, and a warp without columns skips a turn
# whole block  a block has one row, and all warps take part in each turn
# warps        a block has one row, with a warp for each 1024 columns, eight at most
# columns      a block has two packs of columns, and its threads are 128 groups of rows
# pairs        a thread has one pair of a token, which it turns in all heads: a row is a pair, and a column a head
WORK = {
    "to_f32": each_thread(2, 3),
    "from_f32": each_thread(2, 3),
    "round_to_element": each_thread(2, 4),
    "bf16_to_f16": each_thread(2, 2, pack=8),
    "f16_to_bf16": each_thread(2, 2, pack=8),
    "gelu": each_thread(2, 2),
    "gelu_backward": each_thread(4, 4),
    "add": each_thread(3, 3),
    "adamw": each_thread(7, 7),
    "sgd": each_thread(3, 3),
    "sgd_with_momentum": each_thread(5, 5),
    "add_positions": each_thread(1, 1, pack=1, counted=STORE),
    "attention_put_queries": each_thread(1, 1, pack=1, counted=STORE),
    "norm_forward": Work("warp", ((1, 1), (1, 1), (4, 4))),
    "norm_statistics": Work("warp", ((1, 1), (1, 1))),
    "norm_again": Work("warp", ((4, 4),)),
    "norm_backward_input": Work("warp", ((3, 3), (5, 7))),
    "swiglu": Work("block", ((3, 3),)),
    "swiglu_backward": Work("block", ((6, 6),)),
    "dropout": Work("block", ((2, 2),)),
    "dropout_add_residual": Work("block", ((3, 3),)),
    "embedding": Work("block", ((1, 1),), pack=1, counted=STORE),
    "narrow_rows": Work("whole block", ((2, 1),), pack=4),
    "cross_entropy_backward": Work("whole block", ((2, 1),), pack=4),
    "cross_entropy": Work("warps", ((1, 1),)),
    "bias_backward": Work("columns", ((1, 1),)),
    "norm_backward_weight": Work("columns", ((2, 2),)),
    "rope": Work("pairs", ((2, 2),), pack=1, counted=STORE),
}


class Unfit(Exception):
    """The compiled kernel has other loops or accesses than WORK says."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a launch issues: its blocks, and the instructions of all warps of one."""

    num_blocks: int
    of_block: float

    def total(self):
        return self.num_blocks * self.of_block

    def seconds(self):
        """On an H100, where the multiprocessor with most blocks decides."""
        most = math.ceil(self.num_blocks / NUM_MULTIPROCESSORS)
        return most * self.of_block / (NUM_SCHEDULERS * CYCLES_PER_S)


def turns_of(kernel, element, way):
    """The loops of a way, each with the packs of a thread that one turn takes; one turn without loops."""
    work, place = WORK[kernel], 0 if element == "F32" else 1
    expected = [each[place] for each in work.accesses]
    found = [way.num_accesses] if work.threads == "thread" else [turn.num_accesses for turn in way.passes]
    fits = len(found) == len(expected) and all(a % b == 0 and a for a, b in zip(found, expected))
    if not fits or (work.threads == "thread" and (found != expected or way.passes)):
        raise Unfit(f"accesses {found} for each turn, WORK in floors.py says multiples of {expected}")
    return [(a // b, turn.num_instructions) for a, b, turn in zip(found, expected, way.passes)]


def cost(kernel, element, way, num_rows, num_columns, leave_out=0):
    """What a launch for so many rows and columns issues. `leave_out` loops at the beginning are not run (RMS norms need no mean)."""
    work = WORK[kernel]
    pack = work.pack or (4 if element == "F32" else 8)
    turns, outside = turns_of(kernel, element, way)[leave_out:], way.num_instructions

    def passed(num, num_threads):
        return sum(math.ceil(num / (num_threads * packs * pack)) * instructions for packs, instructions in turns)

    if work.threads == "thread":
        return Cost(math.ceil(num_rows * num_columns / (256 * pack)), 8 * outside)
    if work.threads == "warp":
        return Cost(math.ceil(num_rows / 8), 8 * (outside + passed(num_columns, 32)))
    if work.threads == "block":
        return Cost(num_rows, 8 * outside + passed(num_columns, 32))
    if work.threads == "whole block":
        return Cost(num_rows, 8 * (outside + passed(num_columns, 256)))
    if work.threads == "warps":
        return Cost(num_rows, min(8, math.ceil(num_columns / 1024)) * outside + passed(num_columns, 32))
    if work.threads == "columns":
        of_warp = outside + sum(math.ceil(num_rows / (128 * packs)) * instructions for packs, instructions in turns)
        return Cost(math.ceil(num_columns / (2 * pack)), 8 * of_warp)
    return Cost(math.ceil(num_rows / 256), 8 * (outside + passed(num_columns, 1)))


def issued(kernel, element, way):
    """Instructions for 1024 elements, rounded up."""
    threads = WORK[kernel].threads
    num_rows, num_columns = {"columns": (ROWS, 16), "pairs": (256, HEADS)}.get(threads, (8, COLUMNS))
    num_elements = num_rows * num_columns * (2 if threads == "pairs" else 1)
    return math.ceil(cost(kernel, element, way, num_rows, num_columns).total() * 1024 / num_elements)


def ps(issued_instructions):
    """Picoseconds of one element on an H100."""
    return issued_instructions / 1024 / (NUM_MULTIPROCESSORS * NUM_SCHEDULERS * CYCLES_PER_S) * 1e12


def lines_of(counts):
    """floors.csv, given `instructions`, `loop` and `issued` by (architecture, elements, kernel)."""
    lines = ["architecture,elements,kernel,instructions_max,loop_max,issued_max,ps"]
    for key, found in sorted(counts.items()):
        numbers = ["" if found[name] is None else found[name] for name in COUNTS]
        floor = f"{ps(found['issued']):.3f}" if key[0] == H100 and found["issued"] is not None else ""
        lines.append(",".join(map(str, (*key, *numbers, floor))))
    return lines


def read_bounds(path=BOUNDS):
    """The bounds by (architecture, elements, kernel)."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    key = ("architecture", "elements", "kernel")
    return {
        tuple(row[name] for name in key): {name: int(row[f"{name}_max"]) if row[f"{name}_max"] else None for name in COUNTS}
        for row in rows
    }


def beyond(counts, bounds):
    """One line for each kernel without a bound, each bound without a kernel, and each count above its bound."""
    findings = []
    for key, found in sorted(counts.items()):
        name = " ".join(key)
        if key not in bounds:
            findings.append(f"{name}: no bound in floors.csv; write one with --write")
            continue
        for count in COUNTS:
            number, bound = found[count], bounds[key][count]
            if number is not None and (bound is None or number > bound):
                findings.append(f"{name}: {count} {number}, at most {bound} in floors.csv; {REPAIR}")
    gone = sorted(set(bounds) - set(counts))
    return findings + [f"{' '.join(key)}: a bound in floors.csv, but no such kernel; remove it with --write" for key in gone]


def below(counts, bounds):
    """Counts that have become smaller than their bounds."""
    return sorted(
        f"{' '.join(key)}: {name} {counts[key][name]}, bound {bounds[key][name]}"
        for key in counts.keys() & bounds.keys()
        for name in COUNTS
        if counts[key][name] is not None and bounds[key][name] is not None and counts[key][name] < bounds[key][name]
    )


# Kernels that divide 64-bit integers today: once or twice for an element, a pair or a row. A division takes about 70 instructions, or 25 where both
# numbers are below 2^32.
DIVIDES = {
    "add_positions", "attention_put_queries", "head_norm", "head_norm_backward_input", "positions_backward", "rope",
}  # fmt: skip
# Those that do so in a loop.
DIVIDES_IN_LOOPS = set()


def wrong_divisions(divisions, known, what):
    """One line for each kernel that divides and is not known to, and for each that is known to and does not. `divisions` has the numbers of all
    programs by (architecture, elements, kernel)."""
    dividing = {key: number for key, number in divisions.items() if number}
    new = [
        f"{' '.join(key)}: {number} 64-bit divisions {what}; compute with 32 bits, or with the quotient of the row before"
        for key, number in sorted(dividing.items())
        if key[2] not in known
    ]
    gone = sorted(known - {kernel for _, _, kernel in dividing})
    return new + [f"{kernel}: no 64-bit division {what} any more; take it out of the list in floors.py" for kernel in gone]
