# Part A: does the GPU compute what the CPU computes? For run.sh.

part_a() {
    IT=("${WITH_CUDA[@]}" RUST_BACKTRACE=1 "$BIN/it")
    rm -f "$OUT/A-losses.tsv"
    warp_functions
    tests kernels 30 240 cuda::on_a_device::kernels
    losses f32 false 1e-4
    losses bf16 true 1e-2
    tests state 20 90 cuda::on_a_device::state
    # A test takes all memory that is free, of which an imitated GPU has little then.
    IMITATION_MEMORY_BYTES=16000000 tests memory 5 30 cuda::on_a_device::memory
    tests training 20 90 cuda::on_a_device::training
    sanitizers
}

# Products and copies of a whole warp, lane by lane. The imitation of a rehearsal has only pipezero's kernels,
# so one with the kernels of this test is built.
warp_functions() {
    local command=("${WITH_CUDA[@]}" "$PYTHON" -B "$HERE/warp_functions.py")
    [ -z "$IMITATION" ] || command+=(--imitation "$WORK/warp")
    step "warp functions" 5 30 "${command[@]}"
}

# losses PRECISION BF16 LIMIT: the same run file on the GPU and on the CPU.
losses() {
    local precision=$1 device
    for device in cuda cpu; do
        step "losses $precision, $device" 15 80 "${PIPEZERO[@]}" train "$(run_file losses)" \
            --set device=$device --set bf16.enabled="$2" --set steps="$LOSS_STEPS" \
            --out "$WORK/$precision-$device" --overwrite
    done
    if [ ! -e "$WORK/$precision-cuda/metrics.jsonl" ] || [ ! -e "$WORK/$precision-cpu/metrics.jsonl" ]; then
        skip "losses $precision, beside" "a run of the two is missing"
        return
    fi
    step "losses $precision, beside" 1 20 "$PYTHON" -B "$HERE/losses.py" --name "$precision" --limit "$3" \
        --table "$OUT/A-losses.tsv" "$WORK/$precision-cuda" "$WORK/$precision-cpu"
}

# Several times as slow as the tests alone, so they come last. A kernel that reads beyond its buffer, two
# threads that write one place, or a barrier that not every thread reaches can still give the right numbers.
sanitizers() {
    local sanitizer tool # NVIDIA's program, and the one of its tools.
    sanitizer=$(tool_path compute-sanitizer)
    for tool in memcheck racecheck synccheck; do
        if [ -n "$IMITATION" ]; then
            skip $tool "it needs NVIDIA's driver"
        elif [ -z "$sanitizer" ]; then
            skip $tool "there is no compute-sanitizer in PATH or /usr/local/cuda"
        else
            step $tool 40 150 "${WITH_CUDA[@]}" "$sanitizer" --tool $tool --error-exitcode 9 \
                --print-limit 20 "$BIN/it" cuda::on_a_device::kernels --ignored --test-threads=1
        fi
    done
}
