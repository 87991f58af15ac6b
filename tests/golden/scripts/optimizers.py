"""Golden figures of PyTorch's AdamW and SGD: ten steps on twelve numbers."""

import torch

from golden_json import exact_f32, numbers, write

NUM_ELEMENTS, NUM_STEPS = 12, 10

ADAMW = [
    {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
    {"lr": 6e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1},
    {"lr": 0.1, "betas": (0.9, 0.95), "eps": 1e-5, "weight_decay": 0.5},
    {"lr": 1e-2, "betas": (0.0, 0.99), "eps": 1e-8, "weight_decay": 0.0},
    {"lr": 1e-2, "betas": (0.5, 0.0), "eps": 1e-3, "weight_decay": 0.2},
]
SGD = [
    {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0},
    {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0},
    {"lr": 0.05, "momentum": 0.0, "weight_decay": 0.1},
    {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.01},
]


def draw(generator: torch.Generator):
    """Parameters of usual sizes, and gradients from large to far below `eps`."""
    parameters = exact_f32(torch.randn(NUM_ELEMENTS, generator=generator, dtype=torch.float64))
    scales = torch.logspace(1, -10, NUM_ELEMENTS, dtype=torch.float64)
    gradients = exact_f32(scales * torch.randn(NUM_STEPS, NUM_ELEMENTS, generator=generator, dtype=torch.float64))
    return parameters, gradients


def sequence(optimizer_class, hyper_parameters: dict, initial, gradients) -> dict:
    """The parameters after every step."""
    parameter = torch.nn.Parameter(initial.clone())
    optimizer = optimizer_class([parameter], foreach=False, **hyper_parameters)
    parameters = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        parameters.append(numbers(parameter))
    return {"hyper_parameters": hyper_parameters, "parameters": parameters}


def make() -> None:
    """Writes the golden file."""
    initial, gradients = draw(torch.Generator().manual_seed(17))
    write("optimizers.json", {
        "torch": torch.__version__.split("+")[0],
        "initial": numbers(initial),
        "gradients": [numbers(gradient) for gradient in gradients],
        "adamw": [sequence(torch.optim.AdamW, case, initial, gradients) for case in ADAMW],
        "sgd": [sequence(torch.optim.SGD, case, initial, gradients) for case in SGD],
    })
