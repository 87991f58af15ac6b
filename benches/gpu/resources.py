"""What the CUDA kernels need of a GPU, found without one: registers, spills, shared memory, and the instructions
that make them fast, for sm_80 and sm_90 and for each type of elements.

    python3 benches/gpu/resources.py            compiles the kernels and compares with benches/gpu/resources.csv
    python3 benches/gpu/resources.py --write    writes that file

NVIDIA's compiler and disassembler come from PyPI into a temporary folder. The compiler is given the sources that
`models/src/queue/cuda/program.rs` names, in its order and with its options. The table counts products on tensor
cores (HMMA), copies to shared memory that go on while threads work (LDGSTS), loads of matrices (LDSM), and reads
of 16 bytes of global memory at once (LDG.128). A kernel that spills registers to memory is an error, as is one
for tensor cores that lacks their instructions.
"""

import csv
import ctypes
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CUDA = os.path.join(ROOT, "models", "src", "queue", "cuda")
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resources.csv")
COMPILER = "nvidia-cuda-nvrtc==13.0.88"
DISASSEMBLER = "nvidia-cuda-nvdisasm==13.2.86"
INSTRUCTIONS = {"hmma": r"\bHMMA", "ldgsts": r"\bLDGSTS", "ldsm": r"\bLDSM", "ldg128": r"\bLDG\.\S*128"}
# Names of kernels for tensor cores, and what each must have.
ON_TENSOR_CORES = re.compile("attention_mma_")
NEEDED = ("hmma", "ldgsts", "ldsm")
ARCHITECTURES = ("sm_80", "sm_90")
ELEMENTS = ("F32", "BF16", "F16")
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


def compiler(folder):
    """NVIDIA's compiler, installed into a folder."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, COMPILER, DISASSEMBLER]
    subprocess.run(install, check=True)
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


def counted(folder, cubin):
    """How often each kernel has each of the instructions."""
    path = os.path.join(folder, "kernels.cubin")
    with open(path, "wb") as file:
        file.write(cubin)
    tool = glob.glob(f"{folder}/nvidia/*/bin/nvdisasm")[0]
    os.chmod(tool, 0o755)
    text = subprocess.run([tool, "-c", path], check=True, capture_output=True, text=True).stdout
    sections = re.split(r"\.section\s+\.text\.(\w+)", text)[1:]
    kernels = zip(sections[::2], sections[1::2])
    return {
        name: [len(re.findall(pattern, body)) for pattern in INSTRUCTIONS.values()] for name, body in kernels
    }


def measured():
    """The lines of the table."""
    lines = ["architecture,elements,kernel,registers,shared_bytes,spilled_bytes," + ",".join(INSTRUCTIONS)]
    with tempfile.TemporaryDirectory() as folder:
        nvrtc = compiler(folder)
        for architecture in ARCHITECTURES:
            for element in ELEMENTS:
                log, cubin = compiled(nvrtc, element, architecture)
                instructions = counted(folder, cubin)
                for name, stores, loads, registers, shared in sorted(KERNEL.findall(log)):
                    figures = [registers, shared or 0, int(stores) + int(loads), *instructions[name]]
                    lines.append(",".join(map(str, (architecture, element, name, *figures))))
    return lines


def main():
    lines = measured()
    rows = list(csv.DictReader(lines))
    spilling = [row["kernel"] for row in rows if row["spilled_bytes"] != "0"]
    if spilling:
        sys.exit(f"kernels that spill registers to memory: {spilling}")
    on_tensor_cores = [row for row in rows if ON_TENSOR_CORES.match(row["kernel"])]
    lacking = [row["kernel"] for row in on_tensor_cores if "0" in [row[name] for name in NEEDED]]
    if lacking or not on_tensor_cores:
        sys.exit(f"kernels for tensor cores without {', '.join(NEEDED)}: {lacking}")
    text = "\n".join(lines) + "\n"
    if "--write" in sys.argv[1:]:
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(text)
        print(f"wrote {len(lines) - 1} kernels")
        return
    with open(TABLE, encoding="utf-8") as file:
        known = file.read()
    if text != known:
        before = set(known.splitlines())
        changed = [line for line in lines if line not in before]
        sys.exit("the table is another one; run with --write if that is meant:\n" + "\n".join(changed))
    print(f"{len(lines) - 1} kernels as in the table, none spills")


if __name__ == "__main__":
    main()
