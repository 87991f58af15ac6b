"""Compares what two runs wrote, file by file: JSON key by key, weights tensor by tensor, other files byte by byte."""

import json
import mmap
import struct

# Keys of metrics.jsonl and summary.json that depend on the clock, and the memory of the process as the system measures it.
MEASURED = {"tokens_per_s", "step_s", "wall_s", "tflops", "mfu", "exposed_comm_s", "idle_s", "idle_share", "exposed_comm_share",
            "grown_bytes"}
# It holds the number of a process.
LOCK = "run.lock"


def leaves(value, path=""):
    """The numbers and texts of JSON by their paths."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            if key not in MEASURED:
                yield from leaves(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for place, part in enumerate(value):
            yield from leaves(part, f"{path}[{place}]")
    else:
        yield path, value


def parsed(text):
    # A number stays the text that it is, so that each of its digits is compared.
    return json.loads(text, parse_float=lambda digits: digits)


def values_of_json(path):
    text = path.read_text()
    if path.suffix == ".jsonl":
        lines = [parsed(line) for line in text.splitlines()]
        return {f"line {number}: {key}": value for number, line in enumerate(lines, 1) for key, value in leaves(line)}
    return dict(leaves(parsed(text)))


def compare_values(old, new):
    """Differences of two maps, as (key, what each has)."""
    for key in [*old, *(key for key in new if key not in old)]:
        sides = [side.get(key, "nothing") for side in (old, new)]
        if sides[0] != sides[1] or (key in old) != (key in new):
            yield key, sides


class Tensors:
    """The tensors of a file of safetensors. The file is mapped, since weights can be large."""

    def __init__(self, path):
        with path.open("rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        (length,) = struct.unpack("<Q", self.bytes[:8])
        self.header = json.loads(self.bytes[8 : 8 + length])
        self.begin = 8 + length

    def described(self):
        """Types, shapes and places of the tensors, and what the file says of itself."""
        return dict(leaves(self.header))

    def tensors(self):
        return {name: of for name, of in self.header.items() if name != "__metadata__"}

    def tensor(self, name):
        begin, end = self.header[name]["data_offsets"]
        return self.bytes[self.begin + begin : self.begin + end]


def num_elements(tensor):
    product = 1
    for size in tensor["shape"]:
        product *= size
    return product


def compare_tensors(old, new):
    """How many values were compared, and the differences."""
    old, new = Tensors(old), Tensors(new)
    found = list(compare_values(old.described(), new.described()))
    num_values = len(old.described())
    for name, of in old.tensors().items():
        # What the headers say otherwise has been found already.
        if new.header.get(name) != of:
            continue
        num_values += num_elements(of)
        left, right = old.tensor(name), new.tensor(name)
        if left != right:
            width = max(1, len(left) // max(1, num_elements(of)))
            cuts = [slice(place, place + width) for place in range(0, len(left), width)]
            places = [cut for cut in cuts if left[cut] != right[cut]]
            what = [side[places[0]].hex() for side in (left, right)]
            found.append((f"{name}: {len(places)} of {num_elements(of)} values, the first", what))
    return num_values, found


def compare_folders(old, new):
    """How many values were compared in all files of two folders, and the differences."""
    num_values, found = 0, []
    names = [sorted(str(path.relative_to(side)) for path in side.rglob("*") if path.is_file()) for side in (old, new)]
    for name in sorted(set(names[0]) ^ set(names[1])):
        found.append((name, ["is there" if name in side else "is not there" for side in names]))
    for name in (name for name in names[0] if name in names[1]):
        paths = old / name, new / name
        if paths[0].name == LOCK:
            continue
        if name.endswith((".json", ".jsonl")):
            values = [values_of_json(path) for path in paths]
            num_values += len(values[0])
            differences = compare_values(*values)
        elif name.endswith(".safetensors"):
            num_of_tensors, differences = compare_tensors(*paths)
            num_values += num_of_tensors
        else:
            num_values += 1
            same = paths[0].read_bytes() == paths[1].read_bytes()
            differences = [] if same else [("bytes", [f"{path.stat().st_size} of them" for path in paths])]
        found += [(f"{name}: {key}", sides) for key, sides in differences]
    return num_values, found
