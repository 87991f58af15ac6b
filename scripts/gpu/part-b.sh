# Part B: grids of ranks on the one GPU, what overlaps there, and memory. For run.sh.

part_b() {
    IT=("${WITH_CUDA[@]}" RUST_BACKTRACE=1 PIPEZERO_TESTS=full "$BIN/it")
    tests "training, all grids" 40 150 cuda::on_a_device::training
    traced_grid
    tests "state, all grids" 40 150 cuda::on_a_device::state
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
