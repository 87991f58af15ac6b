# Part C: speed, beside PyTorch and beside what is predicted. For run.sh.

part_c() {
    LINES_OF_SPEED=$OUT/C-speed.jsonl
    : >"$LINES_OF_SPEED"
    # PyTorch keeps what it has compiled here, so that the second round compiles nothing.
    export TORCHINDUCTOR_CACHE_DIR=$WORK/inductor TRITON_CACHE_DIR=$WORK/triton
    has_torch=$("$PYTHON" -c 'from importlib.util import find_spec; print(find_spec("torch") is not None)')
    if [ -n "$FAKE_GPU" ]; then
        model tiny tiny 1 6 2
        return
    fi
    model gpt2-124m 124m 1 20 5
    # Fewer steps, since each takes longer and initial weights take half a minute.
    model gpt2-1.3b 1.3b 3 12 4
}

# model RUN_FILE NAME SLOWER STEPS SKIPPED: two rounds in turn, since a GPU's clock falls as it gets warm, and
# all three must have the same. The first SKIPPED of a run's STEPS do not count.
model() {
    local run
    run=$(run_file "$1")
    SIZES=(--steps "$4" --skipped "$5" --lines "$LINES_OF_SPEED")
    speeds "$run" "$2" "$3" "round 1"
    kernels "$2"
    speeds "$run" "$2" "$3" "round 2"
    local speed=("$PYTHON" -B "$HERE/speed.py")
    step "$2, predicted" 1 60 "${speed[@]}" predicted --lines "$LINES_OF_SPEED" "$BIN/pipezero" "$run"
    step "$2, in all" 1 20 "${speed[@]}" table --lines "$LINES_OF_SPEED" "$run"
}

# speeds RUN NAME SLOWER ROUND: one round. What steps need and may take is that of 124 million parameters,
# times SLOWER.
speeds() {
    local how
    step "$2, pipezero, $4" $((20 * $3)) $((50 * $3)) "${WITH_CUDA[@]}" "$PYTHON" -B "$HERE/speed.py" train \
        "${SIZES[@]}" --limit $((45 * $3 * LIMIT_FACTOR)) --out "$WORK/speed" "$BIN/pipezero" "$1"
    for how in eager compile; do
        if [ "$has_torch" = True ]; then
            step "$2, torch $how, $4" $((15 * $3)) $((60 * $3)) "$PYTHON" -B "$HERE/torch_gpt.py" \
                "${SIZES[@]}" --how $how "$1"
        else
            skip "$2, torch $how, $4" "there is no PyTorch in $PYTHON"
        fi
    done
    ! command -v nvidia-smi >>"$LOG" || nvidia-smi --format=csv \
        --query-gpu=clocks.sm,temperature.gpu,power.draw,clocks_event_reasons.active >>"$LOG" 2>&1
}

# kernels MODEL: how long each kernel takes beside the least that its bytes and operations allow.
kernels() {
    if [ -x "$BIN/gpu_kernels" ]; then
        step "$1, kernels" 20 90 "${WITH_CUDA[@]}" "$PYTHON" -B "$HERE/kernels.py" \
            --table "$OUT/C-kernels-$1.csv" "$BIN/gpu_kernels" --model "$1"
    else
        skip "$1, kernels" "there is no gpu_kernels in $BIN"
    fi
}
