"""Finds NVIDIA's libraries for pipezero, and prints the folders for LD_LIBRARY_PATH.

    python3 benches/gpu/libraries.py LINKS

pipezero asks the loader for `libcuda.so`, `libnvrtc.so`, `libcublasLt.so` and `libnccl.so.2`, and where there is no such
file, for names with a version, such as `libnvrtc.so.13`. NVIDIA's packages for Python have only the latter,
in folders that the loader does not know; and a toolkit of another version elsewhere would be found first,
under the plain names. So this makes links with the plain names in the folder LINKS, to the files that go with
the driver: it refuses kernels that a newer compiler has compiled. What was found is told on stderr.
"""

import ctypes
import glob
import os
import re
import site
import subprocess
import sys
import sysconfig

# The version of CUDA that pipezero is built for.
MAJOR = 13


def folders():
    """Where the libraries may lie, the likeliest first."""
    packages = {sysconfig.get_paths()["purelib"], *site.getsitepackages(), *sys.path}
    of_python = [found for each in sorted(packages) for found in glob.glob(f"{each}/nvidia/*/lib")]
    toolkits = [f"/usr/local/cuda-{MAJOR}*", "/usr/local/cuda"]
    of_toolkits = [found for each in toolkits for found in sorted(glob.glob(f"{each}/lib64"))]
    return of_python + of_toolkits + known_to_the_loader()


def known_to_the_loader():
    """The folders of its list."""
    try:
        text = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return []
    return sorted({os.path.dirname(path) for path in re.findall(r"=> (/\S+)", text)})


def candidates(name):
    """Files of a library: those of the right version first."""
    for ending in (f".so.{MAJOR}", f".so.{MAJOR}.*", ".so", ".so.12"):
        for folder in folders():
            yield from sorted(glob.glob(os.path.join(folder, f"{name}{ending}")))


def driver_version():
    """The newest CUDA that the driver serves, as (13, 0); None without a driver."""
    for name in ("libcuda.so.1", "libcuda.so"):
        try:
            driver = ctypes.CDLL(name)
        except OSError:
            continue
        version = ctypes.c_int()
        status = driver.cuDriverGetVersion(ctypes.byref(version))
        return (version.value // 1000, version.value % 1000 // 10) if status == 0 else None
    return None


def compiler_version(path):
    """Of a file of NVRTC, None where it cannot be loaded."""
    try:
        major, minor = ctypes.c_int(), ctypes.c_int()
        status = ctypes.CDLL(path).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return (major.value, minor.value) if status == 0 else None
    except OSError as error:
        tell(f"cannot be loaded: {error}")
        return None


def compiler(newest):
    """The first NVRTC that is not newer than what the driver serves, else the first of all."""
    loaded = []
    for path in dict.fromkeys(candidates("libnvrtc")):
        version = compiler_version(path)
        tell(f"compiler {path}: {version}")
        if version is not None:
            loaded.append(path)
            if newest is None or version <= newest:
                return path
    if loaded:
        tell(f"every compiler is newer than the driver, which serves {newest}: it may refuse the kernels")
    return loaded[0] if loaded else None


def tell(text):
    print(f"libraries: {text}", file=sys.stderr)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    links = os.path.abspath(sys.argv[1])
    os.makedirs(links, exist_ok=True)
    newest = driver_version()
    tell(f"the driver serves CUDA {newest}" if newest else "no driver: there is no libcuda.so.1")
    found = {"libnvrtc.so": compiler(newest), "libcublasLt.so": next(candidates("libcublasLt"), None)}
    path = [links]
    # It is found under its own name, but not in its own folder. Runs on one GPU do not need it.
    nccl = next((file for folder in folders() for file in glob.glob(os.path.join(folder, "libnccl.so.2"))), None)
    tell(f"NCCL is {nccl}" if nccl else "no libnccl.so.2: install nvidia-nccl-cu13 for Python")
    for name, file in found.items():
        if file is None:
            tell(f"no {name}: install CUDA {MAJOR}, or its nvidia-cuda-nvrtc and nvidia-cublas for Python")
            continue
        link = os.path.join(links, name)
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(file, link)
        tell(f"{name} is {file}")
        # NVRTC loads a second library from its own folder, under a name with a version.
        path.append(os.path.dirname(file))
    path += [os.path.dirname(nccl)] if nccl else []
    print(":".join(dict.fromkeys(path)))


if __name__ == "__main__":
    main()
