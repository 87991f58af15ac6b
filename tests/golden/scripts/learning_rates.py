"""Golden figures of DeepSpeed's learning rate schedules: the rates of the first and the last 30 steps, and 40 rates for every choice
of the keys that may be left out."""

import itertools
import logging

import deepspeed
import torch
from deepspeed.runtime import lr_schedules

from golden_json import write

NUM_STEPS, NUM_SHOWN = 200, 30
OPTIMIZER_LR = 6e-4
# Steps of a schedule that leaves keys out.
NUM_STEPS_OF_SUBSETS = 40


def warmup(num_steps: int, warmup_type: str, minimum: float = 0.0, maximum: float = 1e-3) -> dict:
    """A warm-up between two rates."""
    return {
        "warmup_min_lr": minimum,
        "warmup_max_lr": maximum,
        "warmup_num_steps": num_steps,
        "warmup_type": warmup_type,
    }


def cosine(total: int, num_steps: int, warmup_type: str, minimum: float = 0.0, floor: float = 1e-4) -> dict:
    """A warm-up and a cosine between ratios."""
    return {
        "total_num_steps": total,
        "warmup_min_ratio": minimum,
        "warmup_num_steps": num_steps,
        "cos_min_ratio": floor,
        "warmup_type": warmup_type,
    }


CASES = {
    "WarmupLR": [
        warmup(10, "log"),
        warmup(10, "linear"),
        warmup(17, "log", minimum=1e-5),
        warmup(17, "linear", minimum=1e-5, maximum=3e-3),
        warmup(1, "log", minimum=1e-4),
        warmup(1, "linear", minimum=1e-4),
        warmup(2, "log"),
        warmup(1000, "log", minimum=1e-6),
        warmup(1000, "linear"),
        warmup(20, "linear", minimum=1e-3, maximum=1e-4),
    ],
    "WarmupDecayLR": [
        {"total_num_steps": 200, **warmup(10, "log")},
        {"total_num_steps": 200, **warmup(10, "linear", minimum=1e-5)},
        {"total_num_steps": 185, **warmup(1, "log", minimum=1e-5)},
        {"total_num_steps": 1000, **warmup(25, "linear")},
        {"total_num_steps": 11, **warmup(25, "linear", minimum=1e-5)},
        {"total_num_steps": 25, **warmup(25, "log")},
    ],
    "WarmupCosineLR": [
        cosine(200, 10, "log"),
        cosine(200, 10, "linear", minimum=0.1),
        cosine(185, 1, "linear", minimum=0.01, floor=0.1),
        cosine(1000, 25, "log", floor=0.05),
        cosine(11, 25, "linear", minimum=0.1, floor=0.2),
        cosine(25, 25, "log", floor=0.0),
    ],
}


# Keys that may be left out, with a value that is not the default; and those that may not.
OPTIONAL_KEYS = {
    "WarmupLR": warmup(10, "linear", minimum=2e-4, maximum=4e-3),
    "WarmupDecayLR": warmup(10, "linear", minimum=2e-4, maximum=4e-3),
    "WarmupCosineLR": {
        "warmup_min_ratio": 0.25,
        "warmup_num_steps": 10,
        "cos_min_ratio": 0.1,
        "warmup_type": "linear",
    },
}
REQUIRED_KEYS = {"WarmupLR": {}, "WarmupDecayLR": {"total_num_steps": 30}, "WarmupCosineLR": {"total_num_steps": 30}}


def subsets(values: dict) -> list:
    """All choices of some of the keys."""
    names = list(values)
    return [
        {name: values[name] for name in chosen}
        for count in range(len(names) + 1)
        for chosen in itertools.combinations(names, count)
    ]


def rates(name: str, parameters: dict, num_steps: int = NUM_STEPS) -> list:
    """The rate that the optimizer uses at steps 1, 2, ..., in the order of DeepSpeed's engine: optimizer, scheduler."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=OPTIMIZER_LR)
    scheduler = getattr(lr_schedules, name)(optimizer, **parameters)
    used = []
    for _ in range(num_steps):
        used.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return used


def case(name: str, parameters: dict) -> dict:
    """One schedule and its rates."""
    used = rates(name, parameters)
    return {"type": name, "params": parameters, "first": used[:NUM_SHOWN], "last": used[-NUM_SHOWN:]}


def case_of_subset(name: str, optional: dict) -> dict:
    """A schedule that leaves keys out, and all its rates."""
    parameters = REQUIRED_KEYS[name] | optional
    return {"type": name, "params": parameters, "rates": rates(name, parameters, NUM_STEPS_OF_SUBSETS)}


def make() -> None:
    """Writes the golden file."""
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    write("learning_rates.json", {
        "deepspeed": deepspeed.__version__,
        "optimizer_lr": OPTIMIZER_LR,
        "num_steps": NUM_STEPS,
        "cases": [case(name, parameters) for name, cases in CASES.items() for parameters in cases],
    })
    write("learning_rate_defaults.json", {
        "deepspeed": deepspeed.__version__,
        "optimizer_lr": OPTIMIZER_LR,
        "cases": [case_of_subset(name, keys) for name, values in OPTIONAL_KEYS.items() for keys in subsets(values)],
    })
