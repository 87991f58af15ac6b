"""Reads a folder of `pipezero checkpoint export --format hf` with transformers, and says what a text of bytes costs it.

    check_export.py FOLDER TEXT SEQ_LENGTH

prints the mean loss of the first sequences of TEXT, nats per byte: that of `pipezero eval RUN --data TEXT --batches N` on the same bytes.
"""

import sys

import torch
import transformers

NUM_SEQUENCES = 4


def main(folder, text, seq_length):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    data = torch.tensor(list(open(text, "rb").read()[: NUM_SEQUENCES * seq_length + 1]))
    inputs, targets = (data[start : start + NUM_SEQUENCES * seq_length].view(-1, seq_length) for start in (0, 1))
    with torch.no_grad():
        logits = model(input_ids=inputs).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    print(f"{type(model).__name__} of {model.num_parameters()} parameters: {loss.item():.6f} nats per byte")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
