"""Compares the losses at the ends of two runs on the same samples, one of pipezero and one of PyTorch.

    python3 benches/gpu/last_losses.py --last 100 --limit 0.005 METRICS.jsonl LOSSES.jsonl

The loss of one step says as much of its samples as of the weights, so both are means of the last steps, which have read the same samples. The
exit status is 1 where the means are more than the limit apart, in nats.
"""

import argparse
import json
import sys


def losses(path):
    """By step."""
    with open(path, encoding="utf-8") as file:
        return {line["step"]: line["loss"] for line in map(json.loads, file) if "loss" in line}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--last", type=int, required=True, help="steps that count")
    parser.add_argument("--limit", type=float, required=True, help="nats")
    parser.add_argument("--tokens-of-a-step", type=int, help="to say how many tokens were read")
    parser.add_argument("own", help="metrics.jsonl of pipezero")
    parser.add_argument("other", help="losses of torch_gpt.py")
    arguments = parser.parse_args()
    own, other = losses(arguments.own), losses(arguments.other)
    steps = sorted(own.keys() | other.keys())
    if not steps or own.keys() != other.keys():
        sys.exit(f"the runs have {len(own)} and {len(other)} steps, which should be the same")
    counted = steps[-arguments.last :]
    means = [sum(each[step] for step in counted) / len(counted) for each in (own, other)]
    difference = means[0] - means[1]
    first = abs(own[steps[0]] - other[steps[0]])
    figures = {"pipezero_loss": means[0], "torch_loss": means[1], "difference_nats": difference}
    figures |= {"first_step_difference_nats": first, "num_steps": len(steps)}
    if arguments.tokens_of_a_step:
        figures["num_tokens"] = len(steps) * arguments.tokens_of_a_step
    print(f"figures: {json.dumps(figures)}")
    # Written so that NaN fails.
    sys.exit(0 if abs(difference) <= arguments.limit else 1)


if __name__ == "__main__":
    main()
