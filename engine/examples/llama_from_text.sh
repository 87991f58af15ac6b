#!/usr/bin/env bash
# From text to samples: trains a BPE tokenizer on the text of this repository, tokenizes it, trains a small Llama on the tokens, scores all
# that was held out, and lets the model write. Everything lies in runs/text and runs/llama-bpe, which it replaces.
set -euo pipefail
cd "$(dirname "$0")/../.."

texts=('*/src/**/*.rs' 'engine/*/src/**/*.rs' 'docs/*.md' '*.md')
pipezero() { cargo run --release --quiet -- "$@"; }

mkdir -p runs/text
cargo run --release --quiet --example bpe_tokenizer -- 1024 runs/text/tokenizer.json "${texts[@]}"
pipezero tokenize "${texts[@]}" --tokenizer runs/text/tokenizer.json --out runs/text/text --overwrite
pipezero train engine/configs/llama-bpe.json --overwrite "$@"
pipezero eval runs/llama-bpe --all
pipezero generate runs/llama-bpe --prompt '/// The number of ' --max-tokens 64 --temperature 0.5
