"""GPT-2 in plain PyTorch modules, and its golden figures.

Shapes: B micro-batch size, T sequence, C channels, H heads, D = C / H, V vocabulary.
"""

import math

import torch
from torch import nn

from golden_json import exact_f32, numbers, tensors, write

NUM_LAYERS, HIDDEN, NUM_HEADS, SEQ, VOCAB = 2, 12, 3, 8, 29
NUM_STEPS, NUM_MICRO_BATCHES, MICRO_BATCH = 3, 2, 2
IGNORED = -100
ADAMW = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-4, "weight_decay": 0.1}
MAX_NORM = 0.5


class Attention(nn.Module):
    """Causal multi-head attention; queries, keys and values are stacked along the projection's outputs."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):  # (B, T, C) -> (B, T, C)
        batch, seq, hidden = x.shape
        heads = [part.view(batch, seq, NUM_HEADS, -1).transpose(1, 2) for part in self.qkv(x).split(hidden, dim=-1)]
        q, k, v = heads  # each (B, H, T, D)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # (B, H, T, T)
        future = torch.ones(seq, seq, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, seq, hidden))


class Mlp(nn.Module):
    """Two linear layers with the tanh form of GELU between them."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    """A pre-LN transformer block."""

    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(HIDDEN, eps=1e-5)
        self.attn = Attention()
        self.ln_2 = nn.LayerNorm(HIDDEN, eps=1e-5)
        self.mlp = Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """Token and position embeddings, blocks, a last norm and the head."""

    def __init__(self, tied: bool):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, HIDDEN)
        self.wpe = nn.Embedding(SEQ, HIDDEN)
        self.h = nn.ModuleList(Block() for _ in range(NUM_LAYERS))
        self.ln_f = nn.LayerNorm(HIDDEN, eps=1e-5)
        self.lm_head = nn.Linear(HIDDEN, VOCAB, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, inputs):  # (B, T) -> (B, T, V)
        x = self.wte(inputs) + self.wpe(torch.arange(inputs.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def draw_weights(model: Gpt2, generator: torch.Generator) -> None:
    """Weights far larger than a real start's, so that every non-linearity bends and no gradient is tiny."""
    for parameter in model.parameters():
        values = 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.data = exact_f32(values)
    for name, parameter in model.named_parameters():
        if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight")):
            parameter.data = exact_f32(1 + parameter.data)


def draw_batches(generator: torch.Generator) -> list:
    """For each step the inputs and targets of all micro-batches, (M, B, T); other targets are ignored in each."""
    batches = []
    for _ in range(NUM_STEPS):
        text = torch.randint(VOCAB, (NUM_MICRO_BATCHES, MICRO_BATCH, SEQ + 1), generator=generator)
        inputs, targets = text[..., :-1].clone(), text[..., 1:].clone()
        ignored = torch.rand(targets.shape, generator=generator) < 0.25
        targets[ignored] = IGNORED
        # Uneven: the mean of the micro-batches' means must not pass for the mean over the step.
        targets[0, 0, :] = IGNORED
        batches.append((inputs, targets))
    return batches


def loss_sum(logits, targets):
    """The summed negative log-likelihood of the targets that are not ignored, in nats."""
    valid = targets != IGNORED
    likelihoods = logits.log_softmax(dim=-1)[valid].gather(-1, targets[valid][:, None])
    return -likelihoods.sum()


def backward(model: Gpt2, inputs, targets):
    """Accumulates the gradient of the step's mean loss; returns the logits and loss sums of the micro-batches."""
    num_targets = (targets != IGNORED).sum()
    logits, sums = [], []
    for micro_inputs, micro_targets in zip(inputs, targets):
        logits.append(model(micro_inputs))
        sums.append(loss_sum(logits[-1], micro_targets))
        (sums[-1] / num_targets).backward()
    return torch.stack(logits), torch.stack(sums)


def adamw(model: Gpt2) -> torch.optim.Optimizer:
    """AdamW that does not decay one-dimensional parameters."""
    parameters = list(model.parameters())
    groups = [
        {"params": [parameter for parameter in parameters if parameter.dim() > 1]},
        {"params": [parameter for parameter in parameters if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, foreach=False, **ADAMW)


def make(tied: bool) -> None:
    """Writes the golden file of one kind of head."""
    generator = torch.Generator().manual_seed(20240603)
    model = Gpt2(tied).double()
    draw_weights(model, generator)
    batches = draw_batches(generator)
    golden = {
        "torch": torch.__version__.split("+")[0],
        "model": {
            "num_layers": NUM_LAYERS,
            "hidden_size": HIDDEN,
            "num_attention_heads": NUM_HEADS,
            "seq_length": SEQ,
            "vocab_size": VOCAB,
            "tie_embeddings": tied,
        },
        "optimizer": {**ADAMW, "betas": list(ADAMW["betas"]), "max_norm": MAX_NORM},
        "micro_batch_size": MICRO_BATCH,
        "weights": tensors(dict(model.named_parameters())),
        "steps": [],
    }
    optimizer = adamw(model)
    for inputs, targets in batches:
        optimizer.zero_grad()
        logits, sums = backward(model, inputs, targets)
        if not golden["steps"]:
            golden["logits"] = numbers(logits)
            golden["gradients"] = tensors({name: p.grad for name, p in model.named_parameters()})
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        assert norm > 2 * MAX_NORM, "clipping must bite at every step"
        optimizer.step()
        num_targets = (targets != IGNORED).sum(dim=(1, 2))
        golden["steps"].append({
            "inputs": inputs.flatten(1).tolist(),
            "targets": [[None if t == IGNORED else t for t in row] for row in targets.flatten(1).tolist()],
            "loss_sums": numbers(sums),
            "num_targets": num_targets.tolist(),
            "loss": numbers(sums.sum() / num_targets.sum())[0],
            "grad_norm": numbers(norm)[0],
        })
    golden["weights_after"] = tensors(dict(model.named_parameters()))
    write(f"gpt2_{'tied' if tied else 'untied'}.json", golden)
