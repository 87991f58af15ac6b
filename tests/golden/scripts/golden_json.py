"""JSON files with numbers that float32 reads back unchanged."""

import json
from pathlib import Path

import numpy
import torch

FOLDER = Path(__file__).resolve().parents[1]


def exact_f32(tensor: torch.Tensor) -> torch.Tensor:
    """The float64 tensor of the nearest float32 values, so that float32 and float64 start from the same numbers."""
    return tensor.to(torch.float32).to(torch.float64)


def numbers(tensor: torch.Tensor) -> list:
    """The elements in row-major order, rounded to float32, as the shortest decimals that read back unchanged."""
    values = tensor.detach().to(torch.float32).flatten().numpy()
    return [float(numpy.format_float_scientific(value, unique=True)) for value in values]


def tensors(named: dict) -> dict:
    """Each tensor as its shape and its elements."""
    return {name: {"shape": list(tensor.shape), "values": numbers(tensor)} for name, tensor in named.items()}


def write(name: str, content: dict) -> None:
    """Writes one golden file, with one line per innermost list so that a difference can be read."""
    path = FOLDER / name
    path.write_text(_format(content, "") + "\n")
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


def _format(value, indent: str) -> str:
    inner = indent + " "
    if isinstance(value, dict):
        items = [f"{inner}{json.dumps(key)}: {_format(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return "[\n" + ",\n".join(inner + _format(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, separators=(",", ":"))
