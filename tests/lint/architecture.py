"""Rules for Python: the order of imports, sizes, docstrings; every function is used."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from lint.tree import Problem, Tree
from wgcc.ops import OPS

Rows = Sequence[Sequence[str]]

# Lowest first. A part may import parts of lower rows, and earlier parts of the first row.
ROWS = (
    ("small_arrays", "lazy_numpy", "spelling", "errors", "files"),
    ("tokens",),
    ("syntax", "ir", "kernel"),
    ("live_settings",),
    ("ops",),
    ("evaluate",),
    ("elaborate",),
    ("passes",),
    ("schedule",),
    ("backends",),
    ("bundle",),
    ("access",),
    ("isa",),
    ("compiler", "importing", "exporting"),
    ("from_gguf", "from_onnx", "to_onnx", "to_torch"),
    ("compile_error",),
    ("in_memory",),
    ("sklearn",),
    ("language_service",),
    ("workbench",),
    ("cell_magic",),
    ("cli",),
)
# The same inside wgcc/schedule, in the order of its flow.
SCHEDULE_ROWS = (
    ("kernel",),
    ("codegen",),
    ("limits",),
    ("fuse",),
    ("memory",),
    ("expand_loops",),
    ("entry_plan",),
    ("kernels",),
    ("write_kernels",),
    ("steps",),
    ("schedule", "keep_limits"),
)
# And inside wgcc/elaborate: what a folder works with comes before it.
ELABORATE_ROWS = (
    ("from_pytorch",),
    ("report",),
    ("index_ranges",),
    ("tracing",),
    ("operators",),
    ("builtins", "declarations"),
    ("evaluation",),
    ("program",),
    ("elaborate",),
)
# And inside wgcc/backends/wasm: bytes, text, kernels, the module.
WASM_ROWS = (
    ("encoding",),
    ("wgsl",),
    ("kernels",),
    ("panels",),
    ("write_kernel",),
    ("blas_products", "checked_step"),
    ("twin",),
)
INSIDE = {
    "wgcc/schedule": SCHEDULE_ROWS,
    "wgcc/elaborate": ELABORATE_ROWS,
    "wgcc/backends/wasm": WASM_ROWS,
}
# Who names a back end: the compiler, what is written to bundles, and commands that show it.
NAMES_BACKENDS = {
    "wgsl": r"wgcc/(bundle/kernels|bundle/prove|cli/commands/show/kernel_facts)\.py",
    "cuda": r"wgcc/isa/nvidia/compile\.py",
    "wasm": r"wgcc/(bundle/plan|cli/commands/show/subject|compiler)\.py",
}
# Third-party packages of the compiler, and the only places that may import them.
ONLY_IN = {
    "lark": r"wgcc/syntax/\w+\.py",
    "jinja2": r"wgcc/(schedule/kernels/context|from_gguf/write)\.py",
    "click": r"wgcc/cli(/\w+)*\.py",
    "rich": r"wgcc/cli(/\w+)*\.py",
    "pygls": r"wgcc/cli/commands/lsp/\w+\.py",
    "lsprotocol": r"wgcc/cli/commands/lsp/\w+\.py",
    "numpy": r"wgcc/lazy_numpy\.py",
    # A process of its own, which other modules do not import.
    "wgpu": r"wgcc/isa/spirv/naga\.py",
    "wasmtime": r"never",
}
AT_MOST_ONE_FILE = ("lark",)
MAX_FILE, MAX_FUNCTION = 400, 50
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
# Called by Python, the standard library, click, wasmtime or marimo.
CALLED_FROM_OUTSIDE = re.compile(r"__\w+__|do_[A-Z]+|log_message|get_command|_as_extern|_display_")


def everywhere(tree: Tree) -> list[str]:
    files = tree.python("wgcc", "runtime_py", "tests", "examples")
    return [*files, *(["dev.py"] if "dev.py" in tree.files else [])]


def heights(rows: Rows) -> dict[str, int]:
    return {part: height for height, row in enumerate(rows) for part in row}


def imports_point_down(tree: Tree) -> Iterator[Problem]:
    height = heights(ROWS)
    for module in tree.python("wgcc"):
        own = module.split("/")[1].removesuffix(".py")
        if own in ("__init__", "__main__"):
            continue
        if own not in height:
            yield Problem(module, 1, f"{own} has no place in the order of parts (ROWS)")
            continue
        for line, name in tree.imports(module):
            if not name:
                yield Problem(module, line, "relative import")
            other = name.split(".")[1] if name.startswith("wgcc.") else own
            earlier = own in ROWS[0] and other in ROWS[0][: ROWS[0].index(own)]
            if other != own and height.get(other, len(ROWS)) >= height[own] and not earlier:
                yield Problem(module, line, f"{own} must not import {name}")


def imports_point_down_inside_parts(tree: Tree) -> Iterator[Problem]:
    for folder, rows in INSIDE.items():
        height, prefix = heights(rows), folder.replace("/", ".") + "."
        for module in tree.python(folder):
            own = module.removeprefix(f"{folder}/").split("/")[0].removesuffix(".py")
            if own == "__init__":
                continue
            if own not in height:
                yield Problem(module, 1, f"{own} has no place in the order of {folder}")
                continue
            for line, name in tree.imports(module):
                other = name.removeprefix(prefix).split(".")[0] if name.startswith(prefix) else own
                if other != own and height.get(other, len(rows)) >= height[own]:
                    yield Problem(module, line, f"{own} must not import {name}")


def few_modules_name_a_back_end(tree: Tree) -> Iterator[Problem]:
    for backend, allowed in NAMES_BACKENDS.items():
        for module in tree.python("wgcc"):
            if module.startswith(f"wgcc/backends/{backend}/") or re.fullmatch(allowed, module):
                continue
            for line, name in tree.imports(module):
                if name.startswith(f"wgcc.backends.{backend}"):
                    yield Problem(module, line, f"only {allowed} may import {name}")


def no_list_of_ops_outside_the_ops(tree: Tree) -> Iterator[Problem]:
    """What holds for some ops is a field of `Op`; a table of rules by op is one job's own."""
    for module in tree.python("wgcc"):
        if module.startswith("wgcc/ops/"):
            continue
        for node in tree.syntax(module):
            if isinstance(node, (ast.Set, ast.Tuple, ast.List)):
                texts = {getattr(item, "value", None) for item in node.elts}
                ops = sorted(texts & OPS.keys())
                if len(ops) >= 5:
                    yield Problem(module, node.lineno, f"a list of ops: {', '.join(ops)}")


def third_party_packages_are_imported_in_one_place(tree: Tree) -> Iterator[Problem]:
    users: dict[str, list[tuple[str, int]]] = {package: [] for package in ONLY_IN}
    for module in tree.python("wgcc"):
        for line, name in tree.imports(module):
            package = name.split(".")[0]
            if package not in ONLY_IN:
                continue
            users[package].append((module, line))
            if not re.fullmatch(ONLY_IN[package], module):
                yield Problem(module, line, f"imports {name}")
    for package in AT_MOST_ONE_FILE:
        first = users[package][:1]
        for module, line in users[package]:
            if module != first[0][0]:
                yield Problem(module, line, f"imports {package}, as {first[0][0]} does")


def runtime_stands_alone(tree: Tree) -> Iterator[Problem]:
    for module in tree.python("runtime_py"):
        for line, name in tree.imports(module):
            if not name or name.split(".")[0] in ("wgcc", "lark", "jinja2", "click"):
                yield Problem(module, line, f"the runtime imports {name or 'relatively'}")


def sizes(tree: Tree) -> Iterator[Problem]:
    for module in everywhere(tree):
        lines = tree.text(module).count("\n")
        if lines > MAX_FILE:
            yield Problem(module, lines, f"the file has {lines} lines")
        for node in tree.syntax(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION:
                    yield Problem(module, node.lineno, f"{node.name} has {length} lines")


def modules_say_what_they_own(tree: Tree) -> Iterator[Problem]:
    for module in everywhere(tree):
        syntax = tree.syntax(module)[0]
        assert isinstance(syntax, ast.Module)
        if syntax.body and not ast.get_docstring(syntax):
            yield Problem(module, 1, "no docstring says what the module owns")
        yield from vague_name(module)


def vague_name(module: str) -> Iterator[Problem]:
    for word in sorted(VAGUE_NAMES & set(PurePosixPath(module).stem.split("_"))):
        yield Problem(module, 1, f"the name {word!r} says nothing of what is inside")


def every_function_is_used(tree: Tree) -> Iterator[Problem]:
    """By its name, which occurs somewhere besides its definition."""
    sources = [name for name in tree.files if is_code(name)]
    words = Counter(word for name in sources for word in re.findall(r"\w+", tree.text(name)))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for module in tree.python("wgcc", "runtime_py"):
        defined = (node for node in tree.syntax(module) if isinstance(node, kinds))
        for node in defined:
            if words[node.name] == 1 and not CALLED_FROM_OUTSIDE.fullmatch(node.name):
                yield Problem(module, node.lineno, f"{node.name} is never used")


def is_code(name: str) -> bool:
    return name.endswith((".py", ".jinja", ".toml")) or name == "runtime_py/README.md"
