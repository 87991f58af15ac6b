"""A student that learns from a teacher's logits, and the golden figures of its steps.

The loss of a target is (1 - alpha) * cross-entropy + alpha * T^2 * KL(softmax(teacher / T) || softmax(student / T)), as in Hinton, Vinyals and
Dean, arXiv:1503.02531, section 2; that of a step the mean over its targets that count.
"""

import torch
from torch.nn import functional

import gpt2
from golden_json import numbers, tensors, write

TEACHER_LAYERS, TEACHER_HIDDEN = 3, 15
# Temperature and alpha of each case.
CASES = [(2.0, 0.5), (4.0, 1.0), (0.5, 0.25)]


def built(layers: int, hidden: int, generator: torch.Generator) -> gpt2.Gpt2:
    """A model of these sizes, which gpt2.py keeps in its globals."""
    kept = gpt2.NUM_LAYERS, gpt2.HIDDEN
    gpt2.NUM_LAYERS, gpt2.HIDDEN = layers, hidden
    model = gpt2.Gpt2(tied=False).double()
    gpt2.NUM_LAYERS, gpt2.HIDDEN = kept
    gpt2.draw_weights(model, generator)
    return model


def loss_sums(student, teacher, targets, temperature: float):
    """The summed cross-entropy and the summed divergence of the targets that are not ignored."""
    valid = targets != gpt2.IGNORED
    divergence = functional.kl_div(
        (student / temperature).log_softmax(dim=-1)[valid],
        (teacher / temperature).softmax(dim=-1)[valid],
        reduction="sum",
    )
    return gpt2.loss_sum(student, targets), divergence


def case(student: gpt2.Gpt2, teacher: gpt2.Gpt2, batches: list, temperature: float, alpha: float) -> dict:
    """Three clipped AdamW steps."""
    optimizer = gpt2.adamw(student)
    steps = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        num_targets = (targets != gpt2.IGNORED).sum()
        total = 0
        for micro_inputs, micro_targets in zip(inputs, targets):
            with torch.no_grad():
                logits = teacher(micro_inputs)
            hard, soft = loss_sums(student(micro_inputs), logits, micro_targets, temperature)
            loss = (1 - alpha) * hard + alpha * temperature**2 * soft
            total += loss.detach()
            (loss / num_targets).backward()
        norm = torch.nn.utils.clip_grad_norm_(student.parameters(), gpt2.MAX_NORM)
        optimizer.step()
        steps.append({"loss": numbers(total / num_targets)[0], "grad_norm": numbers(norm)[0]})
    return {
        "temperature": temperature,
        "alpha": alpha,
        "steps": steps,
        "weights_after": tensors(dict(student.named_parameters())),
    }


def make() -> None:
    """Writes the golden file."""
    generator = torch.Generator().manual_seed(20150309)
    teacher = built(TEACHER_LAYERS, TEACHER_HIDDEN, generator)
    student = built(gpt2.NUM_LAYERS, gpt2.HIDDEN, generator)
    batches = gpt2.draw_batches(generator)
    begin = {name: parameter.detach().clone() for name, parameter in student.named_parameters()}
    golden = {
        "torch": torch.__version__.split("+")[0],
        "seq_length": gpt2.SEQ,
        "vocab_size": gpt2.VOCAB,
        "num_attention_heads": gpt2.NUM_HEADS,
        "student": {"num_layers": gpt2.NUM_LAYERS, "hidden_size": gpt2.HIDDEN, "weights": tensors(begin)},
        "teacher": {
            "num_layers": TEACHER_LAYERS,
            "hidden_size": TEACHER_HIDDEN,
            "weights": tensors(dict(teacher.named_parameters())),
        },
        "optimizer": {**gpt2.ADAMW, "betas": list(gpt2.ADAMW["betas"]), "max_norm": gpt2.MAX_NORM},
        "micro_batch_size": gpt2.MICRO_BATCH,
        "batches": [
            {
                "inputs": inputs.flatten(1).tolist(),
                "targets": [[None if t == gpt2.IGNORED else t for t in row] for row in targets.flatten(1).tolist()],
            }
            for inputs, targets in batches
        ],
        "cases": [],
    }
    for temperature, alpha in CASES:
        for name, parameter in student.named_parameters():
            parameter.data = begin[name].clone()
        golden["cases"].append(case(student, teacher, batches, temperature, alpha))
    write("distillation.json", golden)


if __name__ == "__main__":
    make()
