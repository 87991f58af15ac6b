"""The experiments of agenda.json: their commands, their keys, and what they need that is not there.

An experiment is an object:

    id, title       a short name, and what it is
    needs_s         seconds that it usually takes: it is not begun with less of the budget left
    limit_s         seconds after which it is ended
    commands        lists of arguments, run one after the other until one fails
    rehearsal       instead of them in a rehearsal (may be left out)
    files           globs of all files that the result depends on, from the repository's root; @NAME stands for those of a group
    versions        libraries whose version it depends on too: cublaslt, nvrtc, nccl, torch (may be left out)
    figure          what is measured
    predicted       its value as it is expected, and why (null where nothing was)
    rule            what is kept, merged or dropped at which value
    gpus            how many GPUs it needs (1 if left out)
    needs           what is missing in this repository, so that it cannot run; null or left out where nothing is
    always          true: it is run each time; what it says of the machine is kept with every line (the anchor)
    stops           true: where it fails, no other experiment is run

Arguments have placeholders:

    {bin} {old}     folder of the programs, and of those of an older commit
    {repo} {gpu} {runs}   the repository, benches/gpu, benches/gpu/runs
    {out}           folder for files that are kept
    {work}          folder that is removed afterwards
    {site}          folder of the Python packages that are installed
    {seconds}       what the experiment may take now, less ten
    {python}        this Python
    {plain_python}  the same, started without the folders of CUDA's libraries for pipezero, as {torch} is: PyTorch brings its own
    {torch} {ncu} {sanitizer}   this Python if it has PyTorch; NVIDIA's tools. In a rehearsal programs that print what was recorded
                    (benches/gpu/recorded)
    {A|B}           A on a GPU, B in a rehearsal
"""

import glob
import hashlib
import json
import os
import re
import sys
import sysconfig

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
RECORDED = os.path.join(HERE, "recorded")
REQUIRED = {"id", "title", "needs_s", "limit_s", "commands", "files", "figure", "predicted", "rule"}
OPTIONAL = {"rehearsal", "versions", "gpus", "needs", "always", "stops"}
TOOLS = ("torch", "ncu", "sanitizer")
# First arguments of commands that are started without the folders of CUDA's libraries.
PLAIN = ("{torch}", "{plain_python}")
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
# What pack.sh says of the programs that it has built.
PACKED = "packed.json"


class AgendaError(Exception):
    """A mistake in agenda.json, or in an argument."""


def read(path):
    """The experiments, in their order."""
    try:
        with open(path, encoding="utf-8") as file:
            agenda = json.load(file)
        found, groups = agenda["experiments"], agenda.get("groups", {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AgendaError(f"{path}: {error!r}; it is JSON with a list `experiments`") from error
    for place, each in enumerate(found):
        name = each.get("id", f"number {place + 1}")
        missing, unknown = REQUIRED - each.keys(), each.keys() - REQUIRED - OPTIONAL
        if missing or unknown:
            raise AgendaError(f"{path}: {name} lacks {sorted(missing)} and has unknown {sorted(unknown)}")
        if not 0 < each["needs_s"] <= each["limit_s"]:
            raise AgendaError(f"{path}: {name}: needs_s is {each['needs_s']}, above 0 and at most limit_s")
        of_groups = [groups.get(name[1:]) if name.startswith("@") else [name] for name in each["files"]]
        if None in of_groups:
            raise AgendaError(f"{path}: {name}: a group of files is none of {sorted(groups)}")
        each["files"] = [pattern for patterns in of_groups for pattern in patterns]
    ids = [each["id"] for each in found]
    if len(set(ids)) < len(ids):
        raise AgendaError(f"{path}: an id stands there twice among {ids}")
    return found


class Places:
    """What placeholders stand for."""

    def __init__(self, programs, old, tools, is_rehearsal):
        self.is_rehearsal = is_rehearsal
        self.values = {
            "bin": programs,
            "old": old,
            "repo": REPO,
            "gpu": HERE,
            "runs": os.path.join(HERE, "runs"),
            "site": sysconfig.get_paths()["purelib"],
            "python": sys.executable,
            "plain_python": sys.executable,
        }
        self.values |= tools
        if is_rehearsal:
            # Its old program is the new one.
            self.values["old"] = programs
            self.values |= {tool: os.path.join(RECORDED, tool) for tool in TOOLS}

    def commands(self, experiment):
        """An experiment's commands as they are written."""
        return self.is_rehearsal and experiment.get("rehearsal") or experiment["commands"]

    def filled(self, argument, more):
        """An argument with its placeholders replaced, the inner ones first."""

        def value(found):
            name = found.group(1)
            if "|" in name:
                return name.split("|")[1 if self.is_rehearsal else 0]
            values = self.values | more
            if name not in values:
                raise AgendaError(f"{{{name}}} is no placeholder: {', '.join(sorted(values))}")
            return values[name]

        while (replaced := PLACEHOLDER.sub(value, argument)) != argument:
            argument = replaced
        return argument

    def expanded(self, experiment, out, work, limit_s):
        more = {"out": out, "work": work, "seconds": str(max(1, int(limit_s) - 10))}
        return [[self.filled(each, more) for each in command] for command in self.commands(experiment)]

    def used(self, experiment):
        """The names of all placeholders."""
        return set(PLACEHOLDER.findall(json.dumps(self.commands(experiment))))

    def is_replayed(self, experiment):
        """Whether a rehearsal prints what was recorded in the place of a tool."""
        return self.is_rehearsal and bool(self.used(experiment) & set(TOOLS))


def contents(experiment, places):
    """The files that an experiment depends on, by their paths, each with the hash of its content."""
    found = {}
    for pattern in experiment["files"]:
        if pattern.startswith("{old}"):
            paths = glob.glob(pattern.replace("{old}", glob.escape(places.values["old"] or "")))
            found |= {"old/" + os.path.basename(path): path for path in paths}
            continue
        paths = glob.glob(os.path.join(glob.escape(REPO), pattern), recursive=True)
        paths = [path for path in paths if os.path.isfile(path) and "__pycache__" not in path]
        if not paths:
            raise AgendaError(f"{experiment['id']}: no file is named {pattern}")
        found |= {os.path.relpath(path, REPO): path for path in paths}
    hashes = {}
    for name, path in sorted(found.items()):
        with open(path, "rb") as file:
            hashes[name] = hashlib.sha256(file.read()).hexdigest()
    return hashes


def key(experiment, places, device, versions):
    """What a result stands for: the same key, the same result, but for the machine's mood."""
    of_versions = {name: versions.get(name) for name in experiment.get("versions", [])}
    parts = [experiment["id"], places.commands(experiment), contents(experiment, places), device, of_versions]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def built(experiment, places):
    """One hash of those files that programs are built from: of all but those of benches/gpu, which are read as they are."""
    of_programs = {
        name: hashed
        for name, hashed in contents(experiment, places).items()
        if not name.startswith(("benches/gpu/", "old/"))
    }
    return hashlib.sha256(json.dumps(of_programs, sort_keys=True).encode()).hexdigest()


def packed(places):
    """What pack.sh has written beside the programs: {} where it did not make them."""
    try:
        with open(os.path.join(places.values["bin"], PACKED), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def missing(experiment, places, num_gpus):
    """Why an experiment cannot run here; None where it can."""
    if experiment.get("needs"):
        return f"needs {experiment['needs']}"
    if num_gpus is not None and experiment.get("gpus", 1) > num_gpus:
        return f"needs {experiment['gpus']} GPUs, and {num_gpus} are here"
    used = places.used(experiment)
    absent = [tool for tool in TOOLS if tool in used and tool not in places.values]
    if absent:
        return f"there is no {', '.join(absent)} here"
    if "old" in used and places.values["old"] is None:
        return "there is no older program: benches/gpu/pack.sh --old COMMIT builds it"
    for command in places.expanded(experiment, "", "", experiment["limit_s"]):
        for argument in command:
            if argument.startswith((places.values["bin"] + "/", f"{places.values['old']}/")):
                if not os.path.exists(argument):
                    return f"there is no {argument}"
    of_pack = packed(places).get("built", {})
    if "bin" in used and of_pack.get(experiment["id"], "") not in ("", built(experiment, places)):
        return "its sources have changed since the programs were built: run benches/gpu/pack.sh again"
    return None
