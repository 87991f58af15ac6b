"""Compares the functions of a whole warp (warp.cuh) on a GPU, bit by bit, with what the PTX ISA says of them.

    LD_LIBRARY_PATH=$(python3 benches/gpu/libraries.py /tmp/links) python3 benches/gpu/warp_functions.py
    python3 benches/gpu/warp_functions.py --fake-gpu /tmp/warp        without a GPU; it needs g++

The kernels of benches/gpu/warp/warp_functions.cu are compiled for the device that is there, with the project's
own warp.cuh and the options that pipezero uses, for bf16 and for f16. Their inputs are drawn from a fixed seed.
What each lane must get is computed in benches/gpu/warp_expected.py, and is the same for a GPU and for the
fake GPU: where both pass, both give these bits.

Prints a line for each function and type: how many results were compared, and "same bits" or the first one that
differs. Powers of two may differ by two units in the last place, as the instruction may. NaN is left out, since
NVIDIA does not say which one results. That a copy is not seen too early cannot be shown by this.

Exit status: 0 if all results are as they must be, 1 if one is not, or without a device, libraries or g++.
"""

import argparse
import ctypes
import os
import random
import subprocess
import sys

sys.dont_write_bytecode = True  # Of the module that is imported next.
from warp_expected import BLOCKS, LANES, NUM_THREADS, THREADS, copies, loads, pairs, products

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KERNELS = os.path.join(ROOT, "models", "src", "queue", "cuda", "kernels")
SOURCES = [os.path.join(KERNELS, name) for name in ("common.cuh", "element.cuh", "warp.cuh")]
SOURCES += [os.path.join(HERE, "warp", "warp_functions.cu")]
ELEMENTS = ("BF16", "F16")
LIBRARIES = (("libcuda.so", "libcuda.so.1"), ("libnvrtc.so", "libnvrtc.so.13"))
# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
CAPABILITY = (75, 76)
UNWRITTEN = 0xCCCCCCCC

# By kernel: what it is given and must write, and how many words each function writes. A read of memory that is
# not there would end all that comes after it, so the copies are last.
OF_PAIRS = ("packed", "put_pair", "load_pair", "first_of_pair", "second_of_pair", "power_of_two")
TESTS = {
    "test_add_product": (products, {"add_product": 4}),
    "test_load_parts": (loads, {"load_parts": 4, "load_transposed_parts": 4}),
    "test_pairs": (pairs, dict.fromkeys(OF_PAIRS, 1)),
    "test_copies": (copies, {"start_copy (16 bytes)": 4, "start_copy (4 bytes)": 1}),
}
UNITS_APART = {"power_of_two": 2}


class Device:
    """The first GPU, with the kernels for each type of elements."""

    def __init__(self, driver, nvrtc, elements=ELEMENTS):
        self.driver, self.running = driver, "no kernel yet"
        device, context, name = ctypes.c_int(), ctypes.c_void_p(), ctypes.create_string_buffer(100)
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDeviceGetName", name, len(name), device)
        self.architecture = "compute_"
        for attribute in CAPABILITY:
            number = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, device)
            self.architecture += str(number.value)
        self.name = name.value.decode()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.modules = {element: ctypes.c_void_p() for element in elements}
        for element, module in self.modules.items():
            self.call("cuModuleLoadData", ctypes.byref(module), compiled(nvrtc, element, self.architecture))

    def call(self, name, *arguments):
        status = self.driver[name](*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorName(status, ctypes.byref(text))
            reason = (text.value or b"an unknown error").decode()
            sys.exit(f"error: {name} returned {reason} ({status}); running: {self.running}")

    def buffer(self, words):
        """On the device."""
        address, num_bytes = ctypes.c_uint64(), ctypes.c_size_t(4 * len(words))
        self.call("cuMemAlloc_v2", ctypes.byref(address), num_bytes)
        self.call("cuMemcpyHtoD_v2", address, (ctypes.c_uint32 * len(words))(*words), num_bytes)
        return address

    def run(self, kernel, element, num_words, inputs):
        """What each thread writes."""
        self.running = f"{kernel} for {element}"
        function, words = ctypes.c_void_p(), (ctypes.c_uint32 * (NUM_THREADS * num_words))()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.modules[element], kernel.encode())
        buffers = [self.buffer([UNWRITTEN] * len(words))]
        buffers += [self.buffer([word for own in each for word in own]) for each in inputs]
        arguments = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        self.call("cuLaunchKernel", function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, arguments, None)
        self.call("cuCtxSynchronize")
        self.call("cuMemcpyDtoH_v2", words, buffers[0], ctypes.c_size_t(ctypes.sizeof(words)))
        for address in buffers:
            self.call("cuMemFree_v2", address)
        return [words[first : first + num_words] for first in range(0, len(words), num_words)]


def compiled(nvrtc, element, architecture):
    """The kernels as PTX."""
    texts = []
    for path in SOURCES:
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), "\n".join(texts).encode(), b"warp.cu", 0, None, None)
    own = (f"--gpu-architecture={architecture}", f"--define-macro=ELEMENT_{element}")
    options = [option.encode() for option in (*own, "--std=c++17", "--fmad=false")]
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    what = "PTX" if status == 0 else "ProgramLog"
    nvrtc[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc[f"nvrtcGet{what}"](program, text)
    if status != 0:
        sys.exit(f"error: the test kernels do not compile for {architecture}, {element}: {text.value.decode()}")
    return text


def library(names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            reason = error
    sys.exit(
        f"error: no {names[0]} ({reason}): put its folder into LD_LIBRARY_PATH, as benches/gpu/libraries.py "
        "prints it; without a GPU, use --fake-gpu DIR"
    )


def build_fake_gpu(folder):
    """A fake GPU with the test kernels. It needs a kernel for f32 too: positions.cu has small ones, with documents.cuh."""
    kernels = os.path.join(folder, "kernels")
    os.makedirs(kernels, exist_ok=True)
    for path in (*SOURCES, *(os.path.join(KERNELS, name) for name in ("positions.cu", "documents.cuh"))):
        link = os.path.join(kernels, os.path.basename(path))
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(path, link)
    build = os.path.join(ROOT, "tests", "fake_gpu", "build.sh")
    if subprocess.run([build, folder, kernels], check=False).returncode != 0:
        sys.exit(f"error: {build} could not build the fake GPU in {folder}")


def first_difference(expected, found, words, apart):
    for thread in range(NUM_THREADS):
        for register, word in enumerate(words):
            wanted, got = expected[thread][word], found[thread][word]
            if abs(wanted - got) > apart:
                where = f"warp {thread // LANES}, lane {thread % LANES}, register {register}"
                return f"{where}: expected 0x{wanted:08x}, found 0x{got:08x}"
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = "build fake CUDA libraries with the test kernels in DIR, and run on them"
    parser.add_argument("--fake-gpu", metavar="DIR", help=what)
    folder, names = parser.parse_args().fake_gpu, LIBRARIES
    if folder:
        folder = os.path.abspath(folder)
        build_fake_gpu(folder)
        names = [[os.path.join(folder, each[0])] for each in LIBRARIES]
    device = Device(*map(library, names))
    print(f"on {device.name}, compiled for {device.architecture}", flush=True)
    num_results, lines = 0, []
    for kernel, (cases, functions) in TESTS.items():
        for element in ELEMENTS:
            inputs, expected = cases(random.Random(f"{kernel} {element}"), element)
            found = device.run(kernel, element, sum(functions.values()), inputs)
            first = 0
            for name, num_words in functions.items():
                apart = UNITS_APART.get(name, 0)
                difference = first_difference(expected, found, range(first, first + num_words), apart)
                same = f"at most {apart} units in the last place apart" if apart else "same bits"
                first += num_words
                num_results += NUM_THREADS * num_words
                line = f"{name:21}  {element.lower():4}  {NUM_THREADS * num_words:5} results  "
                print(line + (difference or same), flush=True)
                lines.append(difference and f"{name}, {element.lower()}, {difference}")
    different = [line for line in lines if line]
    if different:
        print(f"figure: {len(different)} of {len(lines)} lines differ, first: {different[0]}")
        sys.exit(1)
    print(f"figure: {num_results} results of {len(lines) // 2} functions, as the PTX ISA has them")


if __name__ == "__main__":
    main()
