"""Writes every golden file into tests/golden. README.md beside this file says how to run it and what the files hold."""

import gpt2
import learning_rates
import loss_scales
import optimizers


def main() -> None:
    for tied in (True, False):
        gpt2.make(tied)
    optimizers.make()
    learning_rates.make()
    loss_scales.make()


if __name__ == "__main__":
    main()
