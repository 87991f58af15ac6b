#!/usr/bin/env bash
# Builds what benches/gpu/agenda.py and benches/gpu/run.sh need on a machine without Rust, and says how large it is.

set -eu

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TO=$ROOT/target/gpu
# What can be carried: each program, and all of them.
PROGRAM_BYTES_MAX=$((40 * 1000 * 1000))
ALL_BYTES_MAX=$((64 * 1024 * 1024))
MIB=$((1024 * 1024))

usage() {
    cat <<'TEXT'
usage: benches/gpu/pack.sh [--old COMMIT [--predicted-ms N]]

Builds pipezero, the program of the integration tests (it) and the measurement of kernels (gpu_kernels),
optimised, and writes them to target/gpu without symbols, with packed.json: the commit, and hashes of the
sources. Then trains what is compared with the GPU's losses on this CPU, which takes some minutes, and writes
the losses to target/gpu/curves. Carry that folder and the repository to the machine with the GPU, and run
benches/gpu/agenda.py there. The programs need Linux on x86-64 with the glibc that is printed, or a newer
one; CUDA's libraries are looked for when a program starts.

  --old COMMIT       also build the pipezero of an older commit, which experiment E6 compares with the new one
  --predicted-ms N   how many milliseconds of a step of the 124M the change since then should gain

Exit status: 0 if everything was written and is small enough to be carried, 1 if not, 2 if an argument is wrong.

Examples:
  benches/gpu/pack.sh
  benches/gpu/pack.sh --old main~3 --predicted-ms 6
TEXT
}

wrong() {
    echo "$1; see benches/gpu/pack.sh --help" >&2
    exit 2
}

OLD= PREDICTED_MS=
while (($# > 0)); do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --old | --predicted-ms) [ $# -ge 2 ] || wrong "$1 needs a value" ;;
    *) wrong "$1 is no option" ;;
    esac
    case $1 in
    --old) OLD=$(git -C "$ROOT" rev-parse --verify --quiet "$2^{commit}") || wrong "--old $2: git knows no such commit" ;;
    --predicted-ms) PREDICTED_MS=$2 ;;
    esac
    shift 2
done
[[ $PREDICTED_MS =~ ^[0-9]*(\.[0-9]+)?$ ]] || wrong "--predicted-ms $PREDICTED_MS: it takes a number"
[ -z "$PREDICTED_MS" ] || [ -n "$OLD" ] || wrong "--predicted-ms needs --old: it says what has changed since then"

# built NAME CARGO_ARGUMENTS...: where cargo put the program of the target with this name. The file of a test
# has a hash in its name, so cargo is asked.
built() {
    local name=$1
    shift
    cargo "$@" --release --locked --message-format=json-render-diagnostics | python3 -c '
import json, sys
built = [line for line in map(json.loads, sys.stdin) if line["reason"] == "compiler-artifact"]
paths = [line["executable"] for line in built if line["target"]["name"] == sys.argv[1]]
print(next(filter(None, reversed(paths)), ""))' "$name"
}

# pack NAME CARGO_ARGUMENTS...: NAME is a path below target/gpu.
pack() {
    local path bytes glibc target=${1##*/} name=$1
    shift
    path=$(built "$target" "$@")
    [ -x "$path" ] || { echo "cargo built no program named $target" >&2 && exit 1; }
    strip -o "$TO/$name" "$path"
    bytes=$(stat -c %s "$TO/$name")
    glibc=$(objdump -T "$TO/$name" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
    printf '%-12s %6.1f MiB  needs %s\n' "$name" "$(bc -l <<<"$bytes / $MIB")" "$glibc"
    ALL_BYTES=$((ALL_BYTES + bytes))
    ((bytes <= PROGRAM_BYTES_MAX)) || TOO_LARGE="$TOO_LARGE $name"
}

# The program of an older commit, from a copy of the repository that is removed again. What it compiles is kept
# in target/old, so that the next older commit takes less time.
pack_old() {
    local tree
    tree=$(mktemp -d)
    trap "git -C '$ROOT' worktree remove --force '$tree'" EXIT
    git -C "$ROOT" worktree add --quiet --detach "$tree" "$OLD"
    mkdir "$TO/old"
    cd "$tree"
    CARGO_TARGET_DIR=$ROOT/target/old pack old/pipezero build -p pipezero --bin pipezero
    cd "$ROOT"
    git -C "$ROOT" describe --always "$OLD" >"$TO/old/commit"
    [ -z "$PREDICTED_MS" ] || echo "$PREDICTED_MS" >"$TO/old/predicted-ms"
}

# curve RUN_FILE PRECISION BF16: the losses of a run on this CPU.
curve() {
    local to=$TO/curves/$1-$2 began=$SECONDS
    "$TO/pipezero" train "$ROOT/benches/gpu/runs/$1.json" --set device=cpu --set bf16.enabled="$3" \
        --out "$to" --overwrite >"$TO/curves/$1-$2.log" 2>&1 || { tail -5 "$TO/curves/$1-$2.log" >&2 && exit 1; }
    rm "$TO/curves/$1-$2.log"
    find "$to" -mindepth 1 ! -name metrics.jsonl -delete
    echo "losses of $1 in $2 on this CPU: $((SECONDS - began)) s"
}

cd "$ROOT"
mkdir -p "$TO"
rm -rf "${TO:?}"/*
ALL_BYTES=0 TOO_LARGE=
pack pipezero build -p pipezero --bin pipezero
pack it test -p tests --test it --no-run
pack gpu_kernels build -p benches --bench gpu_kernels
[ -z "$OLD" ] || pack_old
python3 -B benches/gpu/agenda.py packed --bin "$TO" >"$TO/packed.json"
echo "commit $(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["commit"])' "$TO/packed.json")${OLD:+, older $(cat "$TO/old/commit")}"

mkdir "$TO/curves"
for name in losses losses-124m; do
    curve $name f32 false
    curve $name bf16 true
done

printf '%-12s %6.1f MiB of at most %s\n' "in all" "$(bc -l <<<"$ALL_BYTES / $MIB")" "$((ALL_BYTES_MAX / MIB))"
[ -z "$TOO_LARGE" ] || { echo "larger than $PROGRAM_BYTES_MAX bytes:$TOO_LARGE" >&2 && exit 1; }
((ALL_BYTES <= ALL_BYTES_MAX)) || { echo "larger than $ALL_BYTES_MAX bytes in all" >&2 && exit 1; }
