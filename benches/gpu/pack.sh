#!/usr/bin/env bash
# Builds what benches/gpu/run.sh needs on a machine without Rust, and says how large it is.

set -eu

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TO=$ROOT/target/gpu
# What can be carried: each program, and all of them.
PROGRAM_BYTES_MAX=$((40 * 1000 * 1000))
ALL_BYTES_MAX=$((64 * 1024 * 1024))
MIB=$((1024 * 1024))

case ${1:-} in
'') ;;
*)
    cat <<'TEXT'
usage: benches/gpu/pack.sh

Builds pipezero, the program of the integration tests (it) and the measurement of kernels (gpu_kernels),
optimised, and writes them to target/gpu without symbols. Then trains what part A compares with the GPU's
losses on this CPU, which takes some minutes, and writes the losses to target/gpu/curves. Carry that folder
and the repository to the machine with the GPU, and run benches/gpu/run.sh there. The programs need Linux on
x86-64 with the glibc that is printed, or a newer one; CUDA's libraries are looked for when a program starts.

Exit status: 0 if everything was written and is small enough to be carried, else 1.
TEXT
    case $1 in -h | --help) exit 0 ;; *) exit 2 ;; esac
    ;;
esac

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

# pack NAME CARGO_ARGUMENTS...
pack() {
    local path bytes glibc
    path=$(built "$@")
    [ -x "$path" ] || { echo "cargo built no program named $1" >&2 && exit 1; }
    strip -o "$TO/$1" "$path"
    bytes=$(stat -c %s "$TO/$1")
    glibc=$(objdump -T "$TO/$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
    printf '%-12s %6.1f MiB  needs %s\n' "$1" "$(bc -l <<<"$bytes / $MIB")" "$glibc"
    ALL_BYTES=$((ALL_BYTES + bytes))
    ((bytes <= PROGRAM_BYTES_MAX)) || TOO_LARGE="$TOO_LARGE $1"
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

mkdir "$TO/curves"
for name in losses losses-124m; do
    curve $name f32 false
    curve $name bf16 true
done

printf '%-12s %6.1f MiB of at most %s\n' "in all" "$(bc -l <<<"$ALL_BYTES / $MIB")" "$((ALL_BYTES_MAX / MIB))"
[ -z "$TOO_LARGE" ] || { echo "larger than $PROGRAM_BYTES_MAX bytes:$TOO_LARGE" >&2 && exit 1; }
((ALL_BYTES <= ALL_BYTES_MAX)) || { echo "larger than $ALL_BYTES_MAX bytes in all" >&2 && exit 1; }
