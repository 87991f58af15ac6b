"""Lists every key that a training configuration of DeepSpeed may have, read from its sources without running them.

A key is a field of a pydantic model, or it is read from a dictionary one by one: `get_scalar_param(dict, NAME, DEFAULT)`,
`dict.get(NAME, DEFAULT)`, `dict[NAME]`. MODELS, READS and SINGLE say which class and which dictionary stands for which
section of a configuration; names, defaults and lines are the sources'. Models inside models are found by their annotation.
What `DeepSpeedConfig` calls and no table names ends the script, so that a section of a newer revision is not missed.
"""

import argparse
import ast
import json
import sys
from pathlib import Path

# Section -> (file, class) of its model.
MODELS = {
    "bf16": ("runtime/precision_config.py", "DeepSpeedBF16Config"),
    "comet": ("monitor/config.py", "CometConfig"),
    "comms_logger": ("comm/config.py", "CommsLoggerConfig"),
    "compile": ("compile/config.py", "CompileConfig"),
    "csv_monitor": ("monitor/config.py", "CSVConfig"),
    "fp16": ("runtime/precision_config.py", "DeepSpeedFP16Config"),
    "hybrid_engine": ("runtime/config.py", "HybridEngineConfig"),
    "tensor_parallel": ("runtime/tensor_parallel/config.py", "TPTrainingConfig"),
    "tensorboard": ("monitor/config.py", "TensorBoardConfig"),
    "timers.throughput": ("utils/config.py", "DeepSpeedThroughputTimerConfig"),
    "wandb": ("monitor/config.py", "WandbConfig"),
    "zero_optimization": ("runtime/zero/config.py", "DeepSpeedZeroConfig"),
}

# Functions and classes that read keys one by one: (file, their names) -> the section of each dictionary, as it is written.
READS = [
    ("autotuning/config.py", ["DeepSpeedAutotuningConfig"], {"autotuning_dict": "autotuning"}),
    ("autotuning/config.py", ["get_model_info_config"], {"param_dict": "autotuning"}),
    ("datastates/config.py", ["DeepSpeedDataStatesConfig"], {"param_dict": ""}),
    ("elasticity/config.py", ["ElasticityConfig"], {"param_dict": "elasticity"}),
    ("module_inject/auto_ep_config.py", ["parse_autoep_config"], {"param_dict": "expert_parallel"}),
    ("nebula/config.py", ["DeepSpeedNebulaConfig"], {"nebula_dict": "nebula"}),
    ("profiling/config.py", ["DeepSpeedFlopsProfilerConfig"], {"flops_profiler_dict": "flops_profiler"}),
    (
        "runtime/activation_checkpointing/config.py",
        ["DeepSpeedActivationCheckpointingConfig"],
        {"act_chkpt_config_dict": "activation_checkpointing"},
    ),
    (
        "runtime/config.py",
        None,
        {
            "param_dict": "",
            "self._param_dict": "",
            "checkpoint_params": "checkpoint",
            "par_write_params": "checkpoint.parallel_write",
            "data_types_params": "data_types",
            "param_dict[AMP]": "amp",
            "param_dict[EIGENVALUE]": "eigenvalue",
            "param_dict[PROGRESSIVE_LAYER_DROP]": "progressive_layer_drop",
            "param_dict[TORCH_AUTOCAST]": "torch_autocast",
            "param_dict[OPTIMIZER]": "optimizer",
            "param_dict[SCHEDULER]": "scheduler",
        },
    ),
    (
        "runtime/data_pipeline/config.py",
        ["get_data_efficiency_enabled", "get_data_efficiency_seed", "get_curriculum_enabled_legacy"],
        {"param_dict[DATA_EFFICIENCY]": "data_efficiency", "param_dict[CURRICULUM_LEARNING_LEGACY]": "curriculum_learning"},
    ),
    ("runtime/data_pipeline/config.py", ["get_data_sampling", "get_data_routing"], {"param_dict": "data_efficiency"}),
    (
        "runtime/model_checkpointing/config.py",
        ["get_checkpoint_config", "get_checkpoint_writer_config"],
        {"checkpoint_dict": "checkpoint", "writer_dict": "checkpoint.writer"},
    ),
    ("runtime/precision_config.py", ["get_bfloat16_config", "get_float16_config"], {"param_dict": ""}),
    ("runtime/pipe/engine.py", ["PipelineEngine"], {"self._config.pipeline": "pipeline"}),
    ("runtime/swap_tensor/aio_config.py", ["get_aio_config"], {"aio_dict": "aio"}),
    ("runtime/zero/config.py", ["get_zero_config"], {"param_dict": ""}),
]

# Keys whose readers pass the name on: (section, file, constant with the name or the name, constant with the default).
SINGLE = [
    ("", "runtime/config.py", "COMMUNICATION_DATA_TYPE", "COMMUNICATION_DATA_TYPE_DEFAULT"),
    ("", "runtime/config.py", "SEQ_PARALLEL_COMMUNICATION_DATA_TYPE", "SEQ_PARALLEL_COMMUNICATION_DATA_TYPE_DEFAULT"),
    ("", "runtime/config.py", "sequence_parallel_size", None),
    ("", "compression/config.py", "COMPRESSION_TRAINING", None),
    ("optimizer", "runtime/config.py", "LEGACY_FUSION", "LEGACY_FUSION_DEFAULT"),
    ("progressive_layer_drop", "runtime/constants.py", "PLD_THETA", "PLD_THETA_DEFAULT"),
    ("progressive_layer_drop", "runtime/constants.py", "PLD_GAMMA", "PLD_GAMMA_DEFAULT"),
]

# Functions of `runtime/config.py` whose `param_dict` is `sparse_attention`, which is on as soon as it is there.
INSIDE_A_SWITCH = {"get_sparse_attention_mode", "get_sparse_attention_type"}

# A model of inference, which training reads as one key.
NO_READERS = {"WeightQuantConfig"}


class Sources:
    """The files of a checkout, parsed once, with the constants of their modules."""

    def __init__(self, root: Path):
        self.root = root
        self.trees = {}
        self.scopes = {}

    def tree(self, path: str) -> ast.Module:
        if path not in self.trees:
            self.trees[path] = ast.parse((self.root / path).read_text(encoding="utf-8"))
        return self.trees[path]

    def imported(self, path: str, node: ast.ImportFrom):
        """The file of the package that an import names, if it is one: a module, or a folder's `__init__.py`."""
        if node.level:
            folder = Path(path).parents[node.level - 1]
        elif (node.module or "").split(".")[0] == self.root.name:
            folder = Path()
        else:
            return None
        parts = [part for part in (node.module or "").split(".") if part and (node.level or part != self.root.name)]
        stem = folder.joinpath(*parts).as_posix()
        return next((file for file in (f"{stem}.py", f"{stem}/__init__.py") if (self.root / file).is_file()), None)

    def scope(self, path: str) -> dict:
        """Every name at the top of a module: values of constants, and (file, node) of classes."""
        if path in self.scopes:
            return self.scopes[path]
        scope = self.scopes[path] = {}
        for node in self.tree(path).body:
            if isinstance(node, ast.ImportFrom):
                source = self.imported(path, node)
                names = self.scope(source) if source else {}
                for alias in node.names:
                    if alias.name == "*":
                        scope.update(names)
                    elif alias.name in names:
                        scope[alias.asname or alias.name] = names[alias.name]
            elif isinstance(node, ast.ClassDef):
                scope[node.name] = (path, node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        try:
                            scope[target.id] = self.value(node.value, scope)
                        except NotJson:
                            pass
        return scope

    def value(self, node: ast.expr, scope: dict):
        """The value of an expression of constants."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and node.id in scope and not isinstance(scope[node.id], tuple):
            return scope[node.id]
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.value(item, scope) for item in node.elts]
        if isinstance(node, ast.Dict) and all(node.keys):
            return {self.value(key, scope): self.value(item, scope) for key, item in zip(node.keys, node.values)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.value(node.operand, scope)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Pow)):
            left, right = self.value(node.left, scope), self.value(node.right, scope)
            if isinstance(left, (int, float)) and isinstance(right, (int, float)):
                return left * right if isinstance(node.op, ast.Mult) else left**right
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) == ("sys", "maxsize"):
                return 2**63 - 1
            return self.member(scope.get(node.value.id), node.attr)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            # `pp_int` is an integer that prints itself in another way.
            if node.func.id == "pp_int":
                return int(self.value(node.args[0], scope))
            if node.func.id == "list":
                return list(self.value(node.args[0], scope))
        raise NotJson

    def member(self, named, attribute: str):
        """The value of a class's attribute."""
        if isinstance(named, tuple):
            path, declared = named
            for node in declared.body:
                if isinstance(node, ast.Assign) and any(getattr(t, "id", None) == attribute for t in node.targets):
                    return self.value(node.value, self.scope(path))
        raise NotJson


class NotJson(Exception):
    """An expression that is no constant of JSON."""


class Fields:
    """The keys found so far."""

    def __init__(self, sources: Sources):
        self.sources = sources
        self.found = {}

    def add(self, section: str, key: str, default: list, path: str, line: int, names=()):
        """`default` is empty where the key has none, or none that JSON can write. The first place of a key counts, but a
        later one may know its default."""
        entry = self.found.setdefault((section, key), {
            "section": section,
            "key": key,
            "names": sorted(names),
            "default": None,
            "file": f"deepspeed/{path}",
            "line": line,
        })
        if default and entry["default"] is None:
            entry["default"] = default[0]

    def constant(self, node, scope: dict) -> list:
        """The value of an expression, in a list that is empty where it has none."""
        try:
            return [] if node is None else [self.sources.value(node, scope)]
        except NotJson:
            return []

    def model(self, section: str, path: str, declared: ast.ClassDef):
        """The fields of a pydantic model, and of the models that are its fields."""
        scope = self.sources.scope(path)
        for node in declared.body:
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            names, default = [], node.value
            if isinstance(default, ast.Call) and getattr(default.func, "id", None) == "Field":
                given = {keyword.arg: keyword.value for keyword in default.keywords}
                names = self.constant(given.get("alias"), scope)
                factory = given.get("default_factory")
                fallback = factory.body if isinstance(factory, ast.Lambda) else None
                default = default.args[0] if default.args else given.get("default", fallback)
            self.add(section, node.target.id, self.constant(default, scope), path, node.lineno, names)
            for inner in ast.walk(node.annotation):
                named = scope.get(inner.id) if isinstance(inner, ast.Name) else None
                if isinstance(named, tuple) and self.is_model(*named):
                    self.model(f"{section}.{(names or [node.target.id])[0]}", *named)

    def is_model(self, path: str, declared: ast.ClassDef) -> bool:
        """Whether a class is a pydantic model, by its name for the class that it extends."""
        return any(getattr(base, "id", None) == "DeepSpeedConfigModel" for base in declared.bases)

    def reads(self, path: str, readers, sections: dict):
        """The keys that functions and classes read one by one."""
        scope = self.sources.scope(path)
        for body in self.sources.tree(path).body:
            name = getattr(body, "name", None)
            if name in INSIDE_A_SWITCH or (readers is not None and name not in readers):
                continue
            for node in ast.walk(body):
                read = self.read(node)
                if read is None or ast.unparse(read[0]) not in sections:
                    continue
                key = self.constant(read[1], scope)
                if key and isinstance(key[0], str):
                    self.add(sections[ast.unparse(read[0])], key[0], self.constant(read[2], scope), path, node.lineno)

    @staticmethod
    def read(node: ast.AST):
        """Dictionary, name and default, if this expression reads a key."""
        if isinstance(node, ast.Call) and node.args:
            if getattr(node.func, "id", None) in ("get_scalar_param", "get_list_param", "get_dict_param"):
                return node.args[0], node.args[1], node.args[2]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                return node.func.value, node.args[0], (node.args[1:] or [None])[0]
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            return node.value, node.slice, None
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            looked = node.comparators[0]
            is_keys = isinstance(looked, ast.Call) and getattr(looked.func, "attr", None) == "keys"
            return (looked.func.value if is_keys else looked), node.left, None
        return None

    def single(self, section: str, path: str, name: str, default):
        """A key by the constants that name it and its default, at the line of its last use in the file."""
        scope = self.sources.scope(path)
        uses = [
            node.lineno
            for node in ast.walk(self.sources.tree(path))
            if getattr(node, "id", None) == name or getattr(node, "value", None) == name
        ]
        if not uses:
            sys.exit(f"{path} no longer has {name}")
        value = [scope[default]] if default else []
        self.add(section, scope.get(name, name), value, path, max(uses))

    def pipeline(self, path: str = "runtime/config.py"):
        """The defaults of `pipeline`, which are a dictionary in its reader."""
        for node in ast.walk(self.sources.tree(path)):
            if isinstance(node, ast.FunctionDef) and node.name == "get_pipeline_config":
                table = next(inner for inner in ast.walk(node) if isinstance(inner, ast.Dict) and inner.keys)
                for key, value in zip(table.keys, table.values):
                    self.add("pipeline", key.value, self.constant(value, {}), path, key.lineno)

    def entries(self) -> list:
        """The keys, sorted."""
        return sorted(self.found.values(), key=lambda entry: (entry["section"], entry["key"]))


def check_readers(sources: Sources):
    """Ends the script if `DeepSpeedConfig` reads a section with what no table here names."""
    path = "runtime/config.py"
    body = sources.tree(path).body
    declared = next(node for node in body if getattr(node, "name", None) == "DeepSpeedConfig")
    initialize = next(node for node in declared.body if getattr(node, "name", None) == "_initialize_params")
    calls = {node.func.id for node in ast.walk(initialize) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    tables = {file for file, *_ in [*MODELS.values(), *READS]} | {file for _, file, *_ in SINGLE}
    named = {node.name for node in body if isinstance(node, ast.FunctionDef)} | NO_READERS
    for node in body:
        source = sources.imported(path, node) if isinstance(node, ast.ImportFrom) else None
        # A package's `__init__.py` passes on what a file beside it declares.
        if source in tables or (source and source.endswith("__init__.py") and any(
                Path(file).parent == Path(source).parent for file in tables)):
            named.update(alias.name for alias in node.names)
    if calls - named:
        sys.exit(f"{path} calls what no table of this script names: {', '.join(sorted(calls - named))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a folder with DeepSpeed's sources: the one that holds deepspeed/")
    parser.add_argument("revision", help="their revision, which the list names")
    arguments = parser.parse_args()
    sources = Sources((arguments.checkout / "deepspeed").resolve())
    check_readers(sources)
    fields = Fields(sources)
    for section, (path, name) in MODELS.items():
        fields.model(section, *sources.scope(path)[name])
    fields.pipeline()
    for path, readers, sections in READS:
        fields.reads(path, readers, sections)
    for single in SINGLE:
        fields.single(*single)
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in fields.entries())
    print(f'{{\n "revision": {json.dumps(arguments.revision)},\n "fields": [\n{lines}\n ]\n}}')


if __name__ == "__main__":
    main()
