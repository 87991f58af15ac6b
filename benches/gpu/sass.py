"""Reads the output of NVIDIA's disassembler (nvdisasm -c): the instructions of each kernel, its loops, its divisions, and how many instructions a
warp issues on its way through.

A loop is a set of blocks of instructions that can all reach each other. The loops in it are what is left without its first block. So code that the
compiler has moved behind the kernel's end, and that jumps back, is a loop only if it runs again and again. A branch that depends on a predicate
continues at either of two blocks; a call continues behind it. Blocks that nothing reaches, such as the endless branch behind a kernel's end and
the NOPs that fill a line of the instruction cache, are not counted.
"""

import dataclasses
import re

INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;")
LABEL = re.compile(r"^(\.L_[\w.]+):")
TARGET = re.compile(r"`\(([^)]+)\)")
PREDICATE = re.compile(r"^@!?U?P\w+\s+")
# Instructions after which the next one does not run, unless a predicate holds them back.
ENDS = ("EXIT", "RET", "BRA", "BRX", "JMP", "KILL")
# A division or remainder of 64 bits: a call of NVIDIA's routine, or the conversion with which its code begins where it is not called.
DIVISION = re.compile(r"^CALL\S* .*(div|rem)_[us]64|^I2F\.[US]64\.RP\b")


@dataclasses.dataclass
class Block:
    """Instructions of which all run or none."""

    instructions: list
    successors: list = dataclasses.field(default_factory=list)

    def count(self, pattern):
        """How many of the instructions match, without their predicates."""
        return sum(bool(pattern.search(PREDICATE.sub("", text))) for text in self.instructions)


@dataclasses.dataclass
class Loop:
    first: int
    blocks: frozenset
    inner: list

    def all(self):
        """This loop and those in it."""
        return [self] + [loop for inner in self.inner for loop in inner.all()]


class Kernel:
    """The blocks of one kernel, and its loops. Routines that it calls lie behind its end; nothing counts them."""

    def __init__(self, name, body):
        self.name = name
        self.body = body
        self.blocks = blocks_of(body)
        self.loops = loops_of(self.blocks, frozenset(reachable(self.blocks)))

    def num_instructions(self):
        return self.size_of(reachable(self.blocks))

    def size_of(self, places):
        return sum(len(self.blocks[place].instructions) for place in places)

    def all_loops(self):
        return [loop for outer in self.loops for loop in outer.all()]

    def own_size(self, loop):
        """Instructions of a loop outside the loops in it."""
        return self.size_of(loop.blocks.difference(*(inner.blocks for inner in loop.inner)))

    def hottest_loop(self):
        """The loop with the most instructions of its own; none where there is no loop."""
        return max(self.all_loops(), key=self.own_size, default=None)

    def num_divisions(self):
        return sum(self.blocks[place].count(DIVISION) for place in reachable(self.blocks))

    def num_divisions_in_loops(self):
        places = frozenset().union(*(loop.blocks for loop in self.loops))
        return sum(self.blocks[place].count(DIVISION) for place in places)


def kernels(text):
    """The kernels of a disassembled program, by name."""
    sections = re.split(r"\.section\s+\.text\.(\w+)", text)[1:]
    return {name: Kernel(name, body) for name, body in zip(sections[::2], sections[1::2])}


def blocks_of(body):
    """The blocks of a section, in their order; successors are places in this list. After a call the next instruction follows, so no block leads to a
    routine."""
    lines, starts, labels, pending = [], {0}, {}, []
    for line in body.splitlines():
        label, instruction = LABEL.match(line), INSTRUCTION.match(line)
        if label:
            pending.append(label[1])
        elif instruction:
            labels.update(dict.fromkeys(pending, len(lines)))
            starts.update([len(lines)] if pending else [])
            pending = []
            lines.append(instruction[2])
            if ends_block(instruction[2]):
                starts.add(len(lines))
    order = sorted(start for start in starts if start < len(lines))
    place_of = {start: place for place, start in enumerate(order)}
    blocks = []
    for start, end in zip(order, order[1:] + [len(lines)]):
        block = Block(lines[start:end])
        block.successors = sorted(
            {place_of[labels[target]] for target in targets(block.instructions[-1]) if target in labels}
            | ({place_of[end]} if continues(block.instructions[-1]) and end in place_of else set())
        )
        blocks.append(block)
    return blocks


def name_of(text):
    return PREDICATE.sub("", text).split(" ")[0]


def ends_block(text):
    return name_of(text).split(".")[0] in ENDS


def targets(text):
    """Labels to which an instruction may branch."""
    return TARGET.findall(text) if name_of(text).split(".")[0] in ("BRA", "BRX", "JMP") else []


def continues(text):
    """Whether the next instruction may run after this one. Branches have predicates before them or among their operands."""
    if not ends_block(text):
        return True
    operands = text.split("`")[0] if "`" in text else text
    return bool(PREDICATE.match(text) or re.search(r"\s!?U?P\d\b|\.DIV|\.CONV", PREDICATE.sub("", operands)))


def reachable(blocks, start=0):
    found, waiting = set(), [start] if blocks else []
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += blocks[place].successors
    return found


def components(blocks, places):
    """Sets of blocks that reach each other without leaving `places` (Kosaraju). A block alone counts where it branches to itself."""

    def order_of(starts, following):
        seen, order = set(), []
        for start in starts:
            waiting = [(start, iter(following[start]))] if start not in seen else []
            seen.add(start)
            while waiting:
                place, rest = waiting[-1]
                after = next((each for each in rest if each not in seen), None)
                if after is None:
                    order.append(place)
                    waiting.pop()
                else:
                    seen.add(after)
                    waiting.append((after, iter(following[after])))
        return order

    following = {place: [each for each in blocks[place].successors if each in places] for place in places}
    leading = {place: [] for place in places}
    for place, after in following.items():
        for each in after:
            leading[each].append(place)
    found, left = [], set(places)
    for start in reversed(order_of(sorted(places), following)):
        if start in left:
            within = {place: [each for each in leading[place] if each in left] for place in left}
            component = order_of([start], within)
            left.difference_update(component)
            if len(component) > 1 or start in following[start]:
                found.append(frozenset(component))
    return found


def loops_of(blocks, places):
    """Loops among these blocks, outer ones first, each with those in it."""
    found = []
    for component in components(blocks, places):
        entered = [place for place in component if is_entered(blocks, place, component)]
        first = min(entered or component)
        found.append(Loop(first, component, loops_of(blocks, component - {first})))
    return sorted(found, key=lambda loop: loop.first)


def is_entered(blocks, place, component):
    """Whether a block of a loop is one that code outside the loop continues with."""
    return any(place in block.successors for other, block in enumerate(blocks) if other not in component)


@dataclasses.dataclass
class Pass:
    """One turn of a loop: how many of the counted accesses a warp makes in it, and how many instructions it issues."""

    num_accesses: int
    num_instructions: int


@dataclasses.dataclass
class Way:
    """What a warp issues from the first instruction to the kernel's end. Loops without an access are passed once."""

    num_accesses: int
    num_instructions: int
    passes: list


def way_of(kernel, accesses):
    """The way with the most accesses outside loops and in one turn of each, and among those the one with the fewest instructions.

    A kernel has code for packs of 16 bytes and code for single elements. The accesses of 16 bytes name the first. Slow paths of divisions and roots
    have no access, so the way goes around them.
    """
    places = frozenset(reachable(kernel.blocks))
    num_accesses, num_instructions, loops = best_way(kernel.blocks, places, kernel.loops, 0, None, accesses)
    passes = [Pass(*turn) for turn in loops if turn[0]]
    return Way(num_accesses, num_instructions + sum(turn[1] for turn in loops if not turn[0]), passes)


def best_way(blocks, places, loops, start, end, accesses):
    """Accesses and instructions outside loops, and the same of one turn of each loop, in order.

    The way begins at the block `start`. It ends with the kernel, or with a branch to the block `end`. None where no way leads there.
    """
    loop_of = {place: loop for loop in loops for place in loop.blocks}
    known = {}

    def following(places_left):
        return {loop_of[each].first if each in loop_of else each for each in places_left if each in places}

    def best(place):
        if place not in known:
            known[place] = longer(place)
        return known[place]

    def longer(place):
        loop = loop_of.get(place)
        if loop:
            own, turns = (0, 0), (turn_of(blocks, loop, accesses),)
            after = {each for inner in loop.blocks for each in blocks[inner].successors} - loop.blocks
        else:
            own, turns = (blocks[place].count(accesses), len(blocks[place].instructions)), ()
            after = set(blocks[place].successors)
        is_last = end in after if end is not None else not after
        ways = [(0, 0, ())] if is_last else [found for found in map(best, following(after - {end})) if found]
        return max(((own[0] + way[0], own[1] + way[1], turns + way[2]) for way in ways), key=rank, default=None)

    return best(loop_of[start].first if start in loop_of else start)


def turn_of(blocks, loop, accesses):
    """Accesses and instructions of one turn of a loop, and of the loops in it."""
    outside, instructions, inner = best_way(blocks, loop.blocks, loop.inner, loop.first, loop.first, accesses)
    return outside + sum(turn[0] for turn in inner), instructions + sum(turn[1] for turn in inner)


def rank(way):
    """More accesses first, then fewer instructions."""
    num_accesses, num_instructions, turns = way
    return num_accesses + sum(turn[0] for turn in turns), -num_instructions - sum(turn[1] for turn in turns)
