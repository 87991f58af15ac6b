"""The machine that experiments run on: its GPU, clocks, libraries and tools.

    python3 benches/gpu/machine.py      prints the versions of CUDA's libraries that the loader finds, as JSON
"""

import ctypes
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE_GPU = "fake GPU"
# NVIDIA's tools are often not in PATH.
FOLDERS_OF_TOOLS = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer")
# What a placeholder of a command needs of the machine, as a program in PATH.
PROGRAMS = {"ncu": "ncu", "sanitizer": "compute-sanitizer"}


def smi(query):
    """What nvidia-smi says of the first GPU; None without it."""
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return [each.strip() for each in done.stdout.strip().splitlines()[0].split(",")]


def gpu():
    """Name and driver of the first GPU, and how many there are; None where there is none."""
    found = smi("name,driver_version")
    if not found or len(found) != 2:
        return None
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False).stdout
    return {"device": found[0], "driver": found[1], "num_gpus": max(1, len(listed.splitlines()))}


def clock_mhz():
    """Of the first GPU's multiprocessors, now."""
    found = smi("clocks.sm")
    return int(found[0]) if found and found[0].isdigit() else None


def tools():
    """The paths of what is there: torch (the Python that has it), ncu, sanitizer."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *FOLDERS_OF_TOOLS])
    found = {name: shutil.which(program, path=path) for name, program in PROGRAMS.items()}
    found["torch"] = sys.executable if importlib.util.find_spec("torch") else None
    return {name: path for name, path in found.items() if path}


def library_path(fake_gpu, work):
    """LD_LIBRARY_PATH for pipezero: the fake libraries, or NVIDIA's."""
    if fake_gpu:
        folders = os.path.abspath(fake_gpu)
    else:
        command = [sys.executable, "-B", os.path.join(HERE, "libraries.py"), os.path.join(work, "libraries")]
        folders = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return os.pathsep.join(filter(None, [folders, os.environ.get("LD_LIBRARY_PATH")]))


def loaded(*names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def parts(number, *places):
    """A version that is one number, such as 22809, in parts: 2.28.9."""
    found = []
    for place in places:
        found.append(str(number // place))
        number %= place
    return ".".join(found)


def cublaslt_version():
    library = loaded("libcublasLt.so", "libcublasLt.so.13")
    if library is None:
        return None
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    return parts(library.cublasLtGetVersion(), 10000, 100, 1)


def nvrtc_version():
    library = loaded("libnvrtc.so", "libnvrtc.so.13")
    major, minor = ctypes.c_int(), ctypes.c_int()
    if library is None or library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) != 0:
        return None
    return f"{major.value}.{minor.value}"


def nccl_version():
    library = loaded("libnccl.so.2", "libnccl.so")
    version = ctypes.c_int()
    if library is None or library.ncclGetVersion(ctypes.byref(version)) != 0:
        return None
    return parts(version.value, 10000, 100, 1)


def torch_version():
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def versions(environment):
    """Of the libraries that pipezero would find. A process of its own loads them: they are large, and start threads."""
    command = [sys.executable, "-B", os.path.abspath(__file__)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    found = {}
    for name in ("cublaslt", "nvrtc", "nccl", "torch"):
        try:
            found[name] = globals()[f"{name}_version"]()
        except AttributeError:
            # A library that lacks the function.
            found[name] = None
    print(json.dumps(found))


if __name__ == "__main__":
    main()
