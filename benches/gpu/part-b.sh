# Part B: grids of ranks on the one GPU, what overlaps there, and memory. For run.sh.

part_b() {
    IT=("${WITH_CUDA[@]}" RUST_BACKTRACE=1 PIPEZERO_TESTS=full "$BIN/it")
    tests "training, all grids" 40 150 cuda::on_a_device::training
    tests "draws of all features" 20 150 cuda::on_a_device::features
    traced_grid
    tests "state, all grids" 40 150 cuda::on_a_device::state
    nothing_is_left
    over_nccl
}

# Only nvidia-smi sees memory that nobody holds any more.
nothing_is_left() {
    if [ -n "$FAKE_GPU" ]; then
        skip "nothing is left behind" "it needs NVIDIA's driver"
        return
    fi
    step "nothing is left behind" 15 60 "${WITH_CUDA[@]}" "$PYTHON" -B "$HERE/left_behind.py" --out "$WORK/left" \
        "$BIN/pipezero" "$(run_file gpt2-124m)"
}

# Every call with one rank; what needs two GPUs, where there are two.
over_nccl() {
    tests "NCCL, every call, one rank" 5 60 cuda::on_a_device::nccl_calls
    if (($(num_gpus) < 2)); then
        skip "NCCL, 2 processes" "it needs two GPUs"
        return
    fi
    local launch=("${WITH_CUDA[@]}")
    [ -z "$FAKE_GPU" ] || launch+=(FAKE_GPU_DEVICES=2 "FAKE_GPU_HOST=$WORK/host")
    local on_two=("$HERE/runs/tiny.json" --set parallel.data=2 --set train_batch_size=4 --set device=cuda)
    FIGURE='checks in ' step "NCCL, 2 processes, doctor" 60 150 "${launch[@]}" "$BIN/pipezero" launch -n 2 -- doctor \
        "${on_two[@]}" --run-dir "$WORK/doctor-run" --out "$WORK/doctor.txt"
    cp "$WORK/doctor.txt" "$OUT/B-doctor.txt" 2>>"$LOG"
    local name
    for name in threads nccl; do
        local command=(train "${on_two[@]}" --set "comm.backend=$name" --out "$WORK/on-$name" --overwrite)
        [ "$name" = threads ] || command=(launch -n 2 -- "${command[@]}")
        step "2 ranks over $name" 15 60 "${launch[@]}" "$BIN/pipezero" "${command[@]}"
    done
    FIGURE='' step "2 ranks, the same weights" 1 10 cmp "$WORK/on-threads/weights.safetensors" "$WORK/on-nccl/weights.safetensors"
}

# Of this host; a rehearsal emulates two.
num_gpus() {
    if [ -n "$FAKE_GPU" ]; then
        echo 2
    else
        nvidia-smi --list-gpus 2>/dev/null | wc -l
    fi
}

# Four ranks on one GPU. A run with hardly any memory of its own comes first: what the GPU has in use beside
# that run's buffers is the driver's context, the kernels' code and the libraries' buffers.
traced_grid() {
    local memory=("$PYTHON" -B "$HERE/memory.py" --kept "$WORK/beside.json")
    step "memory of a tiny run" 10 60 "${WITH_CUDA[@]}" "${memory[@]}" --is-tiny --out "$WORK/tiny" \
        "$BIN/pipezero" "$HERE/runs/tiny.json" --set steps=2
    step "4 ranks, traced; memory" 40 150 "${WITH_CUDA[@]}" "${memory[@]}" --out "$WORK/grid" \
        "$BIN/pipezero" "$(run_file grid)" --trace
    if [ ! -e "$WORK/grid/trace.json" ]; then
        skip "overlap by events" "there is no trace"
        return
    fi
    step "overlap by events" 2 30 "$PYTHON" -B "$HERE/overlap.py" "$WORK/grid"
    FIGURE='^step  ' step "compare: predicted, measured" 2 60 "$BIN/pipezero" compare "$WORK/grid"
    # A trace of a small run has megabytes, most of them the same words.
    gzip -c "$WORK/grid/trace.json" >"$OUT/B-trace.json.gz" 2>>"$LOG"
    "$BIN/pipezero" compare "$WORK/grid" --json >"$OUT/B-compare.json" 2>>"$LOG"
}
