"""The list of what both binaries are asked: files, and the commands that read them.

Both read the files of one folder, the inputs: `docs`, `code` and `text.md` are texts, `engine/configs` has the examples,
`made` the run files and master files that are written here. Each binary writes into `runs` of the folder in which it is
started. What later commands read is copied to `runs` of the inputs.
"""

import dataclasses
import json
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Stands in arguments for the folder of inputs.
INPUTS = "{inputs}"
STEPS = 5


@dataclasses.dataclass
class Command:
    """One command of pipezero."""

    arguments: list  # Without the program's name.
    # The folder that is compared afterwards. What a command with one prints has times in it, and is not compared.
    writes: str = ""
    # Whether later commands read that folder.
    is_read_later: bool = False
    # Whether an error is an answer that is compared too.
    may_fail: bool = False


@dataclasses.dataclass
class Case:
    name: str
    files: dict  # Bytes by their path in the folder of inputs.
    commands: list


GPT = {"family": "gpt2", "num_layers": 8, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 32, "vocab_size": 256}
LLAMA = {**GPT, "family": "llama", "num_layers": 4, "ffn_hidden_size": 48, "num_query_groups": 2}
MLP = {"family": "mlp", "num_layers": 6, "hidden_size": 24, "seq_length": 16, "vocab_size": 256}
TIMED = {
    "family": "timed",
    "num_layers": 8,
    "seq_length": 16,
    "parameters_per_layer": 512,
    "activation_elements": 64,
    "forward_ms": 0.2,
    "backward_weight_ms": 0.1,
}
LARGE_VOCABULARY = {**GPT, "num_layers": 4, "vocab_size": 4096}
BASE = {
    "model": GPT,
    "data": {"text": "../text.md", "validation": 0.1},
    "parallel": {"pipeline": 2, "data": 2},
    "zero_optimization": {"stage": 3},
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "evaluation": {"every": 2, "batches": 1},
    "steps": STEPS,
    "seed": 3,
}
ORDER = "0F0,0F1,0F2,0B0,0F3,0B1,,0B2,,0B3\n,1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3,\n"
SPLIT_ORDER = "0F0,0F1,0F2,0F3,,0I0,0I1,0W0,0I2,0W1,0I3,0W2,0W3\n,1F0,1I0,1F1,1I1,1F2,1I2,1F3,1I3,1W0,1W1,1W2,1W3\n"
FAST_LINK = {"latency_us": 5, "gb_per_s": 100}
SLOW_LINK = {"latency_us": 50, "gb_per_s": 10}


def changed(changes):
    """The base run with these keys; a key with a dot is one of a section."""
    run = json.loads(json.dumps(BASE))
    for path, value in changes.items():
        *sections, key = path.split(".")
        place = run
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = value
    return run


def schedules():
    of_virtual_stages = {"interleaved": 2, "bfs": 2}
    for schedule in ("gpipe", "1f1b", "eager-1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-v"):
        keys = {"parallel.schedule": schedule}
        if schedule in of_virtual_stages:
            keys["parallel.virtual_stages"] = of_virtual_stages[schedule]
        yield f"schedule-{schedule}", keys
        yield f"schedule-{schedule}-zero1", {**keys, "zero_optimization.stage": 1, "model.tie_embeddings": False}
    yield "schedule-group", {"parallel.schedule": "interleaved", "parallel.virtual_stages": 2, "parallel.group_size": 4}
    yield "schedule-file", {"parallel.schedule": {"file": "order.csv"}}
    yield "schedule-file-split", {"parallel.schedule": {"file": "split.csv"}}
    yield "few-micro-batches", {"parallel.pipeline": 4, "gradient_accumulation_steps": 1}


def precisions():
    fp16 = {"enabled": True, "initial_scale_power": 8}
    for precision, section in {"bf16": {"enabled": True}, "fp16": fp16}.items():
        yield f"precision-{precision}", {precision: section}
        yield f"precision-{precision}-zb", {precision: section, "parallel.schedule": "zb-h1"}
        yield f"precision-{precision}-zero1", {precision: section, "zero_optimization.stage": 1}
    yield "precision-fp16-fixed", {"fp16": {"enabled": True, "loss_scale": 64}}
    # Its first steps overflow.
    yield "precision-fp16-overflow", {"fp16": {"enabled": True, "initial_scale_power": 25, "hysteresis": 1}}


def levels():
    yield "zero0", {"zero_optimization.stage": 0}
    yield "zero1", {"zero_optimization.stage": 1, "parallel.pipeline": 1}
    yield "zero2", {"zero_optimization.stage": 2, "parallel.pipeline": 1, "parallel.data": 3}
    of_zero3 = {
        "one-stage": {},
        "last": {"reduce": "last"},
        "strict": {"resident_units": "strict", "prefetch_units": 0},
        "all": {"resident_units": "all"},
        "number": {"resident_units": 3},
        "numbers": {"resident_units": [2, 4]},
        "auto": {"resident_units": "auto"},
        "half-units": {"unit_layers": 0.5, "prefetch_units": 2},
        "large-units": {"unit_layers": 2},
        "stage-units": {"unit_layers": "stage"},
        "persistent": {"stage3_param_persistence_threshold": 5000},
        "persistent-limit": {"stage3_param_persistence_threshold": 5000, "stage3_model_persistence_threshold": 9000},
        "persistent-auto": {"stage3_param_persistence_threshold": "auto"},
        "parameters": {"parameters": ["whole:wte|lm_head", "persistent:bias|ln_"]},
        "parameters-kinds": {"parameters": ["whole:.", r"sharded:h\.[24]\.", r"persistent:h\.1\."]},
        "parameters-last": {"parameters": ["persistent:wte|lm_head", "whole:attn"], "reduce": "last"},
        "sharding-auto": {"sharding": "auto"},
    }
    for name, section in of_zero3.items():
        grid = {"parallel.pipeline": 1} if name in ("one-stage", "stage-units") else {}
        memory = {"memory": "4MiB"} if name == "auto" else {}
        keys = {f"zero_optimization.{key}": value for key, value in section.items()}
        yield f"zero3-{name}", {**grid, **memory, **keys}
    yield "zero3-sharding-auto-memory", {"zero_optimization.sharding": "auto", "memory": "1400KiB"}
    yield "zero3-bf16-parameters", {"zero_optimization.parameters": ["whole:mlp", "persistent:ln_"], "bf16.enabled": True}


def vocabularies():
    for tied in (True, False):
        model = {**LARGE_VOCABULARY, "tie_embeddings": tied}
        name = "tied" if tied else "untied"
        yield f"vocabulary-{name}", {"model": model}
        yield f"vocabulary-{name}-whole", {"model": model, "zero_optimization.vocabulary_slices": 1,
                                           "parallel.partition": "uniform"}
        yield f"vocabulary-{name}-slices", {"model": model, "zero_optimization.vocabulary_slices": 2}


def models():
    yield "untied", {"model.tie_embeddings": False}
    yield "dropout", {"model.dropout": 0.1}
    yield "init-std", {"model.init_std": 0.1}
    yield "llama", {"model": LLAMA}
    yield "llama-bf16", {"model": {**LLAMA, "tie_embeddings": True}, "bf16.enabled": True}
    yield "llama-fp16-half-units", {"model": LLAMA, "zero_optimization.unit_layers": 0.5, "fp16.enabled": True}
    biases = {"add_qkv_bias": True, "add_proj_bias": True, "add_mlp_bias": True}
    yield "llama-biases", {"model": {**LLAMA, **biases}, "zero_optimization.stage": 1}
    yield "llama-head-norms", {"model": {**LLAMA, "qk_layernorm": True, "kv_channels": 12, "norm_epsilon": 1e-6}}
    scalings = {
        "linear": {"factor": 2},
        "dynamic": {"factor": 2, "original_max_position_embeddings": 16},
        "llama3": {"factor": 8, "original_max_position_embeddings": 16},
        "yarn": {"factor": 4, "original_max_position_embeddings": 16},
    }
    for kind, scaling in scalings.items():
        yield f"llama-{kind}", {"model": {**LLAMA, "rope_scaling": {"rope_type": kind, **scaling}}}
    yield "mlp", {"model": MLP, "parallel.partition": "uniform"}
    yield "mlp-zero1", {"model": MLP, "zero_optimization.stage": 1, "bf16.enabled": True}
    yield "timed", {"model": TIMED}
    yield "timed-zb", {"model": TIMED, "parallel.schedule": "zb-h2", "zero_optimization.stage": 1}


def frozen():
    patterns = [r"h\.[67]\.", "ln_f"]
    yield "frozen", {"train_only": patterns}
    yield "frozen-zero1-bf16", {"train_only": patterns, "zero_optimization.stage": 1, "bf16.enabled": True}
    yield "frozen-zb", {"train_only": patterns, "parallel.schedule": "zb-v"}
    yield "frozen-vectors", {"train_only": ["bias", "ln_"], "zero_optimization.parameters": ["whole:ln_"]}
    yield "frozen-llama", {"model": LLAMA, "train_only": ["attn"], "optimizer.params.weight_decay": 0.1}


def recomputation():
    yield "recomputation", {"activation_checkpointing": {"enabled": True}}
    yield "recomputation-every-layer", {"activation_checkpointing.every_layers": 1, "zero_optimization.unit_layers": 2}
    yield "recomputation-zero1", {"activation_checkpointing.every_layers": 2, "zero_optimization.stage": 1,
                                  "zero_optimization.unit_layers": 4}
    yield "recomputation-auto", {"activation_checkpointing": "auto", "memory": "1MiB"}
    yield "recomputation-dropout", {"activation_checkpointing.enabled": True, "model.dropout": 0.1, "bf16.enabled": True}
    yield "recomputation-llama", {"activation_checkpointing.enabled": True, "model": LLAMA}
    yield "recomputation-frozen", {"activation_checkpointing.enabled": True, "train_only": ["attn"]}
    for how in ("keep", "recompute"):
        yield f"logits-{how}", {"activation_checkpointing.head_logits": how, "model": LARGE_VOCABULARY}


def learning():
    optimizers = {
        "adamw": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.8, 0.9], "eps": 1e-6, "weight_decay": 0.1}},
        "adam-decay-all": {"type": "Adam", "params": {"lr": 0.01, "weight_decay": 0.1}, "no_decay": []},
        "sgd": {"type": "SGD", "params": {"lr": 0.1}},
        "sgd-momentum": {"type": "SGD", "params": {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.01}},
    }
    for name, section in optimizers.items():
        yield f"optimizer-{name}", {"optimizer": section}
    schedulers = {
        "warmup": {"type": "WarmupLR", "params": {"warmup_num_steps": 3}},
        "linear": {"type": "WarmupLR", "params": {"warmup_num_steps": 3, "warmup_type": "linear", "warmup_min_lr": 1e-5}},
        "decay": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 2, "total_num_steps": "auto"}},
        "cosine": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 2, "cos_min_ratio": 0.1, "warmup_min_ratio": 0.5}},
    }
    for name, section in schedulers.items():
        yield f"scheduler-{name}", {"scheduler": section}
    yield "clipping-off", {"gradient_clipping": 0}
    yield "clipping-low", {"gradient_clipping": 0.05}
    yield "threads", {"threads": 2}
    yield "checkpoints", {"checkpoint": {"every": 2}}
    yield "checkpoints-zero1-bf16", {"checkpoint": {"every": 2, "keep": 1, "background": False}, "bf16.enabled": True,
                                     "zero_optimization.stage": 1}
    yield "checkpoints-frozen", {"checkpoint": {"every": 4}, "train_only": ["attn"], "optimizer.type": "SGD",
                                 "optimizer.params.momentum": 0.9}


def partitions():
    for name, partition in {"parameters": "parameters", "by-type": "type:attn", "by-hand": [3, 5], "uniform": "uniform"}.items():
        yield f"partition-{name}", {"parallel.partition": partition}
    yield "partition-memory", {"memory": "2MiB"}
    links = {"ranks_per_node": 2, "near": FAST_LINK, "far": SLOW_LINK}
    yield "links", {"comm": {"links": links}}
    yield "links-shared", {"comm": {"links": {**links, "shared": True}}}


def data():
    tokenized = {"tokenizer": "../runs/text/tokenizer.json", "validation": 0.1}
    large = {"model": {**GPT, "vocab_size": 1024}}
    yield "text-whole", {"data.validation": 0}
    yield "text-tokenizer", {**large, "data": {**tokenized, "text": "../docs/*.md"}}
    yield "text-documents", {"data": {"text": "../docs/*.md", "document_attention": True}}
    yield "text-documents-llama", {"model": LLAMA, "data": {"text": "../docs/*.md", "document_attention": True}}
    yield "lengths", {"data.seq_lengths": [32, 20, 7]}
    yield "lengths-zb-bf16", {"data.seq_lengths": [16, 32], "parallel.schedule": "zb-h1", "bf16.enabled": True}
    yield "tokens", {**large, "data": {**tokenized, "tokens": "../runs/text/text", "seq_lengths": [32, 11]}}
    files = ["../runs/text/text", "../runs/text/code"]
    yield "tokens-weights", {**large, "data": {**tokenized, "tokens": files, "weights": [0.7, 0.3]}}
    yield "tokens-documents", {**large, "data": {**tokenized, "tokens": files, "document_attention": True}}
    yield "tokens-masked", {**large, "data": {**tokenized, "tokens": "../runs/text/pairs"}}
    yield "tokens-bin", {"data": {"tokens": "../train.bin", "end_token": 10, "validation_tokens": "../validation.bin"}}


def run_case(name, file, run, train=(), more_files=None, is_asked=False):
    """A run file, which is trained after every command that only reads it.

    `train` are more arguments; with None the run is not trained. What was trained `is_asked` to score and to write text.
    """
    path = f"{INPUTS}/{file}"
    commands = [
        Command(arguments)
        for arguments in (
            ["check", path],
            ["check", path, "--json"],
            ["plan", path],
            ["plan", path, "--json"],
            ["show", path, "--format", "text"],
            ["simulate", path, "--json"],
        )
    ]
    if train is not None:
        out = f"runs/{name}"
        commands.append(Command(["train", path, "--out", out, *train], out))
    if is_asked:
        for arguments in (["eval", out], ["generate", out, "--prompt", "The ", "--max-tokens", "16"]):
            # A timed model has no text, and tokens without a tokenizer have none either.
            commands.append(Command(arguments, may_fail=True))
    return Case(name, {file: as_json(run), **(more_files or {})}, commands)


def master_case(name, file, master, more_files=None):
    """A master file, each task of which is trained, in the order of the file. `show` and `simulate` refuse it."""
    path, out = f"{INPUTS}/{file}", f"runs/{name}"
    commands = [Command(["check", path]), Command(["check", path, "--json"]),
                Command(["show", path], may_fail=True), Command(["simulate", path, "--json"], may_fail=True)]
    for task in master["tasks"]:
        commands += [
            Command(["plan", path, "--task", task]),
            Command(["plan", path, "--task", task, "--json"]),
            # A later task may train an engine of an earlier one again, or begin with its weights.
            Command(["train", path, "--task", task, "--out", out, "--overwrite"], out, is_read_later=True),
        ]
    return Case(name, {file: as_json(master), **(more_files or {})}, commands)


def as_json(value):
    return json.dumps(value, indent=1).encode()


def shortened(run):
    """The run file with fewer steps."""
    if "steps" in run:
        run["steps"] = min(run["steps"], STEPS)
    return run


def examples():
    """The examples: as they are, and trained for fewer steps."""
    for path in sorted((ROOT / "engine/configs").glob("*.json")):
        file = f"engine/configs/{path.name}"
        text = path.read_bytes()
        run = json.loads(text)
        if "engines" in run:
            for engine in run["engines"].values():
                shortened(engine)
            # A task begins with what another has trained into runs/NAME.
            yield master_case(path.stem, file, run)
            continue
        as_it_is = run_case(f"{path.stem}-as-it-is", file, run, train=None)
        as_it_is.files[file] = text
        yield as_it_is
        shortened(run)
        if path.stem == "gpt2-124m":
            # Its own batch would take hours on two cores.
            run["model"] |= {"hidden_size": 96, "seq_length": 32}
            run["train_micro_batch_size_per_gpu"], run["gradient_accumulation_steps"] = 1, 4
        run["evaluation"] = {"every": 3, "batches": 2}
        yield run_case(path.stem, file, run)


def made_runs():
    """A run file for every schedule, precision, ZeRO level, family and feature."""
    orders = {"made/order.csv": ORDER.encode(), "made/split.csv": SPLIT_ORDER.encode()}
    parts = (schedules, precisions, levels, vocabularies, models, frozen, recomputation, learning, partitions, data)
    for part in parts:
        for name, changes in part():
            run = changed(changes)
            if run["model"]["family"] == "timed":
                del run["data"]
            more_files = orders if part is schedules else None
            yield run_case(name, f"made/{name}.json", run, more_files=more_files, is_asked=part in (models, data))


def published():
    """Models of transformers, with their sizes and weights."""
    for name in ("gpt2-tied", "llama-llama3-biases", "qwen3"):
        folder = ROOT / "tests/golden/published" / name
        to = f"made/published/{name}"
        files = {f"{to}/{path.name}": path.read_bytes() for path in folder.iterdir() if path.is_file()}
        assert f"{to}/model.safetensors" in files, f"{folder} has no weights"
        vocabulary = json.loads(files[f"{to}/config.json"])["vocab_size"]
        run = changed({"model": {"from": f"published/{name}", "seq_length": 16}, "parallel.pipeline": 1})
        # Their vocabularies are smaller than 256, so the tokens are made for them.
        tokens = [value % vocabulary for value in few_texts()[:20_000]]
        files[f"made/{name}.bin"] = struct.pack(f"<{len(tokens)}H", *tokens)
        run["data"] = {"tokens": f"{name}.bin", "validation": 0.1}
        name = f"published-{name}"
        yield run_case(name, f"made/{name}.json", run, ["--init", f"{INPUTS}/{to}"], files, is_asked=True)


def made_masters():
    """Several engines in one task, on shared ranks and on ranks of their own, and distillations."""
    first = changed({"parallel.schedule": "zb-h1"})
    second = changed({"model.num_layers": 2, "model.dropout": 0.1, "parallel": {"data": 2}, "bf16.enabled": True,
                      "zero_optimization.stage": 2, "steps": 3})
    third = changed({"model": LLAMA, "parallel": {"pipeline": 4}, "zero_optimization.stage": 1, "fp16.enabled": True,
                     "checkpoint.every": 3, "train_only": ["attn"]})
    train = ["first", "second", "third"]
    ranks = [
        {"first": "0-3", "second": "4-5", "third": "6-9"},
        {"first": "0-3", "second": "3-4", "third": "5-8"},
        {"second": "4-5"},
    ]
    tasks = {"shared": {"train": train}, "one": {"train": ["second"], "init": {"second": "../runs/several/second"}}}
    tasks |= {f"ranks-{number}": {"train": train, "ranks": of} for number, of in enumerate(ranks)}
    yield master_case("several", "made/several.json",
                      {"engines": {"first": "of-several.json", "second": second, "third": third}, "tasks": tasks},
                      {"made/of-several.json": as_json(first)})

    teacher = changed({"zero_optimization.unit_layers": 0.5})
    # Teachers that need no data, optimizer or batch: another grid, level and precision each.
    bare = {"model": GPT, "parallel": {"pipeline": 4}, "zero_optimization": {"stage": 1}, "bf16": {"enabled": True}}
    student = changed({"model.num_layers": 2, "model.hidden_size": 16, "data.seq_lengths": [32, 9], "parallel": {"data": 2},
                       "zero_optimization.stage": 2, "checkpoint.every": 4, "model.dropout": 0.1})
    deep = changed({"model": LLAMA, "parallel.schedule": "zb-v", "bf16.enabled": True})
    init = {"large": "../runs/distillations/large", "bare": "../runs/distillations/large/weights.safetensors"}

    def distil(student, teacher, temperature, alpha, **more):
        learn = {"student": student, "teacher": teacher, "temperature": temperature, "alpha": alpha}
        return {"distill": learn, "init": {teacher: init[teacher]}, **more}

    tasks = {
        "teach": {"train": ["large"]},
        "learn": distil("small", "large", 2.0, 0.5),
        "other-grid": distil("small", "bare", 1.5, 1),
        "plain": distil("small", "large", 1, 0),
        "deep": distil("deep", "large", 3, 0.3),
        "own-ranks": distil("small", "large", 2.0, 0.5, ranks={"small": "0-1", "large": "2-5"}),
    }
    engines = {"large": teacher, "bare": bare, "small": student, "deep": deep}
    yield master_case("distillations", "made/distillations.json", {"engines": engines, "tasks": tasks})


def deepspeed():
    """Files of the shapes that DeepSpeed's users have, most of them with hints or errors, which are compared."""
    commands, files = [], {}
    for path in sorted((ROOT / "engine/config/tests/deepspeed").glob("*.*json")):
        file = f"made/deepspeed/{path.name}"
        files[file] = path.read_bytes()
        sections = {"model": GPT, "data": {"text": "../../text.md"}, "parallel": {"data": 4}, "steps": 5}
        sets = [argument for key, value in sections.items() for argument in ("--set", f"{key}={json.dumps(value)}")]
        commands.append(Command(["check", f"{INPUTS}/{file}", *sets], may_fail=True))
    assert commands, "there are no files of DeepSpeed's"
    return Case("deepspeed", files, commands)


def few_texts():
    """The text of the pages in docs."""
    return b"".join(path.read_bytes() for path in sorted((ROOT / "docs").glob("*.md")))


def texts():
    """What every run reads, and the files of tokens made from it."""
    text = few_texts()
    files = {f"docs/{path.name}": path.read_bytes() for path in sorted((ROOT / "docs").glob("*.md"))}
    files["text.md"] = files["README.md"] = text
    code = b"".join(path.read_bytes() for path in sorted((ROOT / "tests").glob("*.rs")))
    assert text and code, "there are no texts"
    manifest = (ROOT / "tests/Cargo.toml").read_bytes()
    # As the examples name them: crates at the root, and below `engine/`.
    files |= {"code/src/lib.rs": code, "code/Cargo.toml": manifest}
    files |= {"engine/code/src/lib.rs": b"// Nothing.\n", "engine/code/Cargo.toml": manifest}
    for name, part in (("train.bin", text[:200_000]), ("validation.bin", text[200_000:230_000])):
        files[name] = struct.pack(f"<{len(part)}H", *part)
    lines = [line for line in text.decode().splitlines() if len(line) > 40][:400]
    pairs = [{"prompt": line[:20], "completion": line[20:200]} for line in lines]
    files["pairs.jsonl"] = "".join(json.dumps(pair) + "\n" for pair in pairs).encode()
    files["runs/text/tokenizer.json"] = as_json(tokenizer())
    made_of = {"text": ["docs/*.md"], "code": ["code/src/lib.rs", "--separator", "\n#[test]\n"], "pairs": ["pairs.jsonl"]}
    with_tokenizer = ["--tokenizer", f"{INPUTS}/runs/text/tokenizer.json"]
    commands = [
        Command(["tokenize", f"{INPUTS}/{text}", *more, *with_tokenizer, "--out", f"runs/text/{name}"], "runs/text", True)
        for name, (text, *more) in made_of.items()
    ]
    return Case("tokenize", files, commands)


def tokenizer():
    """A small byte-level BPE, as Hugging Face's tokenizers write it."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte) for byte in printable] + [chr(256 + place) for place in range(len(others))]
    space = chr(256 + others.index(ord(" ")))
    merges = [(space, "t"), ("h", "e"), (f"{space}t", "he"), ("i", "n"), (space, "a"), ("r", "e"), ("o", "n"), ("e", "r"),
              ("a", "t"), (space, "s"), (space, "o"), ("i", "s"), ("e", "n"), (space, "w"), ("a", "n"), (f"{space}a", "n")]
    tokens = ["<|endoftext|>", *letters, *(left + right for left, right in merges)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": 0, "content": tokens[0], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
           "special": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": {token: number for number, token in enumerate(tokens)}, "merges": [list(pair) for pair in merges]}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level, "model": model}


def cases():
    """Every case, in the order in which they must run: texts and tokens come first."""
    yield texts()
    yield from examples()
    yield from made_runs()
    yield from published()
    yield from made_masters()
    yield deepspeed()
