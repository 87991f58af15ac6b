"""The least times of a training step's kernels on an H100, calculated from their instructions and from the bytes that they move: what
`resources.py --account` prints.

The calls of a step are those of one rank in bf16 with AdamW, as `pipezero profile --kernels` lists them. The time to issue a kernel's instructions is
that of floors.py. The time for its bytes is at 3.0 TB/s, which copies achieve on an H100. No launch is faster than the longer of the two. Kernels are
listed as not calculated if their time depends on the data (which tokens are equal), on atomic additions, on one thread, or on tensor cores.
"""

import dataclasses

import floors

BYTES_PER_S = 3.0e12
# Tokens of a block of the head, as `block_tokens` of models/src/shared/vocabulary.rs has them for large vocabularies.
HEAD_COLUMNS = 4096
NOT_CALCULATED = {
    "embedding_backward": "depends on which tokens are equal",
    "positions_backward": "a thread adds all sequences one after the other, so latency decides",
    "add_squares": "atomic additions in shared memory",
    "cross_entropy_loss": "one thread adds all losses",
    "cross_entropy_log_sums": "f64, which has few units",
    "attention_mma (forward, keys, queries)": "tensor cores",
    "bias_backward of one row": "shorter than a launch",
    "products of cuBLASLt": "not kernels of this repository",
}


@dataclasses.dataclass(frozen=True)
class Model:
    """Sizes of a model and of a micro-batch."""

    name: str
    family: str
    num_layers: int
    num_sequences: int
    seq_length: int
    width: int
    num_heads: int
    num_kv_heads: int
    ffn_width: int
    vocab_size: int

    def num_rows(self):
        return self.num_sequences * self.seq_length

    def head_size(self):
        return self.width // self.num_heads

    def num_parameters(self):
        width, vocabulary = self.width, self.vocab_size
        if self.family == "gpt2":
            return vocabulary * width + self.seq_length * width + self.num_layers * (12 * width**2 + 13 * width) + 2 * width
        of_heads = (2 * self.num_heads + 2 * self.num_kv_heads) * self.head_size() * width
        of_layer = of_heads + 3 * width * self.ffn_width + 2 * width
        return 2 * vocabulary * width + self.num_layers * of_layer + width


# As in benches/gpu/runs.
MODELS = (
    Model("GPT-2 124M, 32 x 1024 tokens", "gpt2", 12, 32, 1024, 768, 12, 12, 3072, 50304),
    Model("GPT 1.3B, 8 x 2048 tokens", "gpt2", 24, 8, 2048, 2048, 32, 32, 8192, 50304),
    Model("8 layers of Llama-3-8B, 1 x 8192 tokens", "llama", 8, 1, 8192, 4096, 32, 8, 14336, 128256),
)


@dataclasses.dataclass(frozen=True)
class Call:
    """Launches of one kernel and size: rows and columns as floors.WORK means them, and the bytes that one has to move."""

    kernel: str
    elements: str
    num_calls: int
    num_rows: int
    num_columns: int
    num_bytes: int
    leave_out: int = 0


def calls_of_step(model):
    """What a step of a model launches and can be calculated."""
    rows, width, layers = model.num_rows(), model.width, model.num_layers
    num, parameters = rows * width, model.num_parameters()
    # RMS norms compute no mean.
    without_mean = 0 if model.family == "gpt2" else 1
    whole, rest = divmod(model.vocab_size, HEAD_COLUMNS)
    blocks = [(whole, HEAD_COLUMNS)] + ([(1, rest)] if rest else [])
    calls = [
        Call("embedding", "BF16", 1, rows, width, 4 * num),
        Call("norm_forward", "BF16", 2 * layers + 1, rows, width, 4 * num, without_mean),
        *(Call("cross_entropy", "F32", count, rows, columns, 4 * rows * columns) for count, columns in blocks),
        *(Call("cross_entropy_backward", "BF16", count, rows, columns, 6 * rows * columns) for count, columns in blocks),
        Call("round_to_element", "BF16", 2 * layers + (3 if model.family == "gpt2" else 2), rows, width, 8 * num),
        Call("from_f32", "BF16", 2 * layers + 2, rows, width, 6 * num),
        Call("norm_again", "BF16", 2 * layers, rows, width, 4 * num),
        Call("norm_backward_input", "BF16", 2 * layers + 1, rows, width, 12 * num),
        Call("norm_backward_weight", "BF16", 2 * layers + 1, rows, width, 4 * num),
        Call("attention_put_queries", "BF16", layers, rows, width, 4 * num),
        # One launch for all parameters: the 110 of GPT-2 issue and move as much.
        Call("from_f32", "BF16", 1, 1, parameters, 6 * parameters),
        Call("adamw", "F32", 1, 1, parameters, 28 * parameters),
    ]
    return calls + (of_gpt2 if model.family == "gpt2" else of_llama)(model)


def of_gpt2(model):
    rows, width, layers = model.num_rows(), model.width, model.num_layers
    return [
        Call("add_positions", "BF16", 1, rows, width, 4 * rows * width + 2 * model.seq_length * width),
        Call("gelu", "BF16", layers, rows, model.ffn_width, 4 * rows * model.ffn_width),
        *(
            Call("bias_backward", "BF16", count, rows, columns, 2 * rows * columns)
            for count, columns in ((layers, 4 * width), (layers, 3 * width), (2 * layers, width))
        ),
        # The two gradients of the table that the embedding and the head share.
        Call("add", "F32", 1, model.vocab_size, width, 12 * model.vocab_size * width),
    ]


def of_llama(model):
    rows, layers, ffn = model.num_rows(), model.num_layers, model.ffn_width
    turned = model.num_heads + model.num_kv_heads
    return [
        # A thread for each pair of a token.
        Call("rope", "BF16", 2 * layers, rows * model.head_size() // 2, turned, 4 * rows * turned * model.head_size()),
        Call("swiglu", "BF16", layers, rows, ffn, 6 * rows * ffn),
        Call("swiglu_backward", "BF16", layers, rows, ffn, 12 * rows * ffn),
    ]


def lines_of(model, ways):
    """A line for each kernel and size, those that take most of a step first. `ways` is by (elements, kernel)."""
    found = []
    for call in calls_of_step(model):
        cost = floors.cost(call.kernel, call.elements, ways[call.elements, call.kernel], call.num_rows, call.num_columns, call.leave_out)
        issue, memory = cost.seconds(), call.num_bytes / BYTES_PER_S
        found.append((call.num_calls * max(issue, memory), issue, memory, call))
    found.sort(key=lambda each: -each[0])
    lines = [f"{'kernel':24}{'rows x columns':>20}{'calls':>7}{'issue us':>10}{'memory us':>11}{'ms a step':>11}  bound by"]
    for total, issue, memory, call in found:
        shape = f"{call.num_rows} x {call.num_columns}"
        bound = "instructions" if issue > memory else "memory"
        lines.append(f"{call.kernel:24}{shape:>20}{call.num_calls:7}{issue * 1e6:10.1f}{memory * 1e6:11.1f}{total * 1e3:11.2f}  {bound}")
    lines.append(f"{'in all':24}{'':48}{sum(each[0] for each in found) * 1e3:11.2f}")
    return lines


def print_all(ways):
    print("calculated, not measured: the least times on an H100 (132 multiprocessors at 1.98 GHz, 3.0 TB/s)")
    for model in MODELS:
        print(f"\n{model.name}: {model.num_parameters() / 1e6:.0f} million parameters (calculated)")
        print(*lines_of(model, ways), sep="\n")
    print("\nnot calculated")
    print(*(f"{kernel:40}{reason}" for kernel, reason in NOT_CALCULATED.items()), sep="\n")
