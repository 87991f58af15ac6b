#!/usr/bin/env bash
# What is to be learned on a machine with one GPU, in three parts of less than ten minutes each.
#
# Nothing is built here: `benches/gpu/pack.sh` has put the programs into target/gpu before. So that no time
# with the GPU goes into these scripts, each part runs on the fake CUDA libraries too: see
# `--rehearse`.

set -u
export LC_ALL=C # Decimal points in times and figures.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
PYTHON=${PYTHON:-python3}

usage() {
    cat <<'TEXT'
usage: benches/gpu/run.sh A|B|C [--bin DIR] [--out DIR] [--budget SECONDS] [--seed N] [--rehearse FAKE_GPU_DIR]

  A  correctness: functions of a warp, kernels, losses beside the CPU's, state, grids, NVIDIA's sanitizer
  B  grids and memory: all grids, what overlaps on four ranks, planned memory beside that of the GPU
  C  speed: beside PyTorch in turn, kernel by kernel, and beside what `pipezero simulate` predicts

  --bin DIR       the folder of pipezero, it and gpu_kernels, which benches/gpu/pack.sh writes
                  [default: target/gpu]
  --out DIR       where results go [default: the environment variable OUT, else target/gpu-results]
  --budget S      seconds for the part: a step that would not fit any more is skipped and named
                  [default: 540; 3600 in a rehearsal]
  --seed N        of the shapes, numbers and grids that tests draw [default: another one in each run]
  --rehearse DIR  run on the fake CUDA libraries in DIR, with tiny models; steps get more time

The environment variable PYTHON names the Python to use [default: python3]. Part C needs PyTorch in it.

Results, written as they come, here for part A:
  A.tsv  a line per step: its name; ok, failed, timed out or skipped; seconds; the figure that matters,
         or why it was skipped
  A.log  the environment, and all that every step printed
Part A also writes A-losses.tsv, part B B-trace.json.gz and B-compare.json, part C C-speed.jsonl and
C-kernels-MODEL.csv. docs/gpu-day.md says what they mean.

Exit status: 0 if no step failed, 1 if one failed or took too long, 2 if an argument is wrong.

Examples:
  benches/gpu/run.sh A
  tests/fake_gpu/build.sh target/fake-gpu models/src/queue/cuda/kernels
  benches/gpu/run.sh C --rehearse target/fake-gpu
TEXT
}

wrong() {
    echo "$1; see benches/gpu/run.sh --help" >&2
    exit 2
}

read_arguments() {
    PART= BIN=$ROOT/target/gpu OUT=${OUT:-$ROOT/target/gpu-results} BUDGET= SEED=$(date +%s) FAKE_GPU=
    while (($# > 0)); do
        case $1 in
        -h | --help) usage && exit 0 ;;
        A | B | C) [ -z "$PART" ] || wrong "two parts were asked for, $PART and $1: run one at a time" ;;
        --bin | --out | --budget | --seed | --rehearse) [ $# -ge 2 ] || wrong "$1 needs a value" ;;
        *) wrong "$1 is no part and no option" ;;
        esac
        case $1 in
        --bin) BIN=$2 && shift ;;
        --out) OUT=$2 && shift ;;
        --budget) BUDGET=$2 && shift ;;
        --seed) SEED=$2 && shift ;;
        --rehearse) FAKE_GPU=$2 && shift ;;
        *) PART=$1 ;;
        esac
        shift
    done
    [ -n "$PART" ] || wrong "no part: A, B or C"
    [[ ${BUDGET:-1} =~ ^[1-9][0-9]*$ ]] || wrong "--budget $BUDGET: it takes a whole number of seconds"
    [[ $SEED =~ ^[0-9]+$ ]] || wrong "--seed $SEED: it takes a whole number"
    [ -z "$FAKE_GPU" ] || [ -e "$FAKE_GPU/libcuda.so" ] || wrong "no fake_gpu: $FAKE_GPU/libcuda.so"
    [ -x "$BIN/pipezero" ] && [ -x "$BIN/it" ] || wrong "no programs pipezero and it in $BIN (--bin)"
    mkdir -p "$OUT" || wrong "no folder for results: $OUT"
    BIN=$(cd "$BIN" && pwd) OUT=$(cd "$OUT" && pwd)
}

# A rehearsal has other sizes and more time for a step; everything else is the same.
set_up() {
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
    LOG=$OUT/$PART.log TABLE=$OUT/$PART.tsv
    printf 'step\tresult\tseconds\tfigure\n' >"$TABLE"
    : >"$LOG"
    if [ -n "$FAKE_GPU" ]; then
        FAKE_GPU=$(cd "$FAKE_GPU" && pwd)
        BUDGET=${BUDGET:-3600} LIMIT_FACTOR=5 LOSS_STEPS=22
    else
        BUDGET=${BUDGET:-540} LIMIT_FACTOR=1 LOSS_STEPS=50
    fi
}

# The run file of this name, or a tiny one of the same kind in a rehearsal.
run_file() {
    case $FAKE_GPU:$1 in
    :*) echo "$HERE/runs/$1.json" ;;
    *:grid) echo "$HERE/runs/tiny-grid.json" ;;
    *) echo "$HERE/runs/tiny.json" ;;
    esac
}

# How programs are started that look for CUDA's libraries. PyTorch brings its own and is started without this.
find_libraries() {
    local folders
    if [ -n "$FAKE_GPU" ]; then
        folders=$FAKE_GPU
    else
        folders=$("$PYTHON" -B "$HERE/libraries.py" "$WORK/libraries" 2>>"$LOG")
    fi
    # Compiled kernels are kept by the driver and by pipezero for the part's next steps, whatever the home
    # folder is.
    folders+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    WITH_CUDA=(env "LD_LIBRARY_PATH=$folders" "CUDA_CACHE_PATH=$WORK/jit" "PIPEZERO_CACHE=$WORK/kernels"
        "PIPEZERO_SEED=$SEED")
    [ -z "$FAKE_GPU" ] || WITH_CUDA+=(FAKE_GPU_SEED=1)
    PIPEZERO=("${WITH_CUDA[@]}" "$BIN/pipezero")
}

environment() {
    local query=name,driver_version,memory.total,memory.used,clocks.max.sm,power.limit,mig.mode.current
    echo "part $PART, budget $BUDGET s, seed $SEED${FAKE_GPU:+, REHEARSAL on $FAKE_GPU}, $(date -u '+%F %T') UTC"
    uname -srm && ldd --version | head -1 && lscpu | grep -E 'Model name|^CPU\(s\)'
    free -g | head -2 && df -h "$WORK" | tail -1
    if command -v nvidia-smi; then
        nvidia-smi && nvidia-smi "--query-gpu=$query" --format=csv
    else
        echo "no nvidia-smi"
    fi
    for tool in nvcc compute-sanitizer; do
        tool=$(tool_path $tool) && "$tool" --version
    done
    "$PYTHON" --version
    "$PYTHON" -B - <<'TEXT'
from importlib.metadata import distributions
for each in sorted(distributions(), key=lambda each: str(each.metadata["Name"])):
    if str(each.metadata["Name"]).startswith(("torch", "triton", "numpy", "nvidia-")):
        print(each.metadata["Name"], each.version)
TEXT
    "$BIN/pipezero" --version && find "$BIN" -maxdepth 1 -type f -exec sha256sum {} +
    git -C "$ROOT" log -1 --oneline
    echo "programs that compute on the GPU are started with: ${WITH_CUDA[*]}"
}

# NVIDIA's tools are often not in PATH.
tool_path() {
    PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer command -v "$1"
}

main() {
    read_arguments "$@"
    set_up
    . "$HERE/steps.sh"
    . "$HERE/part-${PART,}.sh"
    find_libraries
    environment >>"$LOG" 2>&1
    echo "part $PART, at most $BUDGET s, tests draw from --seed $SEED; details in $LOG"
    device_is_found && "part_${PART,}"
    summary
    ((NUM_FAILED == 0))
}

main "$@"
