"""Measures one kernel, or variants of its source in turn, without building anything: each is compiled, compared with PyTorch in f64, and timed.

    python3 benches/gpu/lab.py [--shape NAME] [--variant FILE.cu]... [--architecture compute_90a] CASE

CASE names a file of benches/gpu/lab_cases: the kernel, how it is launched, what it is given (random numbers), and what must come out. A variant is a
file with the name of one of models/src/queue/cuda/kernels, and is compiled in its place, with the other files as program.rs puts them together, and
with its options. The present kernel is always measured too. Before each call all buffers are filled again, so that a kernel
which works in place has the same numbers in each; only the kernel is timed, and the median of the calls counts.

The exit status is 1 if a kernel does not compile, or is farther from f64 than the case allows.
"""

import argparse
import ctypes
import importlib
import json
import os
import statistics
import sys

import torch

from libraries import compiler, driver_version
from resources import CUDA, OPTIONS, listed_sources
from warp_functions import Device, library

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
BYTES_PER_S = 3.0e12
UNWRITTEN = 0xFF


def source(element, variant):
    """The whole program, in which a variant stands in the place of the file of its name."""
    texts, names = [], []
    for path in listed_sources(element):
        names.append(os.path.basename(path))
        if variant and names[-1] == os.path.basename(variant):
            path = variant
        with open(os.path.join(CUDA, path) if path != variant else path, encoding="utf-8") as file:
            texts.append(file.read())
    if variant and os.path.basename(variant) not in names:
        sys.exit(f"{variant}: no kernel's file has its name; there are {', '.join(names)}")
    return "\n".join(texts).encode()


def compiled(nvrtc, text, element, architecture):
    """PTX; what the compiler says where it refuses the text."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"lab.cu", 0, None, None)
    own = (f"--gpu-architecture={architecture}", f"--define-macro=ELEMENT_{element}")
    options = [option.encode() for option in (*own, *(each for each in OPTIONS if "ptxas" not in each))]
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    what = "PTX" if status == 0 else "ProgramLog"
    nvrtc[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    nvrtc[f"nvrtcGet{what}"](program, found)
    return (found, None) if status == 0 else (None, found.value.decode())


class Lab(Device):
    """The first GPU, which runs one kernel again and again."""

    def __init__(self, driver):
        super().__init__(driver, None, elements=())

    def filled(self, tensor):
        """Addresses of a tensor's numbers, and of a buffer that they are copied to before each call."""
        num_bytes = ctypes.c_size_t(tensor.numel() * tensor.element_size())
        addresses = [ctypes.c_uint64(), ctypes.c_uint64()]
        for address in addresses:
            self.call("cuMemAlloc_v2", ctypes.byref(address), num_bytes)
        self.call("cuMemcpyHtoD_v2", addresses[0], ctypes.c_void_p(tensor.data_ptr()), num_bytes)
        return (*addresses, num_bytes)

    def measure(self, ptx, case, num_calls):
        """The outputs of the first call, and the microseconds of each."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.running = case["kernel"]
        self.call("cuModuleLoadData", ctypes.byref(module), ptx)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, case["kernel"].encode())
        buffers = {place: self.filled(each) for place, each in enumerate(case["arguments"]) if torch.is_tensor(each)}
        values = [buffers[place][1] if place in buffers else each for place, each in enumerate(case["arguments"])]
        arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in events:
            self.call("cuEventCreate", ctypes.byref(event), 0)
        outputs, times = {}, []
        for number in range(num_calls + 1):
            for pristine, buffer, num_bytes in buffers.values():
                self.call("cuMemcpyDtoDAsync_v2", buffer, pristine, num_bytes, None)
            self.call("cuEventRecord", events[0], None)
            self.call("cuLaunchKernel", function, *case["grid"], *case["threads"], case.get("shared", 0), None, arguments, None)
            self.call("cuEventRecord", events[1], None)
            self.call("cuEventSynchronize", events[1])
            ms = ctypes.c_float()
            self.call("cuEventElapsedTime", ctypes.byref(ms), *events)
            times.append(ms.value * 1e3)
            if number == 0:
                outputs = {place: self.read(buffers[place], case["arguments"][place]) for place in case["expected"]}
        for pristine, buffer, _ in buffers.values():
            self.call("cuMemFree_v2", pristine)
            self.call("cuMemFree_v2", buffer)
        self.call("cuModuleUnload", module)
        return outputs, times[1:]

    def read(self, buffer, like):
        found = torch.empty_like(like)
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.data_ptr()), buffer[1], buffer[2])
        return found


def error(found, expected):
    """Of the norm of the difference to that of what is expected; infinite for NaN."""
    share = torch.linalg.vector_norm(found.double() - expected) / torch.linalg.vector_norm(expected)
    return share.item() if torch.isfinite(share) else float("inf")


def measured(lab, nvrtc, case, arguments, variant):
    """The figures of a variant."""
    architecture = arguments.architecture or lab.architecture
    ptx, refusal = compiled(nvrtc, source(arguments.element, variant), arguments.element, architecture)
    if ptx is None:
        print(refusal)
        return {"compiles": False}
    outputs, times = lab.measure(ptx, case, arguments.calls)
    errors = {place: error(outputs[place], expected) for place, expected in case["expected"].items()}
    us = statistics.median(times)
    floor_us = case["bytes"] / BYTES_PER_S * 1e6
    is_right = all(each <= case["limit"] for each in errors.values())
    figures = {"us": round(us, 2), "floor_us": round(floor_us, 2), "shortest_us": round(min(times), 2)}
    return figures | {"error": max(errors.values()), "is_right": is_right}


def libraries(fake_gpu):
    """The driver and the compiler that goes with it."""
    if fake_gpu:
        return [library([os.path.join(fake_gpu, name)]) for name in ("libcuda.so", "libnvrtc.so")]
    path = compiler(driver_version())
    return library(("libcuda.so.1", "libcuda.so")), library([path] if path else ["libnvrtc.so"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="124m", help="a shape of the case [124m]")
    parser.add_argument("--element", choices=DTYPES, default="BF16")
    parser.add_argument("--variant", action="append", default=[], help="a .cu file in the place of the one of its name")
    parser.add_argument("--architecture", help="for the compiler, such as compute_90a for wgmma [the device's]")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--fake-gpu", metavar="DIR", help="run on the fake CUDA libraries in DIR")
    parser.add_argument("case", help="a file of benches/gpu/lab_cases, without its ending")
    arguments = parser.parse_args()
    module = importlib.import_module(f"lab_cases.{arguments.case}")
    if arguments.shape not in module.SHAPES:
        parser.error(f"{arguments.case} has no shape {arguments.shape}, but {', '.join(module.SHAPES)}")
    driver, nvrtc = libraries(arguments.fake_gpu)
    lab = Lab(driver)
    torch.manual_seed(0)
    case = module.case(DTYPES[arguments.element], *module.SHAPES[arguments.shape])
    figures = {}
    # The present one before and after the variants, since a clock falls as it gets warm.
    for name, variant in (("present", None), *((each, each) for each in arguments.variant), ("present again", None)):
        figures[name] = measured(lab, nvrtc, case, arguments, variant)
        print(f"{name}: {figures[name]}", flush=True)
    print(f"figures: {json.dumps({f'{arguments.case}, {arguments.shape}': figures})}")
    sys.exit(0 if all(each.get("is_right") for each in figures.values()) else 1)


if __name__ == "__main__":
    main()
