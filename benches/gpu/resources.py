"""What the CUDA kernels need of a GPU, found without one: registers, spills, shared memory, and their instructions, for sm_80, sm_90a and sm_100 and
for each type of elements.

    python3 benches/gpu/resources.py            compiles the kernels, and compares with resources.csv and floors.csv
    python3 benches/gpu/resources.py --write    writes these files; say in the commit why a bound had to rise
    python3 benches/gpu/resources.py --account  calculates the least time of each kernel in a training step on an H100

NVIDIA's compiler and disassembler come from PyPI into a temporary folder. The compiler gets the sources that `models/src/queue/cuda/program.rs`
names, in its order and with its options. Its version, NVRTC 13.0.88, knows all three architectures; sm_90a is sm_90 with the instructions that only
Hopper has. Two programs are compiled at a time.

resources.csv counts products on tensor cores (HMMA: `mma.sync` compiles to it on all three), copies to shared memory that go on while threads work
(LDGSTS), loads of matrices (LDSM), and reads of 16 bytes of global memory at once (LDG.128). floors.csv bounds the number of instructions of each
kernel: see floors.py. These are errors:

- a kernel spills registers to memory, and is not in SPILLING
- a kernel for tensor cores lacks their instructions
- a kernel has more instructions than its bound
- a kernel divides 64-bit integers, and is not in DIVIDES of floors.py, or in DIVIDES_IN_LOOPS if it does so in a loop
- a kernel is in one of these lists, and neither spills nor divides any more
"""

import argparse
import concurrent.futures
import csv
import ctypes
import functools
import glob
import os
import re
import subprocess
import sys
import tempfile

import floors
import sass

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CUDA = os.path.join(ROOT, "models", "src", "queue", "cuda")
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resources.csv")
COMPILER = "nvidia-cuda-nvrtc==13.0.88"
DISASSEMBLER = "nvidia-cuda-nvdisasm==13.2.86"
INSTRUCTIONS = {"hmma": r"\bHMMA", "ldgsts": r"\bLDGSTS", "ldsm": r"\bLDSM", "ldg128": r"\bLDG\.\S*128"}
# Names of kernels for tensor cores, and what each must have.
ON_TENSOR_CORES = re.compile("attention_mma_")
NEEDED = ("hmma", "ldgsts", "ldsm")
# Kernels that spill today. No run was measured on an sm_100 so far.
SPILLING = {
    ("sm_100", "BF16", "attention_128"), ("sm_100", "F16", "attention_128"), ("sm_100", "F32", "attention_128"),
    ("sm_100", "BF16", "norm_forward"),
}  # fmt: skip
ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")
ELEMENTS = ("F32", "BF16", "F16")
NUM_PROCESSES = 2
OPTIONS = ("--std=c++17", "--fmad=false", "--generate-line-info", "--ptxas-options=-v")
KERNEL = re.compile(
    r"Function properties for (\w+)\n.*?(\d+) bytes spill stores, (\d+) bytes spill loads\n"
    r".*?Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?"
)


def listed_sources(element):
    """Files of the program for elements of a type, in the order in which `fn sources` of program.rs puts them together."""
    with open(os.path.join(CUDA, "program.rs"), encoding="utf-8") as file:
        lists = dict(re.findall(r"const (OF_\w+): \[&str; \d+\] = \[(.*?)\];", file.read(), re.DOTALL))
    names = ("OF_ELEMENTS", "OF_F32" if element == "F32" else "OF_HALVES")
    return [source for name in names for source in re.findall(r'include_str!\("([^"]+)"\)', lists.get(name, ""))]


def program(element):
    """The sources for elements of a type as one program."""
    texts = []
    for source in listed_sources(element):
        with open(os.path.join(CUDA, source), encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts).encode()


def install(folder):
    """Puts NVIDIA's compiler and disassembler into a folder."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, COMPILER, DISASSEMBLER]
    subprocess.run(command, check=True)
    os.chmod(disassembler(folder), 0o755)


def disassembler(folder):
    return glob.glob(f"{folder}/nvidia/*/bin/nvdisasm")[0]


@functools.cache
def compiler(folder):
    """NVIDIA's compiler, loaded into this process."""
    builtins = glob.glob(f"{folder}/nvidia/*/lib/libnvrtc-builtins.so.*")
    ctypes.CDLL(builtins[0], mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(glob.glob(f"{folder}/nvidia/*/lib/libnvrtc.so.*")[0])


def compiled(nvrtc, element, architecture):
    """The compiler's log, and the program."""
    source = program(element)
    handle = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(handle), source, b"pipezero.cu", 0, None, None)
    own = (f"--gpu-architecture={architecture}", f"--define-macro=ELEMENT_{element}")
    options = [option.encode() for option in (*own, *OPTIONS)]
    status = nvrtc.nvrtcCompileProgram(handle, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(handle, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(handle, log)
    if status != 0:
        sys.exit(f"{architecture}, {element}: the kernels do not compile:\n{log.value.decode()}")
    nvrtc.nvrtcGetCUBINSize(handle, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(handle, cubin)
    return log.value.decode(), cubin.raw


def disassembled(folder, cubin):
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([disassembler(folder), "-c", file.name], check=True, capture_output=True, text=True).stdout


def measured(folder, architecture, element):
    """What one program has: by kernel, its row of resources.csv, its counts for floors.csv, and its divisions of 64 bits."""
    log, cubin = compiled(compiler(folder), element, architecture)
    text = disassembled(folder, cubin)
    kernels, found = sass.kernels(text), {}
    for name, stores, loads, registers, shared in KERNEL.findall(log):
        kernel = kernels[name]
        instructions = [len(re.findall(pattern, kernel.body)) for pattern in INSTRUCTIONS.values()]
        row = [registers, shared or 0, int(stores) + int(loads), *instructions]
        hottest = kernel.hottest_loop()
        counts = {"instructions": kernel.num_instructions(), "loop": kernel.own_size(hottest) if hottest else None, "issued": None}
        has_way = architecture == floors.H100 and name in floors.WORK
        way = sass.way_of(kernel, floors.WORK[name].counted) if has_way else None
        found[architecture, element, name] = {
            "row": row, "counts": counts, "way": way, "divisions": kernel.num_divisions(), "divisions_in_loops": kernel.num_divisions_in_loops(),
        }  # fmt: skip
    return found


def all_measured(architectures, elements):
    """The same of all programs, by (architecture, elements, kernel)."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ProcessPoolExecutor(NUM_PROCESSES) as processes:
        install(folder)
        # Programs for 16 bits take longest and come first.
        jobs = [(architecture, element) for element in reversed(elements) for architecture in architectures]
        for each in processes.map(functools.partial(measured, folder), *zip(*jobs)):
            found.update(each)
    return found


def table(found):
    """The lines of resources.csv."""
    lines = ["architecture,elements,kernel,registers,shared_bytes,spilled_bytes," + ",".join(INSTRUCTIONS)]
    order = [(architecture, element) for architecture in ARCHITECTURES for element in ELEMENTS]
    for key in sorted(found, key=lambda key: (order.index(key[:2]), key[2])):
        lines.append(",".join(map(str, (*key, *found[key]["row"]))))
    return lines


def count_issued(found):
    """Fills in what warps issue; returns a line for each kernel that is not as floors.WORK says."""
    findings = []
    for key, each in sorted(found.items()):
        if each["way"]:
            try:
                each["counts"]["issued"] = floors.issued(key[2], key[1], each["way"])
            except floors.Unfit as unfit:
                findings.append(f"{' '.join(key)}: {unfit}")
    gone = sorted(set(floors.WORK) - {kernel for _, _, kernel in found})
    return findings + [f"{kernel}: in WORK of floors.py, but no such kernel; take it out" for kernel in gone]


def errors(found, lines):
    """What is wrong whatever the tables say."""
    rows = list(csv.DictReader(lines))
    spilling = {(row["architecture"], row["elements"], row["kernel"]) for row in rows if row["spilled_bytes"] != "0"}
    findings = [f"{' '.join(key)}: spills registers to memory" for key in sorted(spilling - SPILLING)]
    findings += [f"{' '.join(key)}: spills no more; take it out of SPILLING in resources.py" for key in sorted(SPILLING - spilling)]
    on_tensor_cores = [row for row in rows if ON_TENSOR_CORES.match(row["kernel"])]
    lacking = [row["kernel"] for row in on_tensor_cores if "0" in [row[name] for name in NEEDED]]
    if lacking or not on_tensor_cores:
        findings.append(f"kernels for tensor cores without {', '.join(NEEDED)}: {lacking}")
    for name, known, what in (("divisions", floors.DIVIDES, "in the kernel"), ("divisions_in_loops", floors.DIVIDES_IN_LOOPS, "in a loop")):
        findings += floors.wrong_divisions({key: each[name] for key, each in found.items()}, known, what)
    return findings


def differences(lines, counts):
    """What differs from the tables."""
    with open(TABLE, encoding="utf-8") as file:
        known = set(file.read().splitlines())
    changed = [line for line in lines if line not in known] + [f"no more: {line}" for line in known - set(lines)]
    findings = ["resources.csv is another one; run with --write if that is meant:", *changed] if changed else []
    return findings + floors.beyond(counts, floors.read_bounds())


def write(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--account", action="store_true")
    arguments = parser.parse_args()
    if arguments.account:
        # It counts as this file does, so it is imported only where it is needed.
        import floors_of_step

        found = all_measured((floors.H100,), ("F32", "BF16"))
        floors_of_step.print_all({key[1:]: each["way"] for key, each in found.items()})
        return
    found = all_measured(ARCHITECTURES, ELEMENTS)
    findings = count_issued(found)
    lines, counts = table(found), {key: each["counts"] for key, each in found.items()}
    findings += errors(found, lines)
    if not arguments.write:
        findings += differences(lines, counts)
    if findings:
        sys.exit("\n".join(findings))
    if arguments.write:
        write(TABLE, lines)
        write(floors.BOUNDS, floors.lines_of(counts))
        print(f"wrote {len(counts)} kernels")
        return
    lower = floors.below(counts, floors.read_bounds())
    print(*lower, *(["lower these bounds with --write"] if lower else []), sep="\n", end="\n" if lower else "")
    print(f"{len(counts)} kernels as in resources.csv and within the bounds of floors.csv; no new spill or 64-bit division")


if __name__ == "__main__":
    main()
