"""Writes files of tokens, which pipezero (`data.tokens`) and torch_gpt.py read: tokens and nothing else, as nanoGPT has them.

    python3 benches/gpu/tokens.py random --vocab 50304 --num 500000 --seed 1 --out FILE.bin
    python3 benches/gpu/tokens.py text --num 61000000 --out FILE.bin GLOB...

`random` draws from the whole vocabulary, each token as likely as the others. `text` writes the bytes of files, which it
reads in the order of their names until there are enough. Tokens have 16 bits, or 32 where the vocabulary is larger than 65,536.
"""

import argparse
import array
import glob
import os
import random
import sys


def drawn(vocab, num, seed):
    """The same for the same seed, by Python's Mersenne twister."""
    generator = random.Random(seed)
    code = "H" if vocab <= 1 << 16 else "I"
    return array.array(code, (int(generator.random() * vocab) for _ in range(num)))


def bytes_of(patterns, num):
    """Of all files, until there are enough."""
    tokens = array.array("H")
    paths = {path for pattern in patterns for path in glob.glob(pattern, recursive=True)}
    for path in sorted(path for path in paths if os.path.isfile(path)):
        with open(path, "rb") as file:
            tokens.extend(file.read(num - len(tokens)))
        if len(tokens) == num:
            return tokens
    sys.exit(f"{len(paths)} files have {len(tokens)} bytes, not {num}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="what")
    for name in ("random", "text"):
        command = commands.add_parser(name)
        command.add_argument("--num", type=int, required=True, help="tokens")
        command.add_argument("--out", required=True)
        if name == "random":
            command.add_argument("--vocab", type=int, required=True)
            command.add_argument("--seed", type=int, default=1)
        else:
            command.add_argument("files", nargs="+", help="files and globs, of which ** is any folders")
    arguments = parser.parse_args()
    if arguments.what == "random":
        tokens = drawn(arguments.vocab, arguments.num, arguments.seed)
    else:
        tokens = bytes_of(arguments.files, arguments.num)
    if sys.byteorder == "big":
        tokens.byteswap()
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    with open(arguments.out, "wb") as file:
        tokens.tofile(file)
    print(f"{len(tokens)} tokens of {tokens.itemsize} bytes in {arguments.out}, {len(set(tokens))} different ones")


if __name__ == "__main__":
    main()
