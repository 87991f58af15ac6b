"""The models of pipezero's run files in PyTorch: "gpt2" and "llama", from tokens to the mean loss of their targets.

GPT-2 has learned positions, norms before each branch, GELU by tanh, biases, and a head that uses the embedding's weight. Llama has RMS norms,
rotary positions, SwiGLU, grouped queries, and a head of its own unless the file ties it.
"""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Attention and MLP of GPT-2, each behind a norm, each added to its input."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, seq, width = x.shape
        of_heads = (batch, seq, self.heads, width // self.heads)
        q, k, v = (each.view(of_heads).transpose(1, 2) for each in self.qkv(self.ln_1(x)).split(width, dim=2))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, seq, width))
        return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2."""

    def __init__(self, shape):
        super().__init__()
        width, vocabulary = shape["hidden_size"], shape.get("vocab_size", 256)
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(shape["seq_length"], width)
        self.blocks = nn.ModuleList(Block(width, shape["num_attention_heads"]) for _ in range(shape["num_layers"]))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        draw(self)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return loss_of(self.head(self.ln_f(x)), targets)


class LlamaBlock(nn.Module):
    """Attention with rotary positions and grouped queries, and SwiGLU."""

    def __init__(self, width, heads, groups, inner, epsilon):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.ln_1, self.ln_2 = nn.RMSNorm(width, epsilon), nn.RMSNorm(width, epsilon)
        self.qkv = nn.Linear(width, (heads + 2 * groups) * self.size, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.gate_up, self.down = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin):
        batch, seq, width = x.shape
        heads = self.qkv(self.ln_1(x)).view(batch, seq, self.heads + 2 * self.groups, self.size).transpose(1, 2)
        q, k, v = heads.split([self.heads, self.groups, self.groups], dim=1)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, seq, width))
        gate, up = self.gate_up(self.ln_2(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)


class Llama(nn.Module):
    """Llama."""

    def __init__(self, shape):
        super().__init__()
        width, heads = shape["hidden_size"], shape["num_attention_heads"]
        vocabulary, self.size = shape.get("vocab_size", 256), width // heads
        self.theta, epsilon = shape.get("rotary_base", 10000.0), shape.get("norm_epsilon", 1e-5)
        groups, inner = shape.get("num_query_groups", heads), shape["ffn_hidden_size"]
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(
            LlamaBlock(width, heads, groups, inner, epsilon) for _ in range(shape["num_layers"])
        )
        self.ln_f = nn.RMSNorm(width, epsilon)
        self.head = nn.Linear(width, vocabulary, bias=False)
        draw(self)
        if shape.get("tie_embeddings", False):
            self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        halves = torch.arange(0, self.size, 2, device=tokens.device) / self.size
        angles = places[:, None] / self.theta ** halves[None]
        cos, sin = (torch.cat([each, each], dim=-1) for each in (angles.cos(), angles.sin()))
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        return loss_of(self.head(self.ln_f(x)), targets)


def rotated(x, cos, sin):
    """Each half of a head is turned with the other one."""
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat([-second, first], dim=-1) * sin).to(x.dtype)


def loss_of(logits, targets):
    return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def draw(model):
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


FAMILIES = {"gpt2": Gpt, "llama": Llama}
# Names in pipezero's weights.safetensors, part by part, and here.
NAMES = {
    "wte": "tokens",
    "wpe": "positions",
    "lm_head": "head",
    "h": "blocks",
    "attn": None,
    "mlp": None,
}


def name_here(name):
    parts = [NAMES.get(part, part) for part in name.split(".")]
    return ".".join(part for part in parts if part is not None)
