"""What the CUDA kernels need of a GPU: registers, spills and shared memory, for sm_80 and sm_90 and for each type of elements, without a GPU.

    python3 scripts/gpu/resources.py            compiles the kernels and compares with scripts/gpu/resources.csv
    python3 scripts/gpu/resources.py --write    writes that file

NVIDIA's compiler comes from PyPI into a temporary folder (`pip install nvidia-cuda-nvrtc`). It compiles the sources that
`models/src/queue/cuda/program.rs` names, in its order and with its options. A kernel that spills registers to memory is an error.
"""

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
ARCHITECTURES = ("sm_80", "sm_90")
ELEMENTS = ("F32", "BF16", "F16")
OPTIONS = ("--std=c++17", "--fmad=false", "--ptxas-options=-v")
KERNEL = re.compile(
    r"Function properties for (\w+)\n.*?(\d+) bytes spill stores, (\d+) bytes spill loads\n"
    r".*?Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?"
)


def program(element):
    """The sources for elements of a type as one program: the lists that `fn sources` of program.rs puts together."""
    with open(os.path.join(CUDA, "program.rs"), encoding="utf-8") as file:
        lists = dict(re.findall(r"const (OF_\w+): \[&str; \d+\] = \[(.*?)\];", file.read(), re.DOTALL))
    texts = []
    for name in ("OF_ELEMENTS", "OF_F32" if element == "F32" else "OF_HALVES"):
        for source in re.findall(r'include_str!\("([^"]+)"\)', lists.get(name, "")):
            with open(os.path.join(CUDA, source), encoding="utf-8") as file:
                texts.append(file.read())
    return "\n".join(texts).encode()


def compiler(folder):
    """NVIDIA's compiler, installed into a folder."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, COMPILER]
    subprocess.run(install, check=True)
    builtins = glob.glob(f"{folder}/nvidia/*/lib/libnvrtc-builtins.so.*")
    ctypes.CDLL(builtins[0], mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(glob.glob(f"{folder}/nvidia/*/lib/libnvrtc.so.*")[0])


def compiled(nvrtc, element, architecture):
    """The compiler's log."""
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
    return log.value.decode()


def measured():
    """The lines of the table."""
    lines = ["architecture,elements,kernel,registers,shared_bytes,spilled_bytes"]
    with tempfile.TemporaryDirectory() as folder:
        nvrtc = compiler(folder)
        for architecture in ARCHITECTURES:
            for element in ELEMENTS:
                kernels = KERNEL.findall(compiled(nvrtc, element, architecture))
                for name, stores, loads, registers, shared in sorted(kernels):
                    spilled = int(stores) + int(loads)
                    lines.append(f"{architecture},{element},{name},{registers},{shared or 0},{spilled}")
    return lines


def main():
    lines = measured()
    spilling = [line for line in lines[1:] if not line.endswith(",0")]
    if spilling:
        sys.exit("kernels that spill registers to memory:\n" + "\n".join(spilling))
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
