"""Rules a reader may rely on: the order of imports, sizes, what is never committed."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters import ROOT
from javascript_functions import functions
from tracked import tracked_files
from wgcc.bundle.runtime_js import runtime_modules
from wgcc.ops import OPS

# Lowest first. A part may import parts of lower rows, and earlier parts of the first row.
ROWS = (
    ("lazy_numpy", "paths", "spelling", "errors", "errors_text", "reading"),
    ("tokens",),
    ("syntax", "ir", "kernel"),
    ("ops",),
    ("effort", "evaluate"),
    ("elaborate",),
    ("passes",),
    ("schedule",),
    ("backends",),
    ("bundle",),
    ("access",),
    ("compiler", "importing", "exporting"),
    ("from_onnx", "to_onnx", "to_torch"),
    ("cli",),
)
HEIGHT = {part: height for height, row in enumerate(ROWS) for part in row}
# The same inside wgcc/schedule, in the order of its flow; the compiler alone calls preparation.
SCHEDULE_ROWS = (
    ("kernel",),
    ("codegen",),
    ("dataflow", "limits", "budget"),
    ("raised_limits",),
    ("updates", "multiplied"),
    ("layout",),
    ("copies",),
    ("fuse",),
    ("memory", "exchange"),
    ("expand_loops",),
    ("loop_lives",),
    ("plan_entry", "kernels"),
    ("schedule",),
    ("prepare",),
)
SCHEDULE_HEIGHT = {part: height for height, row in enumerate(SCHEDULE_ROWS) for part in row}
# And inside wgcc/elaborate: what a folder works with comes before it.
ELABORATE_ROWS = (
    ("from_pytorch",),
    ("report",),
    ("work_limits",),
    ("index_ranges",),
    ("tracing",),
    ("operators",),
    ("builtins", "declarations"),
    ("evaluation",),
    ("program",),
    ("elaborate",),
    ("trace_again",),
)
# And inside wgcc/backends/wasm: bytes, text, kernels, the module.
WASM_ROWS = (
    ("encoding",),
    ("wgsl", "barrier"),
    ("kernels",),
    ("panels",),
    ("write_kernel",),
    ("twin",),
)
WASM_HEIGHT = {part: height for height, row in enumerate(WASM_ROWS) for part in row}
ELABORATE_HEIGHT = {part: height for height, row in enumerate(ELABORATE_ROWS) for part in row}
# Third-party packages of the compiler, and the only places that may import them.
ONLY_IN = {
    "lark": r"wgcc/syntax/\w+\.py",
    "jinja2": r"wgcc/schedule/kernels/render\.py",
    "click": r"wgcc/cli(/\w+)?\.py",
    "rich": r"wgcc/cli(/\w+)?\.py",
    "numpy": r"wgcc/lazy_numpy\.py",
    "wgpu": r"never",
    "wasmtime": r"never",
}
AT_MOST_ONE_FILE = ("lark", "jinja2")
MAX_FILE, MAX_FUNCTION = 400, 50
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}


def modules(*folders: str) -> list[str]:
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


COMPILER = modules("wgcc")
EVERYWHERE = [*modules("wgcc", "runtime_py", "tests", "examples"), "dev.py"]


def parse(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"))


def imports(module: str) -> Iterator[str]:
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            yield node.module or ""


def part_of(module_name: str) -> str:
    """`wgcc.ir.graph` -> `ir`."""
    return module_name.split(".")[1] if "." in module_name else ""


@pytest.mark.parametrize("module", COMPILER)
def test_imports_point_down(module: str) -> None:
    own = module.split("/")[1].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return
    assert own in HEIGHT, f"{own} has no place in the order of parts (ROWS in this file)"
    for name in imports(module):
        other = part_of(name) if name.split(".")[0] == "wgcc" else own
        if other in (own, ""):
            continue
        lower = HEIGHT[other] < HEIGHT[own]
        earlier = other in ROWS[0][: ROWS[0].index(own)] if own in ROWS[0] else False
        assert lower or earlier, f"{own} must not import {name}"


@pytest.mark.parametrize("module", [m for m in COMPILER if m.startswith("wgcc/schedule/")])
def test_imports_point_down_inside_the_scheduler(module: str) -> None:
    check_inside("schedule", SCHEDULE_HEIGHT, module)


@pytest.mark.parametrize("module", [m for m in COMPILER if m.startswith("wgcc/elaborate/")])
def test_imports_point_down_inside_the_checker(module: str) -> None:
    check_inside("elaborate", ELABORATE_HEIGHT, module)


@pytest.mark.parametrize("module", [m for m in COMPILER if m.startswith("wgcc/backends/wasm/")])
def test_imports_point_down_inside_the_twin(module: str) -> None:
    check_inside("backends.wasm", WASM_HEIGHT, module)


# Who names a back end: the compiler, what is written to bundles, and commands that show it.
NAMES_BACKENDS = {
    "wgsl": {"wgcc/bundle/kernels.py", "wgcc/cli/kernel_facts.py"},
    "wasm": {"wgcc/bundle/plan.py", "wgcc/cli/kernel_wat.py", "wgcc/compiler.py"},
}


@pytest.mark.parametrize("backend", NAMES_BACKENDS)
def test_few_modules_name_a_back_end(backend: str) -> None:
    inside = f"wgcc/backends/{backend}/"
    naming = {
        module
        for module in COMPILER
        if not module.startswith(inside)
        and any(name.startswith(f"wgcc.backends.{backend}") for name in imports(module))
    }
    assert naming == NAMES_BACKENDS[backend]


def check_inside(part: str, heights: dict[str, int], module: str) -> None:
    depth = len(part.split(".")) + 1
    own = module.split("/")[depth].removesuffix(".py")
    if own == "__init__":
        return
    for name in imports(module):
        if name.startswith(f"wgcc.{part}."):
            other = name.split(".")[depth]
            lower = heights[other] < heights[own]
            assert lower or other == own, f"{module} must not import {name}"


@pytest.mark.parametrize("module", [m for m in COMPILER if not m.startswith("wgcc/ops/")])
def test_no_list_of_ops_outside_the_ops(module: str) -> None:
    """What holds for some ops is a field of `Op`; a table of rules by op is one job's own."""
    for node in ast.walk(parse(module)):
        if isinstance(node, (ast.Set, ast.Tuple, ast.List)):
            texts = {getattr(item, "value", None) for item in node.elts}
            ops = sorted(texts & OPS.keys())
            assert len(ops) < 5, f"{module}:{node.lineno}: {', '.join(ops)}"


def test_names_of_added_state_are_made_and_read_in_one_place() -> None:
    """`opt/…` and `rng/…`: one place in the compiler, one in each runtime."""
    scripts = [path for path in (ROOT / "runtime_js").rglob("*.js")]
    sources = [ROOT / module for module in modules("wgcc", "runtime_py")] + scripts
    literal = re.compile(r"""["'](?:opt|rng)/""")
    found = {
        path.relative_to(ROOT).as_posix()
        for path in sources
        if literal.search(path.read_text(encoding="utf-8"))
    }
    assert found == {
        "runtime_js/draw/start_words.js",
        "runtime_js/files/identity.js",
        "runtime_py/wgcc_runtime/values.py",
        "wgcc/ir/state_names.py",
        # The number of a call site is a constant, named beside the generator's state.
        "wgcc/schedule/prepare/random_sites.py",
    }


@pytest.mark.parametrize("module", COMPILER)
def test_third_party_packages_are_imported_in_one_place(module: str) -> None:
    for name in imports(module):
        allowed = ONLY_IN.get(name.split(".")[0])
        assert allowed is None or re.fullmatch(allowed, module), f"{module} imports {name}"


@pytest.mark.parametrize("package", AT_MOST_ONE_FILE)
def test_one_file_knows(package: str) -> None:
    users = [m for m in COMPILER if any(name.split(".")[0] == package for name in imports(m))]
    assert len(users) <= 1, users


@pytest.mark.parametrize("module", modules("runtime_py"))
def test_runtime_stands_alone(module: str) -> None:
    for name in imports(module):
        assert name.split(".")[0] != "wgcc", f"{module} imports the compiler ({name})"
        assert name.split(".")[0] not in ("lark", "jinja2", "click"), f"{module} imports {name}"


@pytest.mark.parametrize("module", ["wgcc.compiler", "wgcc.cli"])
def test_importing_the_compiler_loads_nothing_slow(module: str) -> None:
    heavy = ["numpy", "wgpu", "safetensors", *(["lark", "jinja2"] if module == "wgcc.cli" else [])]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    path = [str(ROOT), str(ROOT / "runtime_py")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path}; {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr or done.stdout


@pytest.mark.parametrize("module", EVERYWHERE)
def test_size(module: str) -> None:
    lines = (ROOT / module).read_text(encoding="utf-8").count("\n")
    assert lines <= MAX_FILE, f"{module} has {lines} lines"
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION, f"{module}: {node.name} has {length} lines"


@pytest.mark.parametrize("module", EVERYWHERE)
def test_module_says_what_it_owns(module: str) -> None:
    assert ast.get_docstring(parse(module)) or not parse(module).body, f"{module}: no docstring"
    vague = VAGUE_NAMES & set(Path(module).stem.split("_"))
    assert not vague, f"{module}: {vague} says nothing of what is inside"


# ---- JavaScript

JAVASCRIPT = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("runtime_js", "examples", "tests/bench", "tests/tint", "tests/web")
    for path in (ROOT / folder).rglob("*.*js")
    if "/bundle/" not in path.relative_to(ROOT / folder).as_posix()
)
RUNTIME_MODULES = sorted(runtime_modules())
# Which folders of runtime_js a folder may import. What is loaded on demand is another matter.
MAY_IMPORT = {
    "core": (),
    "check": ("core",),
    "files": ("core",),
    "fit": ("core",),
    "draw": ("core", "files"),
    "inspect": ("core", "check", "draw", "files"),
    "calls": ("core",),
    "worker": ("core",),
    "serve": ("core", "worker"),
    "data": ("core", "files"),
    "wasm": ("core",),
    "tokens": ("core",),
}
# Ways to write JavaScript for size, which a minifier does better.
WRITTEN_FOR_SIZE = {
    r"^(?:const|let) \{[^}]*\} = (?:Object|Number|Math|Array)\b": "gives a built-in another name",
    r"\bdtype\[0\]|/\.test\([\w.]*(?:dtype|role|init|kind)\b": "guesses at a word of the plan",
}


@pytest.mark.parametrize("module", JAVASCRIPT)
def test_javascript_size(module: str) -> None:
    text = (ROOT / module).read_text(encoding="utf-8")
    assert text.count("\n") <= MAX_FILE, f"{module} has {text.count(chr(10))} lines"
    for name, length in functions(text):
        assert length <= MAX_FUNCTION, f"{module}: {name} has {length} lines"


@pytest.mark.parametrize("module", JAVASCRIPT)
def test_javascript_says_what_it_owns(module: str) -> None:
    text = (ROOT / module).read_text(encoding="utf-8")
    assert text.startswith("//") or "/app/" in module, f"{module}: no comment says what it owns"
    vague = VAGUE_NAMES & set(Path(module).stem.split("_"))
    assert not vague, f"{module}: {vague} says nothing of what is inside"


@pytest.mark.parametrize("module", [m for m in JAVASCRIPT if not m.startswith("tests/")])
def test_javascript_is_written_for_readers(module: str) -> None:
    text = (ROOT / module).read_text(encoding="utf-8")
    for pattern, why in WRITTEN_FOR_SIZE.items():
        found = re.search(pattern, text, re.MULTILINE)
        assert not found, f"{module} {why}: {found and found[0]}"


def test_all_javascript_is_linted() -> None:
    settings = json.loads((ROOT / ".biome.json").read_text(encoding="utf-8"))
    globs = [
        re.escape(glob).replace(r"\*\*/", "(?:.*/)?") for glob in settings["files"]["includes"]
    ]
    linted = re.compile("|".join(glob.replace(r"\*", "[^/]*") for glob in globs))
    assert [module for module in JAVASCRIPT if not linted.fullmatch(module)] == []


@pytest.mark.parametrize("module", RUNTIME_MODULES)
def test_javascript_imports_point_down(module: str) -> None:
    folder = module.partition("/")[0]
    text = (ROOT / "runtime_js" / module).read_text(encoding="utf-8")
    for other in re.findall(r"^(?:import|export) .*?from '\.\./(\w+)/", text, re.M | re.S):
        assert other in MAY_IMPORT[folder], f"{module} must not import {other}"
    dynamic = re.findall(r"\bimport\('([^']+)'\)", text)
    assert not dynamic or module == "core/parts.js", f"{module} loads {dynamic} by itself"


def test_javascript_functions_are_found() -> None:
    """What the tests above measure with: a method, an arrow in it, a function."""
    text = """class A {
  async #run(jobs) {
    jobs.forEach(job => {
      if (job) {
        job();
      }
    });
  }
}
function add(
  one,
  { other },
) {
  return one + other;
}
"""
    assert [length for _, length in functions(text)] == [7, 5, 6]


def test_nothing_of_one_machine_is_committed() -> None:
    # Written in pieces, so that this file does not find itself.
    hosts = ["pypi" + ".org", "python" + "hosted.org", "npm" + "js.org", "deb." + "debian.org"]
    places = ["/" + place for place in ("work/", "root/", "home/\\w", "opt/venv", "Users/\\w")]
    forbidden = re.compile("|".join([*map(re.escape, hosts), *(r"(?<![\w.])" + p for p in places)]))
    for path in tracked_files():
        data = path.read_bytes()
        if b"\0" in data[:8192]:
            continue
        found = forbidden.search(data.decode("utf-8", errors="replace"))
        assert not found, f"{path.relative_to(ROOT)} holds {found and found.group()}"


def test_only_known_folders_at_the_top() -> None:
    tops = {path.relative_to(ROOT).parts[0] for path in tracked_files()}
    folders = {"grammar", "wgcc", "runtime_js", "runtime_py", "examples", "tests", ".ci", ".github"}
    pages = {"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    files = {"pyproject.toml", "dev.py", "LICENSE", *pages}
    dotfiles = {
        ".biome.json",
        ".editorconfig",
        ".gitattributes",
        ".gitignore",
        ".pre-commit-config.yaml",
    }
    assert tops <= folders | files | dotfiles, sorted(tops - folders - files - dotfiles)
