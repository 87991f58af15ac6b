# Steps of a part: each with its time limit, its output in the log and its line in the table. For run.sh.

NUM_FAILED=0
# What a step may add to the log. Tools that report errors by the thousand must not hide the other steps.
LOG_BYTES_MAX=600000
STEP_OUTPUT=/dev/null # Of the last step.
SECONDS=0 # bash counts on from here: the part's own time.

# step NAME NEEDS LIMIT COMMAND...
#
# Runs a command for at most LIMIT seconds. It is skipped where less than NEEDS seconds, what it usually
# takes, are left of the part's budget. Returns 0 where it was ok, 2 where it was skipped, else 1. The command
# must be a program, since functions cannot be stopped.
step() {
    local name=$1 needs=$2 limit=$(($3 * LIMIT_FACTOR)) left=$((BUDGET - SECONDS))
    shift 3
    if ((left < needs)); then
        skip "$name" "it takes about $needs s, and $left s are left"
        return 2
    fi
    ((limit <= left)) || limit=$left
    local log_begins begins=${EPOCHREALTIME/./} status result
    log_begins=$(stat -c %s "$LOG")
    printf '\n===== %s: at most %s s: %s\n' "$name" "$limit" "$*" >>"$LOG"
    timeout --kill-after=5 "$limit" "$@" >>"$LOG" 2>&1 </dev/null
    status=$?
    local ms=$(((${EPOCHREALTIME/./} - begins) / 1000))
    printf '===== %s: status %s after %s ms\n' "$name" "$status" "$ms" >>"$LOG"
    case $status in
    0) result=ok ;;
    124 | 137) result="timed out" ;; # After the limit; or killed, by us or because memory ran out.
    *) result=failed ;;
    esac
    shorten_log "$log_begins"
    STEP_OUTPUT=$WORK/output
    tail -c "+$((log_begins + 1))" "$LOG" >"$STEP_OUTPUT"
    row "$name" "$result" "$((ms / 1000)).$((ms % 1000 / 100))" "$(figure "$result" "$status")"
    [ "$result" = ok ]
}

skip() {
    row "$1" skipped 0 "$2"
}

# row NAME RESULT SECONDS FIGURE: one line of the table, at once.
row() {
    case $2 in failed | "timed out") NUM_FAILED=$((NUM_FAILED + 1)) ;; esac
    local figure
    figure=$(printf %s "$4" | tr '\t\n' '  ' | cut -c 1-240)
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$figure" >>"$TABLE"
    printf '%-32s %-9s %6s s  %s\n' "$1" "$2" "$3" "$figure"
}

# What matters of a step's output: the last line that begins with "figure: ", else the last one that FIGURE
# matches, or what tests, training and NVIDIA's sanitizer say at their end; of a step that failed also why.
figure() {
    local found pattern=${FIGURE:-'^(test result: |step [0-9]+/|=+ .* SUMMARY: )'}
    found=$(sed -n 's/^figure: //p' "$STEP_OUTPUT" | tail -1)
    [ -n "$found" ] || found=$(grep -E "$pattern" "$STEP_OUTPUT" | tail -1)
    if [ "$1" = ok ]; then
        printf %s "$found"
    else
        printf 'status %s: %s' "$2" "${found:+$found; }$(complaint)"
    fi
}

# A panic's message, an error of pipezero, which may be wrapped, or else the last line.
complaint() {
    awk '/^(=====|note: |figure: |$)/ { next }
         { last = $0 }
         follows == 1 { print; found = 1; exit }
         / panicked at / { follows = 1 }
         /^error: / { follows = 2 }
         follows == 2 { gsub(/^ +| +$/, ""); text = text $0 " "; if (++lines == 3) exit }
         END { if (!found) print(text != "" ? text : last) }' "$STEP_OUTPUT"
}

# Keeps the beginning and the end of what was written behind a place in the log.
shorten_log() {
    local written=$(($(stat -c %s "$LOG") - $1)) half=$((LOG_BYTES_MAX / 2))
    ((written > LOG_BYTES_MAX)) || return 0
    tail -c "+$(($1 + 1))" "$LOG" >"$WORK/long"
    truncate -s "$1" "$LOG"
    head -c "$half" "$WORK/long" >>"$LOG"
    printf '\n... %s bytes left out ...\n' "$((written - 2 * half))" >>"$LOG"
    tail -c "$half" "$WORK/long" >>"$LOG"
}

# tests NAME NEEDS LIMIT FILTER: the ignored tests of this name in one process, then of several each that was
# not ok in a process of its own. An error of the device stays with a process, so after one failure the others
# of that process mean nothing.
tests() {
    local name=$1 test status=0 names=()
    step "$name" "$2" "$3" "${IT[@]}" "$4" --ignored --test-threads=1 || status=$?
    ((status != 2)) || return
    cp "$STEP_OUTPUT" "$WORK/tests"
    mapfile -t names < <("${IT[@]}" "$4" --ignored --list 2>>"$LOG" | sed -n 's/: test$//p')
    ((${#names[@]} > 1)) || return
    for test in "${names[@]}"; do
        if grep -q "^test $test \.\.\. ok" "$WORK/tests"; then
            row "${test#cuda::on_a_device::}" ok - "in the step $name"
        else
            step "${test#cuda::on_a_device::}, alone" 5 60 "${IT[@]}" "$test" --exact --ignored
        fi
    done
}

# The shortest run that there is. Returns 1 without a device, where every other step would fail alike.
device_is_found() {
    FIGURE='^computing on: ' step "a device is found" 10 60 "${PIPEZERO[@]}" train "$HERE/runs/tiny.json" \
        --set device=cuda --set steps=1 --out "$WORK/first" --overwrite
    ! grep -q '^computing on: ' "$STEP_OUTPUT" || return 0
    echo "no other step was tried: without a device they would fail in the same way"
    return 1
}

summary() {
    local skipped
    skipped=$(grep -c $'\tskipped\t' "$TABLE")
    echo "part $PART: $NUM_FAILED failed, $skipped skipped, $SECONDS s in all; $TABLE"
    awk -F '\t' '$2 == "failed" || $2 == "timed out" { print "  " $2 ": " $1 }' "$TABLE"
}
