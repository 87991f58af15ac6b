"""Which tokens a step reads: those of pipezero, in its order, from a file of tokens without a header.

The order is that of engine/run/src/data/sampler.rs: for each epoch a permutation of all windows of `seq_length + 1` tokens, a Feistel network
from the run's seed. It is the run's own order where nothing of the file is held out, that is, with `data.validation_tokens`.
"""

import array
import os

MASK = (1 << 64) - 1
NUM_ROUNDS = 6
TYPES = {"u16": "H", "u32": "I"}


def mix(value):
    """SplitMix64's output function."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


class Permutation:
    """Of `0..num_samples`, another one for each epoch."""

    def __init__(self, num_samples, seed):
        self.num_samples, self.seed = num_samples, seed
        self.half_bits = max(1, ((num_samples - 1).bit_length() + 1) // 2)

    def sample(self, index):
        epoch, place = divmod(index, self.num_samples)
        key = mix(mix(self.seed) ^ epoch)
        place = self.encrypted(place, key)
        while place >= self.num_samples:
            place = self.encrypted(place, key)
        return place

    def encrypted(self, value, key):
        mask = (1 << self.half_bits) - 1
        left, right = value >> self.half_bits, value & mask
        for number in range(NUM_ROUNDS):
            round_key = mix((key + number) & MASK)
            left, right = right, left ^ (mix(round_key ^ right) & mask)
        return left << self.half_bits | right


class Samples:
    """The windows of a run."""

    def __init__(self, run, folder):
        data = run["data"]
        self.path = os.path.join(folder, data["tokens"])
        self.code = TYPES[data.get("token_type", "u16")]
        self.token_bytes = array.array(self.code).itemsize
        self.seq, self.batch = run["model"]["seq_length"], run["train_batch_size"]
        num_tokens = os.path.getsize(self.path) // self.token_bytes
        num_samples = (num_tokens - 1) // self.seq
        if num_samples < 1:
            raise SystemExit(f"{self.path} has {num_tokens} tokens, not even {self.seq + 1}")
        self.order = Permutation(num_samples, run.get("seed", 0))

    def of_step(self, step):
        """The tokens of a step, counted from 1: `batch` windows of `seq_length + 1`, one behind the other."""
        tokens = array.array(self.code)
        with open(self.path, "rb") as file:
            for place in range(self.batch):
                sample = self.order.sample((step - 1) * self.batch + place)
                file.seek(sample * self.seq * self.token_bytes)
                tokens.fromfile(file, self.seq + 1)
        return tokens
