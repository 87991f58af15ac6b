"""Small folders of Hugging Face's transformers that differ in what an export has to keep, and the logits that transformers computes.

Each becomes a folder of tests/golden/exports, as `save_pretrained` writes model, tokenizer and generation settings, and
NAME.expected.safetensors beside it: the tokens of two sequences and their logits. Weights have 16 bits, so that the files are small; the
logits are computed in float64 from them, as in `published_models.py`.

The folders cover what the ten models of `published_models.py` do not: heads that do not divide the width, several end tokens, padding,
chat templates, windows, dropout, more positions than a run trains, a body that was saved without its head, and files in several parts.

    exported_models.py           writes the golden files
    exported_models.py --check DIR
                                 opens DIR/NAME, exports of the folders, with transformers, and compares logits, settings and tokenizer
"""

import copy
import json
import shutil
import sys
from pathlib import Path

import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file

from published_models import exact, float32_numbers

OUT = Path(__file__).parent.parent / "exports"
SEQUENCES, TOKENS = 2, 8
LETTERS = "abcdefghijklmnopqrstuvwxyz .,\n"
SPECIAL = ["<s>", "</s>", "<pad>", "<|im_end|>"]
MERGES = [("t", "h"), ("th", "e"), ("a", "n")]
VOCAB_SIZE = len(LETTERS) + len(MERGES) + len(SPECIAL)
BOS, EOS, PAD, TURN = range(VOCAB_SIZE - len(SPECIAL), VOCAB_SIZE)

CHAT = (
    "{% for message in messages %}{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant\n{% endif %}"
)

LLAMA = dict(
    vocab_size=VOCAB_SIZE, hidden_size=16, intermediate_size=20, num_hidden_layers=2, max_position_embeddings=32, bos_token_id=BOS,
    eos_token_id=EOS,
)


def rope(kind="default", **more):
    return dict(rope_type=kind, rope_theta=100.0, **more)


# Each has a configuration, generation settings, whether there is a chat template, and the type of its weights.
MODELS = {
    "gpt2-more-positions": (
        transformers.GPT2Config(
            vocab_size=VOCAB_SIZE, n_positions=24, n_embd=15, n_layer=2, n_head=5, bos_token_id=EOS, eos_token_id=EOS,
        ),
        dict(eos_token_id=[EOS, TURN], pad_token_id=PAD, do_sample=True, temperature=0.7), False, torch.float16,
    ),
    "gpt2-untied-one-head": (
        transformers.GPT2Config(
            vocab_size=VOCAB_SIZE, n_positions=16, n_embd=14, n_layer=2, n_head=1, n_inner=56, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, tie_word_embeddings=False, bos_token_id=None, eos_token_id=EOS, pad_token_id=PAD,
            activation_function="gelu_pytorch_tanh",
        ),
        {}, True, torch.float16,
    ),
    "llama-tied-eos-list": (
        transformers.LlamaConfig(
            **LLAMA | dict(hidden_size=15, eos_token_id=[EOS, TURN], pad_token_id=PAD), num_attention_heads=3, num_key_value_heads=1, head_dim=6,
            tie_word_embeddings=True, rope_parameters=rope(),
        ),
        dict(top_k=7, top_p=0.9, do_sample=True, max_length=30), True, torch.bfloat16,
    ),
    "llama-llama3-parts": (
        transformers.LlamaConfig(
            **LLAMA | dict(hidden_size=18), num_attention_heads=9, num_key_value_heads=3, head_dim=4, attention_bias=True, mlp_bias=True,
            rope_parameters=rope(
                "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
            ),
        ),
        dict(repetition_penalty=1.25, do_sample=False), False, torch.bfloat16,
    ),
    "llama-body-alone": (
        transformers.LlamaConfig(
            **LLAMA | dict(hidden_size=15), num_attention_heads=5, num_key_value_heads=5, head_dim=2, tie_word_embeddings=True,
            rope_parameters=rope("yarn", factor=2.0, original_max_position_embeddings=16),
        ),
        {}, False, torch.bfloat16,
    ),
    "mistral-window-heads-apart": (
        transformers.MistralConfig(
            **LLAMA | dict(eos_token_id=[TURN, EOS]), num_attention_heads=5, num_key_value_heads=1, head_dim=6, sliding_window=12,
            rope_parameters=rope(),
        ),
        dict(max_new_tokens=9), True, torch.bfloat16,
    ),
    "mistral-tied": (
        transformers.MistralConfig(
            **LLAMA, num_attention_heads=4, num_key_value_heads=2, sliding_window=None, tie_word_embeddings=True, pad_token_id=PAD,
            rope_parameters=rope("linear", factor=2.0),
        ),
        {}, False, torch.float16,
    ),
    "qwen2-window": (
        transformers.Qwen2Config(
            **LLAMA | dict(hidden_size=18), num_attention_heads=3, num_key_value_heads=3, use_sliding_window=True, sliding_window=10,
            max_window_layers=1, rope_parameters=rope(),
        ),
        dict(eos_token_id=[TURN, EOS], pad_token_id=EOS, repetition_penalty=1.1), True, torch.bfloat16,
    ),
    "qwen2-tied": (
        transformers.Qwen2Config(
            **LLAMA | dict(hidden_size=20), num_attention_heads=5, num_key_value_heads=1, tie_word_embeddings=True,
            rope_parameters=rope("dynamic", factor=2.0),
        ),
        {}, False, torch.bfloat16,
    ),
    "qwen3-heads-apart": (
        transformers.Qwen3Config(
            **LLAMA | dict(eos_token_id=TURN), num_attention_heads=3, num_key_value_heads=1, head_dim=10, attention_bias=True,
            tie_word_embeddings=True, rope_parameters=rope(),
        ),
        dict(eos_token_id=[TURN, EOS], pad_token_id=PAD, do_sample=True, temperature=0.6, top_k=20, top_p=0.95), True, torch.bfloat16,
    ),
}


def tokenizer(has_chat, end):
    letters = {letter: index for index, letter in enumerate(LETTERS)}
    vocab = letters | {left + right: len(letters) + index for index, (left, right) in enumerate(MERGES)}
    bare = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=MERGES))
    bare.decoder = tokenizers.decoders.Fuse()
    bare.add_special_tokens(SPECIAL)
    whole = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bare, bos_token="<s>", eos_token=end, pad_token="<pad>", clean_up_tokenization_spaces=False
    )
    if has_chat:
        whole.chat_template = CHAT
    return whole


def logits_of(model, inputs):
    with torch.no_grad():
        return exact(model).eval()(input_ids=inputs, use_cache=False).logits.float().contiguous()


def write(name, config, generation, has_chat, dtype, seed):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            base = 1.0 if (parameter == 1.0).all() else 0.0
            parameter.copy_((base + float32_numbers(generator, parameter.shape, 0.2)).to(dtype))
    model.generation_config.update(**generation)
    # A copy, since the frequencies of angles would be rounded too.
    narrow = copy.deepcopy(model).to(dtype)
    saved = narrow.model if name == "llama-body-alone" else narrow
    saved.save_pretrained(folder, max_shard_size="4KB" if name == "llama-llama3-parts" else "5GB")
    if saved is not narrow:
        narrow.generation_config.save_pretrained(folder)
    end = "<|im_end|>" if name.startswith("qwen3") else "</s>"
    tokenizer(has_chat, end).save_pretrained(folder)
    inputs = torch.randint(config.vocab_size, (SEQUENCES, TOKENS), generator=generator)
    expected = dict(inputs=inputs.to(torch.uint32), logits=logits_of(model, inputs))
    save_file(expected, OUT / f"{name}.expected.safetensors")


def check(name, folder):
    expected = load_file(OUT / f"{name}.expected.safetensors")
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, attn_implementation="sdpa"
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), (name, info)
    dtype = transformers.AutoConfig.from_pretrained(folder).dtype
    found = logits_of(model, expected["inputs"].long())
    distance = (found - expected["logits"]).abs().max() / expected["logits"].abs().max()
    settings = [transformers.GenerationConfig.from_pretrained(path).to_dict() for path in (OUT / name, folder)]
    differ = [key for key in settings[0] | settings[1] if settings[0].get(key) != settings[1].get(key)]
    configs = [json.loads((path / "config.json").read_text()) for path in (OUT / name, folder)]
    fields = [key for key in configs[0] | configs[1] if configs[0].get(key, "absent") != configs[1].get(key, "absent")]
    theirs, ours = (transformers.AutoTokenizer.from_pretrained(path) for path in (OUT / name, folder))
    text = "the cat, an anthem.\n"
    same_tokens = theirs(text).input_ids == ours(text).input_ids and theirs.chat_template == ours.chat_template
    same_tokens = same_tokens and theirs.eos_token == ours.eos_token and theirs.pad_token == ours.pad_token
    print(
        f"{name:28} {type(model).__name__:20} {str(dtype):15} logits {distance:.1e}; generation: {differ or 'equal'}; "
        f"config.json: {fields or 'equal'}; tokenizer: {'equal' if same_tokens else 'DIFFERS'}"
    )


def main():
    if sys.argv[1:2] == ["--check"]:
        for name in MODELS:
            check(name, Path(sys.argv[2]) / name)
        return
    OUT.mkdir(exist_ok=True)
    for seed, (name, model) in enumerate(MODELS.items()):
        write(name, *model, seed)
        print(name)


if __name__ == "__main__":
    main()
