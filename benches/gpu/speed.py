"""How fast pipezero trains, beside PyTorch and beside its own prediction. For part C of run.sh.

    python3 benches/gpu/speed.py train --out DIR --lines FILE PIPEZERO RUN.json measures pipezero
    python3 benches/gpu/torch_gpt.py --lines FILE RUN.json                      measures PyTorch
    python3 benches/gpu/speed.py predicted --lines FILE PIPEZERO RUN.json       asks `pipezero simulate`
    python3 benches/gpu/speed.py table --lines FILE RUN.json                    puts them beside each other

FILE gets a line of JSON for each measurement. Steps are compared by their median, the first ones left out. A step of pipezero is
timed between two marks in its queue (`step_s`); `wall_s`, which the run measures too, is the time from the end of one step to that of the
next, as PyTorch's are timed.
Floating-point operations are counted alike for all (`flops_of_a_step`), so the shares of the peak can be
compared.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

# Of an H100 SXM in bf16 without sparsity, by NVIDIA's data sheet.
PEAK = 989.4e12


def read_run(path, settings=()):
    """A run file without `extends`, with `KEY.PATH=VALUE` as `pipezero train --set` takes them; `null` removes a key."""
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    for setting in settings:
        names, _, text = setting.partition("=")
        *folders, name = names.split(".")
        inside = run
        for folder in folders:
            inside = inside.setdefault(folder, {})
        try:
            inside[name] = json.loads(text)
        except ValueError:
            inside[name] = text
        if inside[name] is None:
            del inside[name]
    return run


def weights_of_a_layer(model):
    """Elements of its matrices."""
    width = model["hidden_size"]
    if model["family"] == "gpt2":
        return 12 * width * width
    # Llama: queries and the projection; keys and values; gate, up and down.
    heads = model["num_attention_heads"]
    of_keys = model.get("num_query_groups", heads) * (width // heads)
    return 2 * width * width + 2 * width * of_keys + 3 * width * model["ffn_hidden_size"]


def flops_of_a_step(run):
    """As `pipezero` and PaLM (arXiv:2204.02311, appendix B) count: attention's masked half is included."""
    model = run["model"]
    layers, width, seq = model["num_layers"], model["hidden_size"], model["seq_length"]
    weights = layers * weights_of_a_layer(model) + model.get("vocab_size", 256) * width
    return (6 * weights + 12 * layers * seq * width) * seq * run["train_batch_size"]


def measured(run_path, what, step_s, skipped, more, settings=()):
    """A line: the median of the steps that count, and what follows from it."""
    run = read_run(run_path, settings)
    counted = step_s[skipped:] or step_s[-1:]
    median = statistics.median(counted)
    return {
        "model": os.path.basename(run_path).removesuffix(".json"),
        "what": what,
        "step_s": median,
        "shortest_s": min(counted),
        "longest_s": max(counted),
        "num_steps": len(counted),
        "tokens_per_s": run["train_batch_size"] * run["model"]["seq_length"] / median,
        "mfu": flops_of_a_step(run) / median / PEAK,
        **more,
    }


def figures_of(line):
    """What the ledger keeps of a line."""
    found = {"step_ms": round(line["step_s"] * 1e3, 2), "tokens_per_s": round(line["tokens_per_s"])}
    found |= {"mfu": round(line["mfu"], 4), "num_steps": line["num_steps"]}
    if line.get("wall_s"):
        found["wall_ms"] = round(line["wall_s"] * 1e3, 2)
        found["between_steps_ms"] = round(line["between_steps_s"] * 1e3, 2)
    if line.get("peak_bytes"):
        found["peak_gib"] = round(line["peak_bytes"] / 2**30, 2)
    return {f"{line['model']}, {line['what']}": found}


def write(line, path):
    print(json.dumps(line))
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    print(f"figures: {json.dumps(figures_of(line))}")
    print(
        f"figure: {line['model']}, {line['what']}: step {line['step_s'] * 1e3:.1f} ms, "
        f"{line['tokens_per_s']:,.0f} tokens/s, MFU {line['mfu']:.2%} ({line['num_steps']} steps)"
    )


def steps_in(folder):
    """The steps that a run has written so far; its last line may not be whole yet."""
    try:
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            whole = [json.loads(line) for line in file if line.endswith("\n")]
    except OSError:
        return []
    return [line for line in whole if "step_s" in line]


def wall_s(steps):
    """Seconds from the end of one step to that of the next, whatever happens between; None of a program that does not say so."""
    found = [line["wall_s"] for line in steps if line.get("wall_s") is not None]
    return statistics.fmean(found) if found else None


def train(arguments):
    """Ends the run once its steps are measured: evaluating and writing gigabytes of weights come next."""
    begins = time.monotonic()
    shutil.rmtree(arguments.out, ignore_errors=True)
    settings = ["device=cuda", f"steps={arguments.steps}", *arguments.set]
    command = [arguments.pipezero, "train", arguments.run, "--out", arguments.out]
    running = subprocess.Popen(command + [each for setting in settings for each in ("--set", setting)])
    first_s = None
    while running.poll() is None and time.monotonic() - begins < arguments.limit:
        steps = steps_in(arguments.out)
        first_s = first_s or (time.monotonic() - begins if steps else None)
        if len(steps) >= arguments.steps:
            break
        time.sleep(0.1)
    first_s = first_s or time.monotonic() - begins
    is_ours = running.poll() is None
    if is_ours:
        running.kill()
    status = running.wait()
    steps = steps_in(arguments.out)
    shutil.rmtree(arguments.out, ignore_errors=True)
    if not steps:
        sys.exit(f"no step was measured in {time.monotonic() - begins:.0f} s, status {status}")
    # What the run itself says of its speed: operations a second by its own formula, to be held against the
    # one above.
    more = {"own_tflops": steps[-1]["tflops"], "loss": steps[-1]["loss"], "seconds_to_first_step": first_s}
    seconds = [line["step_s"] for line in steps]
    more["wall_s"] = wall_s(steps[arguments.skipped :])
    if more["wall_s"] is not None:
        more["between_steps_s"] = more["wall_s"] - statistics.fmean(seconds[arguments.skipped :])
    line = measured(arguments.run, arguments.what, seconds, arguments.skipped, more, arguments.set)
    own_flops = steps[-1]["tflops"] * 1e12 * steps[-1]["step_s"]
    print(
        f"operations of a step: {own_flops:.4e} by the run, "
        f"{flops_of_a_step(read_run(arguments.run, arguments.set)):.4e} here"
    )
    print(f"first step done after {first_s:.1f} s")
    write(line, arguments.lines)
    sys.exit(0 if is_ours or status == 0 else 1)


def predicted(arguments):
    command = [arguments.pipezero, "simulate", arguments.run, "--set", "device=cuda", "--device", "h100"]
    found = json.loads(
        subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    )
    line = measured(arguments.run, "predicted", [found["step_s"]], 0, {"costs": found["costs"]})
    of_run = [each["step_s"] for each in lines_of(arguments) if each["what"] == "pipezero"]
    write(line, arguments.lines)
    if of_run:
        print(
            f"figure: predicted {line['step_s'] * 1e3:.1f} ms, measured {min(of_run) * 1e3:.1f} ms: "
            f"{min(of_run) / line['step_s']:.2f} times as long"
        )


def lines_of(arguments):
    """The measurements of this model."""
    name = os.path.basename(arguments.run).removesuffix(".json")
    with open(arguments.lines, encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["model"] == name]


def table(arguments):
    """The faster of the rounds, since what disturbs a round makes it slower."""
    best = {}
    print(f"{'':15}   step, ms  tokens/s     MFU  sequences at once")
    for line in lines_of(arguments):
        at_once = line.get("micro_batch", "")
        figures = f"{line['step_s'] * 1e3:10.1f} {line['tokens_per_s']:9.0f} {line['mfu']:7.2%}  {at_once}"
        print(f"{line['what']:15} {figures}")
        best[line["what"]] = min(line["step_s"], best.get(line["what"], float("inf")))
    own = best.pop("pipezero", None)
    if own is None or len(best) == 0:
        sys.exit("pipezero and what it is compared with were not both measured")
    others = (f"{seconds / own:.2f} x {what}" for what, seconds in best.items())
    print(f"figure: speed of pipezero: {', '.join(others)}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for function in (train, predicted, table):
        command = commands.add_parser(function.__name__)
        command.set_defaults(function=function)
        command.add_argument(
            "--lines", help="where the line of JSON is added", required=function is not train
        )
        if function is train:
            command.add_argument("--out", required=True, help="a folder for the run, removed afterwards")
            command.add_argument("--what", default="pipezero", help="its name in the line [pipezero]")
            command.add_argument("--set", action="append", default=[], help="KEY.PATH=VALUE, as for pipezero")
            command.add_argument("--steps", type=int, default=20)
            command.add_argument("--skipped", type=int, default=5, help="first steps that do not count")
            command.add_argument(
                "--limit", type=float, default=120, help="seconds after which the steps so far count"
            )
        if function is not table:
            command.add_argument("pipezero")
        command.add_argument("run")
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
