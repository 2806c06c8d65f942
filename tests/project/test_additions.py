"""What CONTRIBUTING says about additions: files are written into a copy of the sources and used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from adapters import ROOT, running_on
from web_stacks import run_node

ACTIVATION = '''"""bent(x) = x + √(x² + 1)."""

import math

from wgcc.lazy_numpy import np
from wgcc.ops.formula import unary

OPS = (
    # dx = g (1 + x / √(x² + 1)), which is g y / √(x² + 1)
    unary(
        "bent",
        "({0} + sqrt({0} * {0} + 1.0))",
        lambda x: x + np.sqrt(x * x + 1),
        lambda g, x, y: g * y / (x.square() + 1).apply("sqrt"),
        number=lambda x: x + math.sqrt(x * x + 1),
    ),
)
'''
OPTIMIZER = '''"""sign_update(p*n, g*n, lr, scale) -> p*n: steps along the signs of the gradient."""

from wgcc.lazy_numpy import np
from wgcc.ops.optimizers.kind import list_samples, optimizer_op
from wgcc.ops.optimizers.kind import OptimizerKind, UpdateCall
from wgcc.ops.registry import UpdateForm

FORM = UpdateForm(("p", "g"), ("lr",), ("p",), "p = p - lr * sign(g);")
PLAIN = {"decay": "none", "clip_value": None, "gated": False}
OPS = (
    optimizer_op(
        "sign_update",
        lambda attrs: FORM,
        lambda values, attrs: {"p": values["p"] - values["lr"] * np.sign(values["g"])},
        list_samples(2, 1, [PLAIN]),
    ),
)


def rule(inputs):
    return UpdateCall("sign_update", [], [inputs.lr], {})


OPTIMIZERS = (OptimizerKind("sign", {"lr": 1e-3, "weight_decay": 0.0}, "decoupled", rule),)
'''
COMMAND = '''"""`wgcc size`: how many characters a program has."""

from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
def command(file: Path) -> None:
    """Print the size of FILE."""
    print(len(file.read_text()))
'''
# A kernel family: an op, what writes its launches, and the page of its kernel.
FAMILY = {
    "wgcc/ops/turned.py": '''"""turned(x): all elements, the last one first."""

from wgcc.lazy_numpy import np
from wgcc.ops.registry import Op, Sample, Special

OPS = (
    Op(
        "turned",
        lambda x: x,
        lambda x: np.flip(x).copy(),
        Special("turned"),
        grad=lambda b, node, gs: [b.apply("turned", gs[0])],
        samples=[Sample([(3, 50)])],
        number=lambda x: x,
    ),
)
''',
    "wgcc/schedule/kernels/turned.py": '''"""One thread moves each element."""

from wgcc.ir.index import coordinates_of, variable
from wgcc.kernel.tree import Name
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.bindings import thread_index
from wgcc.schedule.kernel import grid_of


def turned_code(group, context):
    (x,), y = group.roots[0].inputs, group.roots[0].output
    emitter = Emitter(context.inlined, context.bindings())
    at = coordinates_of(variable("i", x.type.size), x.shape)
    functions = emitter.reader("take(i: u32) -> f32", x, at)
    functions += emitter.function("put(i: u32, x: f32)", emitter.store(y, at, Name("x")))
    grid = grid_of(-(-x.type.size // 64))
    launch = context.launch(
        "turned",
        emitter,
        constants={"SIZE": x.type.size, "WORKGROUP": 64},
        functions=functions,
        holes={"INDEX": thread_index(grid, 64)},
        workgroup=(64, 1, 1),
        grid=grid,
    )
    return context.code(launch)
''',
    "wgcc/schedule/kernels/templates/turned.wgsl.jinja": """// One thread per element.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = INDEX;
  if (o >= SIZE) { return; }
  put(o, take(SIZE - 1u - o));
}
""",
}
WRITERS = "wgcc/schedule/write_kernels.py"
WRITER_LINES = {
    "\nWriter = ": "\nfrom wgcc.schedule.kernels.turned import turned_code\n",
    '    "update": update_code,\n': '    "turned": turned_code,\n',
}
TURNED = """
model Turned {
  param w: f32[5, 7] ~ uniform(-1.0, 1.0)
  optimizer opt: sgd { lr = 0.1 }
  entry train(t: f32[5, 7]) -> (loss: f32) {
    loss = mse(turned(w), t)
    minimize loss with opt
    return loss
  }
}
"""
BACKEND = '''"""Kernels as the list of what they bind."""

from collections.abc import Sequence

from wgcc.kernel.tree import Module


def print_file(module: Module, name: str, notes: Sequence[str] = ()) -> str:
    bound = [variable for variable in module.variables.values() if variable.slot]
    return "\\n".join([f"{name} binds", *(f"  {v.name}: {v.kind}" for v in bound)])
'''
MODEL = """
model Net {
  a: Linear[3, 4]
  optimizer opt: sign { lr = 0.01 }
  entry train(x: f32[8, 3], t: f32[8, 4]) -> (loss: f32) {
    loss = mse(bent(a(x)), t)
    minimize loss with opt
    return loss
  }
}
test "bent" { assert abs(sum(bent(0.75 * ones(f32[2]))) - 4.0) < 1e-6 }
"""
# Files that list element types -> what an addition replaces in them.
DTYPE = {
    "wgcc/ir/dtypes.py": {
        '    ElementType("i8",': """    ElementType("i16", INTEGER, "int16", "i32", "<i4",
          "I32", "Int32Array", -(2**15), 2**15 - 1, 5, ("short", "int16")),
    ElementType("i8","""
    },
    "grammar/wg.lark": {"|u32|i8|": "|u32|i16|i8|"},
    "runtime_py/wgcc_runtime/plan.schema.json": {'"u32", "i8", ': '"u32", "i16", "i8", '},
    "runtime_py/wgcc_runtime/plan.py": {'("i32", "u32", "i8", ': '("i32", "u32", "i16", "i8", '},
    "runtime_py/wgcc_runtime/arrays.py": {
        '"i8": "<i1"': '"i16": "<i4", "i8": "<i1"',
        '"i8": np.int8': '"i16": np.int16, "i8": np.int8',
        '"i8": (': '"i16": (-(2**15), 2**15 - 1),\n    "i8": (',
    },
}
COUNTS = """
model Counts {
  state total: i16[4] = 0
  entry add(x: i16[4]) -> (sum: i16[4], mean: f32) {
    total := total + x * x
    return (total + x * x, mean(f32(total)))
  }
}
test "products wrap around at 16 bits" {
  x = 300 * ones(i16[2])
  assert i32(min(x * x)) == 300 * 300 - 65536
}
"""
CLASSES = """
model Net {
  a: Linear[2, 2]
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[4, 2], y: i32[4]) -> (loss: f32) {
    loss = cross_entropy(a(x), y)
    minimize loss with opt
    return loss
  }
}
"""
# A format of tables: the function that reads it, and its line in the list, in each language.
JSON_LINES = {
    "runtime_py/wgcc_runtime/data/read.py": (
        "# By the end of a file's name;",
        """def read_json_lines(text: str, source: Source) -> JsonTable | dict[str, Array]:
    return read_json(f"[{','.join(text.split(chr(10)))}]", source)


""",
        '    ".jsonl": read_json_lines,\n',
    ),
    "runtime_js/data/read.js": (
        "/**\n * What makes a table,",
        """async function readJsonLines(chunks, source) {
  return readJson(() => [`[${[...chunks()].join('').split('\\n')}]`], source);
}

""",
        "  '.jsonl': readJsonLines,\n",
    ),
}
MODELS = ROOT / "tests" / "data_cases" / "models"
ROWS = [{"a": 0.5, "b": 1.5, "kind": "x"}, {"a": 2.5, "b": 0.25, "kind": "y"}] * 4
OPERATOR = '"Erf": "erf({0})",'


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_sources(tmp_path_factory.mktemp("additions"), "wgcc", "runtime_js", "runtime_py")


def copy_sources(folder: Path, *changed: str) -> Path:
    """Copies of the folders that an addition changes, beside links to the others."""
    for name in ("wgcc", "grammar", "runtime_js", "runtime_py", "examples"):
        if name in changed:
            shutil.copytree(ROOT / name, folder / name)
        else:
            (folder / name).symlink_to(ROOT / name)
    return folder


def wgcc(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(checkout), str(checkout / "runtime_py")])
    environment = {**os.environ, **running_on("wasm"), "PYTHONPATH": path}
    command = [sys.executable, "-m", "wgcc", *arguments]
    return subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )


def test_an_activation_and_an_optimizer_are_a_file_each(checkout: Path) -> None:
    """The self-test of the bundle compares a training step with the references in numpy."""
    (checkout / "wgcc" / "ops" / "bent.py").write_text(ACTIVATION, encoding="utf-8")
    (checkout / "wgcc" / "ops" / "optimizers" / "sign.py").write_text(OPTIMIZER, encoding="utf-8")
    (checkout / "model.wg").write_text(MODEL, encoding="utf-8")
    for command in (["check", "model.wg"], ["build", "model.wg", "-o", "b"], ["verify", "b"]):
        done = wgcc(checkout, *command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "sign(" in (checkout / "b" / "kernels" / "sign_update.wgsl").read_text(encoding="utf-8")


def test_a_kernel_family_is_an_op_a_writer_and_a_page(checkout: Path) -> None:
    """The self-test of the bundle trains through it, on every machine."""
    for name, text in FAMILY.items():
        (checkout / name).write_text(text, encoding="utf-8")
    text = (checkout / WRITERS).read_text(encoding="utf-8")
    for before, line in WRITER_LINES.items():
        assert text.count(before) == 1
        text = text.replace(before, line + before)
    (checkout / WRITERS).write_text(text, encoding="utf-8")
    (checkout / "turned.wg").write_text(TURNED, encoding="utf-8")
    for command in (["build", "turned.wg", "-o", "turned"], ["verify", "turned"]):
        done = wgcc(checkout, *command)
        assert done.returncode == 0, done.stdout + done.stderr
    kernels = [path.read_text() for path in (checkout / "turned" / "kernels").glob("*.wgsl")]
    assert any("put(o, take(SIZE - 1u - o));" in kernel for kernel in kernels)


def test_a_back_end_is_a_folder(checkout: Path) -> None:
    (checkout / "wgcc" / "backends" / "bound").mkdir()
    (checkout / "wgcc" / "backends" / "bound" / "print_tree.py").write_text(BACKEND)
    bundle = ROOT / "tests" / "golden" / "attention"
    done = wgcc(checkout, "show", str(bundle), "--kernel", "d_q", "--as", "bound")
    assert done.stdout == "d_q binds\n  x0: array<f32, 40>\n  y0: array<f32, 40>\n"


def test_a_command_is_a_file(checkout: Path) -> None:
    (checkout / "wgcc" / "cli" / "commands" / "size.py").write_text(COMMAND, encoding="utf-8")
    (checkout / "five.wg").write_text("12345", encoding="utf-8")
    assert wgcc(checkout, "size", "five.wg").stdout == "5\n"
    assert "Print the size of FILE." in wgcc(checkout, "--help").stdout


def test_an_element_type_is_a_row_and_its_name_in_lists(tmp_path: Path) -> None:
    """Numbers of 16 bits: checked, wrapped in kernels and in numpy, stored, given by callers."""
    checkout = copy_sources(tmp_path, "wgcc", "grammar", "runtime_py")
    for name, changes in DTYPE.items():
        text = (checkout / name).read_text(encoding="utf-8")
        for old, new in changes.items():
            assert text.count(old) == 1, (name, old)
            text = text.replace(old, new)
        (checkout / name).write_text(text, encoding="utf-8")
    (checkout / "counts.wg").write_text(COUNTS, encoding="utf-8")
    for command in (["check", "counts.wg"], ["build", "counts.wg", "-o", "b"], ["verify", "b"]):
        done = wgcc(checkout, *command)
        assert done.returncode == 0, done.stdout + done.stderr
    (kernel,) = (checkout / "b" / "kernels").glob("*.wgsl")
    assert ", 0u, 16u)" in kernel.read_text(encoding="utf-8")


def test_an_onnx_operator_is_a_line_or_a_function(checkout: Path) -> None:
    """An operator that is there is taken away and added again."""
    x, y = (make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy")
    graph = make_graph([make_node("Erf", ["x"], ["y"])], "one", [x], [y])
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", 18)]), checkout / "one.onnx")
    rules = checkout / "wgcc" / "from_onnx" / "rules" / "elementwise.py"
    text = rules.read_text(encoding="utf-8")
    assert text.count(OPERATOR) == 1
    rules.write_text(text.replace(OPERATOR, ""), encoding="utf-8")
    done = wgcc(checkout, "import", "one.onnx", "-o", "imported")
    assert done.returncode != 0 and "Erf" in done.stdout + done.stderr
    rules.write_text(text, encoding="utf-8")
    done = wgcc(checkout, "import", "one.onnx", "-o", "imported")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "erf(" in (checkout / "imported" / "model.wg").read_text(encoding="utf-8")


def test_a_data_format_is_a_function_and_a_line_in_each_language(checkout: Path) -> None:
    for name, (before, function, line) in JSON_LINES.items():
        text = (checkout / name).read_text(encoding="utf-8")
        head, mark, rest = text.partition(before)
        first = next(row for row in rest.splitlines(keepends=True) if ".json" in row)
        assert mark and rest.count(first) == 1
        new = head + function + mark + rest.replace(first, first + line)
        (checkout / name).write_text(new, encoding="utf-8")
    rows = "\n".join(map(json.dumps, ROWS))
    (checkout / "rows.jsonl").write_text(rows, encoding="utf-8")
    (checkout / "classes.wg").write_text(CLASSES, encoding="utf-8")
    done = wgcc(checkout, "build", "classes.wg", "-o", "classes", "--data", "rows.jsonl", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    stored = (checkout / "classes" / "data.safetensors").read_bytes()
    assert b'"classes":["x","y"]' in stored.replace(b"\\", b"")
    (checkout / "tests" / "web").mkdir(parents=True)
    script = shutil.copy(ROOT / "tests" / "web" / "data_cases.mjs", checkout / "tests" / "web")
    asked = {"source": "rows.jsonl", "model": str(MODELS / "class3.json"), "options": {}}
    (found,) = run_node(script, str(checkout), data=[asked])
    assert found["arrays"]["x"] == [[row["a"], row["b"]] for row in ROWS], found
