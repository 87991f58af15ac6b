# Part A: does the GPU compute what the CPU computes? For run.sh.

part_a() {
    IT=("${WITH_CUDA[@]}" RUST_BACKTRACE=1 "$BIN/it")
    rm -f "$OUT/A-losses.tsv"
    warp_functions
    tests kernels 30 240 cuda::on_a_device::kernels
    local model
    for model in losses losses-124m; do
        losses $model f32 false 1e-4
        losses $model bf16 true 5e-3
    done
    tests state 20 90 cuda::on_a_device::state
    # A test takes all memory that is free, of which an emulated GPU has little then.
    FAKE_GPU_MEMORY_BYTES=16000000 tests memory 5 30 cuda::on_a_device::memory
    tests training 20 90 cuda::on_a_device::training
    sanitizers
}

# Products and copies of a whole warp, lane by lane. The fake GPU of a rehearsal has only pipezero's kernels,
# so one with the kernels of this test is built.
warp_functions() {
    local command=("${WITH_CUDA[@]}" "$PYTHON" -B "$HERE/warp_functions.py")
    [ -z "$FAKE_GPU" ] || command+=(--fake-gpu "$WORK/warp")
    step "warp functions" 5 30 "${command[@]}"
}

# losses RUN_FILE PRECISION BF16 LIMIT: the same run on the GPU and on the CPU. The CPU's losses, which differ
# between CPUs by rounding at most, were computed by benches/gpu/pack.sh; a rehearsal computes those of its tiny
# run here.
losses() {
    local name=$1 precision=$2 device devices=(cuda) cpu=$BIN/curves/$1-$2
    if [ -n "$FAKE_GPU" ]; then
        devices=(cuda cpu) cpu=$WORK/$name-$precision-cpu
    fi
    for device in "${devices[@]}"; do
        step "$name $precision, $device" 15 80 "${PIPEZERO[@]}" train "$(run_file "$name")" \
            --set device=$device --set bf16.enabled="$3" --set steps="$LOSS_STEPS" \
            --out "$WORK/$name-$precision-$device" --overwrite
    done
    if [ ! -e "$WORK/$name-$precision-cuda/metrics.jsonl" ] || [ ! -e "$cpu/metrics.jsonl" ]; then
        skip "$name $precision, beside" "a run of the two is missing"
        return
    fi
    step "$name $precision, beside" 1 20 "$PYTHON" -B "$HERE/losses.py" --name "$name $precision" --limit "$4" \
        --table "$OUT/A-losses.tsv" "$WORK/$name-$precision-cuda" "$cpu"
}

# A kernel that reads beyond its buffer, two threads that write one place, or a barrier that not every thread
# reaches can still give the right numbers. Much slower than the tests alone, so this comes last.
sanitizers() {
    local sanitizer
    sanitizer=$(tool_path compute-sanitizer)
    if [ -n "$FAKE_GPU" ]; then
        skip sanitizers "they need NVIDIA's driver"
    elif [ -z "$sanitizer" ]; then
        skip sanitizers "there is no compute-sanitizer in PATH or /usr/local/cuda"
    else
        local left=$((BUDGET - SECONDS - 20))
        step sanitizers 60 300 "${WITH_CUDA[@]}" "$PYTHON" -B "$HERE/sanitize.py" --limit $((left < 280 ? left : 280)) \
            "$sanitizer" "$BIN/it" cuda::on_a_device::kernels
    fi
}
