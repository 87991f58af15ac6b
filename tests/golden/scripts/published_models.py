"""Small models of Hugging Face's transformers with random weights, and what transformers computes with them.

Each becomes a folder of tests/golden/published: config.json and weights as `save_pretrained` writes them; `gradient` and `after`, folders
of the same form with the gradient of the first step's loss and the weights after five AdamW steps; expected.json with tokens, logits
and losses.

Everything is computed in float64 but for sines and cosines, which transformers computes in float32 whatever the model's type. Two
of its functions compute in float32 too, and are replaced here: RMS norms, and the softmax of the plain attention, for which PyTorch's
own attention stands in.
"""

import json
import shutil
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

OUT = Path(__file__).parent.parent / "published"
SEQUENCES, TOKENS, STEPS = 4, 12, 5

LLAMA = dict(
    vocab_size=37, hidden_size=24, intermediate_size=28, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
    head_dim=6, max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=None, eos_token_id=None,
)
ROPE = dict(rope_theta=100.0)

MODELS = {
    "gpt2-tied": transformers.GPT2Config(
        vocab_size=37, n_positions=16, n_embd=12, n_layer=2, n_head=3, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=None, eos_token_id=None,
    ),
    "gpt2-untied": transformers.GPT2Config(
        vocab_size=37, n_positions=12, n_embd=12, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=None,
    ),
    "llama-one-kv-head": transformers.LlamaConfig(**LLAMA, rope_parameters=dict(rope_type="default", **ROPE)),
    "llama-llama3-biases": transformers.LlamaConfig(
        **LLAMA | dict(num_attention_heads=4, num_key_value_heads=2, head_dim=8), attention_bias=True, mlp_bias=True,
        rope_parameters=dict(
            rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16, **ROPE
        ),
    ),
    "llama-yarn-tied": transformers.LlamaConfig(
        **LLAMA, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, **ROPE),
    ),
    "llama-linear": transformers.LlamaConfig(**LLAMA, rope_parameters=dict(rope_type="linear", factor=3.0, **ROPE)),
    "llama-dynamic": transformers.LlamaConfig(
        **LLAMA | dict(max_position_embeddings=8), rope_parameters=dict(rope_type="dynamic", factor=2.0, **ROPE)
    ),
    "mistral": transformers.MistralConfig(**LLAMA, sliding_window=None, rope_parameters=dict(rope_type="default", **ROPE)),
    "qwen2": transformers.Qwen2Config(
        **{key: value for key, value in LLAMA.items() if key != "head_dim"},
        rope_parameters=dict(rope_type="default", **ROPE), tie_word_embeddings=True,
    ),
    "qwen3": transformers.Qwen3Config(**LLAMA | dict(head_dim=10), rope_parameters=dict(rope_type="default", **ROPE)),
}


def rms_norm(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def exact(model):
    """The same model in float64, with norms that do not leave it."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            type(module).forward = rms_norm
    return model.double()


def float32_numbers(generator, shape, scale):
    return torch.randn(shape, generator=generator, dtype=torch.float32) * scale


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def write(name, config, seed):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    generator = torch.Generator().manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            base = 1.0 if (parameter == 1.0).all() else 0.0
            parameter.copy_(base + float32_numbers(generator, parameter.shape, 0.2))
    # Two of the folders are in several files.
    max_shard_size = "8KB" if name in ("llama-one-kv-head", "gpt2-untied") else "5GB"
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    (folder / "generation_config.json").unlink(missing_ok=True)

    inputs = torch.randint(config.vocab_size, (STEPS, SEQUENCES, TOKENS), generator=generator)
    targets = torch.randint(config.vocab_size, (STEPS, SEQUENCES, TOKENS), generator=generator)
    targets[torch.rand(targets.shape, generator=generator) < 0.2] = -100
    exact(model).train()
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [dict(params=matrices, weight_decay=0.1), dict(params=others, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-4)
    losses, logits = [], None
    for step in range(STEPS):
        step_logits = model(input_ids=inputs[step], use_cache=False).logits
        loss = loss_of(step_logits, targets[step])
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            logits = step_logits.detach()
            gradients = {name: parameter.grad.float().contiguous() for name, parameter in model.named_parameters()}
            (folder / "gradient").mkdir()
            save_file(gradients, folder / "gradient" / "model.safetensors", metadata={"format": "pt"})
        losses.append(loss.item())
        optimizer.step()
    after = {name: parameter.detach().float().contiguous() for name, parameter in model.named_parameters()}
    (folder / "after").mkdir()
    save_file(after, folder / "after" / "model.safetensors", metadata={"format": "pt"})
    expected = dict(
        inputs=inputs.flatten(1).tolist(),
        targets=[[None if target == -100 else target for target in step] for step in targets.flatten(1).tolist()],
        sequences=SEQUENCES,
        tokens=TOKENS,
        logits=[float(f"{value:.9g}") for value in logits.flatten().tolist()],
        losses=losses,
    )
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


def main():
    for seed, (name, config) in enumerate(MODELS.items()):
        write(name, config, seed)
        print(name)


if __name__ == "__main__":
    main()
