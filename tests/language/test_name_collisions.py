"""Names that could collide: with other inputs and outputs, wgcc's own tensors, JavaScript."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from cli_runs import run
from web_stacks import NODE, build_web, run_job
from wgcc.compiler import compile_file
from wgcc.errors import WgError
from wgcc_runtime.history import Report

# Inputs and outputs with names that wgcc uses, used or could use for its own tensors.
POOL = (
    "x", "x_out", "x_out_out", "x_in", "out", "opt", "rng", "seed", "guard", "flag", "constants",
    "params", "grads", "temp0", "scalars", "d", "d_x", "copy", "main", "select", "array", "vec4f",
    "step_out", "toString", "valueOf", "hasOwnProperty", "w_2", "exp_avg", "kernels", "plan",
)  # fmt: skip


def write_model(folder: Path, text: str) -> Path:
    source = folder / "model.wg"
    source.write_text(text)
    return source


def test_an_output_beside_an_input_that_looks_like_its_key(tmp_path: Path) -> None:
    source = write_model(
        tmp_path,
        "model M { entry f(x: f32[2], x_out: f32[2]) -> (x: f32[2]) {\n"
        "  y = x + x_out * 10.0; return y } }",
    )
    bundle = build(source, tmp_path / "bundle")
    with wgcc_runtime.load(bundle, device="llvmpipe", verify=True) as model:
        found = model.call("f", x=np.float32([1, 2]), x_out=np.float32([3, 4]))
    assert found["x"].tolist() == [31, 42]


@pytest.mark.parametrize("case", range(12))
def test_ports_of_any_names(case: int, tmp_path: Path) -> None:
    """Two entries: outputs have the names of inputs of the same entry and of the other."""
    draw = random.Random(case)
    names = draw.sample(POOL, 9)
    first, second, w, s, optimizer = names[:5]
    a, b, c, d = names[5:]
    source = write_model(
        tmp_path,
        f"""model M {{
  param {w}: f32[3] = 2.0
  state {s}: f32[3] = 0.0
  optimizer {optimizer}: adam {{ lr = 0.0 }}
  entry {first}({a}: f32[3], {b}: f32[3], {c}: f32) -> ({b}: f32[3], {a}: f32[3], {d}: f32) {{
    {s} := {s} + {b}
    loss = sum({a} * {w}) * {c}
    minimize loss with {optimizer}
    return {a} * {w}, {b} + 100.0, loss
  }}
  entry {second}({b}: f32[3], {d}: f32) -> ({d}: f32[3], {a}: f32[3], {b}: f32) {{
    return {b} * {d}, {s}, {d} + 1.0
  }}
}}""",
    )
    bundle = build(source, tmp_path / "bundle")
    plan = json.loads((bundle / "plan.json").read_text())
    assert len({buffer["name"] for buffer in plan["buffers"]}) == len(plan["buffers"])
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 7])
    with wgcc_runtime.load(bundle, device="llvmpipe", verify=True) as model:
        one = model.call(first, **{a: x, b: y, c: np.float32(0.5)})
        two = model.call(second, **{b: x, d: np.float32(3)})
    assert [one[b].tolist(), one[a].tolist(), one[d]] == [[2, 4, 6], [104, 105, 107], 6]
    assert [two[d].tolist(), two[a].tolist(), two[b]] == [[3, 6, 9], [4, 5, 7], 4]


GENERATOR = """model M {
  param w: f32[64] = 1.0
  optimizer opt: sgd { lr = 0.5 }
  entry rng(seed: f32[64], step: f32) -> (step: f32, seed: f32[64]) {
    kept = dropout(seed * w, 0.5)
    minimize sum(kept) * step with opt
    return sum(kept), kept
  }
}"""


def test_an_entry_called_like_the_random_generator(tmp_path: Path) -> None:
    """`rng/seed` and `rng/step` are state; the ports of the entry are tensors beside them."""
    bundle = build(write_model(tmp_path, GENERATOR), tmp_path / "bundle")
    data = {"seed": np.ones(64, np.float32), "step": np.float32(1)}
    with wgcc_runtime.load(bundle, device="llvmpipe", verify=True) as model:
        assert set(model.state()) == {"opt/opt/step", "rng/seed", "rng/step"}
        first, second = model.call("rng", **data)["seed"], model.call("rng", **data)["seed"]
        assert int(model.state()["rng/step"]) == 2
        model.reset(seed=5)
        assert int(model.state()["rng/seed"]) == 5
        model.save(tmp_path / "w.safetensors")
        model.load(tmp_path / "w.safetensors")
    assert set(np.unique(first)) == {0, 2} and (first != second).any()


def test_reports_keep_their_own_keys_separate(tmp_path: Path) -> None:
    """A log of an entry with an output `step` can be resumed; nothing is lost in it."""
    outputs = {"step": 7.0, "ms": 8.0, "loss": 9.0, "eval_loss": 10.0, "out_step": 11.0}
    found = Report(3, 9.0, outputs, {"loss": 12.0}, 0.5).as_json()
    assert len(found) == 2 + len(outputs) + 1
    facts = {"step": 3, "ms": 0.5, "loss": 9.0, "eval_loss": 12.0, "out_step": 7.0}
    assert found | facts == found


# In JavaScript every object has members of these names.
INHERITED = """model M {
  param toString: f32[4] = 1.0
  param valueOf: f32[4] ~ normal(0.0, 1.0)
  state hasOwnProperty: i32 = 0
  optimizer isPrototypeOf: adam { lr = 0.1; ema = 0.5 }
  entry propertyIsEnumerable(toLocaleString: f32[4], __defineGetter__: i32[2])
      -> (__lookupGetter__: f32) {
    hasOwnProperty := hasOwnProperty + 1
    l = sum(toLocaleString * valueOf * toString) + sum(f32(__defineGetter__))
    minimize l with isPrototypeOf
    return l
  }
}"""


def test_names_that_every_object_of_javascript_has(tmp_path: Path) -> None:
    """Loaded, verified, trained, saved, restored and reset as in Python."""
    bundle = build_web(write_model(tmp_path, INHERITED), tmp_path / "bundle")
    entry = "propertyIsEnumerable"
    data = {"toLocaleString": np.float32([1, 2, 3, 4]), "__defineGetter__": np.int32([5, 300])}
    with wgcc_runtime.load(bundle, device="SwiftShader", verify=True) as model:
        losses = [float(model.call(entry, **data)["__lookupGetter__"]) for _ in range(3)]
        model.reset(seed=9)
        drawn = model.params()["valueOf"]
    found = run_job("node", bundle, "inherited")
    assert found["losses"] == pytest.approx(losses, rel=1e-5)
    assert found["fitted"] == pytest.approx(losses, rel=1e-5)
    assert found["restored"] == pytest.approx(losses[2], rel=1e-5)
    assert found["steps"] == [3, 3, 2] and found["missing"] == "name"
    assert found["drawn"] == pytest.approx(drawn.tolist())


def test_every_key_of_a_plan_may_be_long(tmp_path: Path) -> None:
    """Names of the greatest length, alone, as paths and as moments of an optimizer."""
    e, p, o, l1, w = (letter * 127 for letter in "epolw")
    source = write_model(
        tmp_path,
        f"""model M {{
  {l1}: Linear[2, 2]
  param {w}: f32[2] = 1.0
  optimizer {o}: adam {{ lr = 0.1 }}
  entry {e}({p}: f32[1, 2]) -> ({p}: f32) {{
    loss = sum({l1}({p}) * {w})
    minimize loss with {o}
    return loss
  }}
}}""",
    )
    with wgcc_runtime.load(build(source, tmp_path / "b"), device="llvmpipe", verify=True) as model:
        assert model.call(e, **{p: np.float32([[1, 2]])})[p].shape == ()


def test_a_parameter_cannot_be_the_metadata_of_its_file(tmp_path: Path) -> None:
    source = write_model(
        tmp_path,
        "model M { param __metadata__: f32[4] = 1.0\n"
        "  entry f() -> (y: f32[4]) = __metadata__ * 2.0 }",
    )
    with pytest.raises(WgError) as caught:
        compile_file(source)
    assert [item.code for item in caught.value.diagnostics] == ["WG0607"]


@pytest.mark.parametrize("name", ["plan.json", "index.js", "README.md", "kernels", "a\nb.wg"])
def test_a_source_cannot_replace_another_file_of_the_bundle(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, bundle = tmp_path / name, tmp_path / "bundle"
    path.write_text("model M { entry f(x: f32[2]) -> (y: f32[2]) = x }")
    for command in (["check", str(path)], ["build", str(path), "-o", str(bundle)]):
        code, _, error = run(capsys, *command)
        assert code == 1
        assert "call it NAME.wg" in error
    assert not bundle.exists()


def test_outputs_of_any_name_go_into_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`file` and `allow_pickle` are arguments of numpy's own function."""
    source = write_model(
        tmp_path,
        "model M { entry f(x: f32[2]) -> (file: f32[2], allow_pickle: f32[2], args: f32[2]) =\n"
        "  (x, x * 2.0, x * 3.0) }",
    )
    bundle = build(source, tmp_path / "b")
    np.save(tmp_path / "x.npy", np.float32([1, 2]))
    files = ["-i", str(tmp_path / "x.npy"), "-o", str(tmp_path / "y.npz")]
    code, _, error = run(capsys, "run", str(bundle), "f", *files, "--device", "llvmpipe")
    assert code == 0, error
    with np.load(tmp_path / "y.npz") as found:
        numbers = {name: found[name].tolist() for name in found.files}
    assert numbers == {"file": [1, 2], "allow_pickle": [2, 4], "args": [3, 6]}


@pytest.mark.parametrize(
    "model", ["Promise", "Record", "string", "any", "class", "load", "meta", "Loaded", "_", "In"]
)
def test_types_of_a_model_of_any_name(model: str, tmp_path: Path) -> None:
    """index.d.ts compiles, and the entry `new` is a method."""
    source = write_model(tmp_path, f"model {model} {{ entry new(x: f32[2]) -> (y: f32[2]) = x }}")
    bundle = build_web(source, tmp_path / "bundle")
    assert json.loads((bundle / "package.json").read_text())["name"]
    (tmp_path / "use.ts").write_text(
        "import { load } from './bundle/index.js';\n"
        "const model = await load();\n"
        "export const y: Float32Array = (await model.new({ x: new Float32Array(2) })).y;\n"
    )
    options: dict[str, Any] = {
        "strict": True, "noEmit": True, "target": "es2022", "module": "esnext",
        "moduleResolution": "bundler", "lib": ["es2022", "esnext.asynciterable", "dom"],
        "types": [],
    }  # fmt: skip
    config = {"compilerOptions": options, "files": ["use.ts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    compiler = NODE / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        ["node", str(compiler), "--project", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_text_of_an_entry_whose_inputs_are_called_like_arguments(tmp_path: Path) -> None:
    source = write_model(
        tmp_path,
        'model M { vocab = "abcd"\n'
        "  entry decode(id: i32, prompt: f32, count: f32, model: f32) -> (next: i32) {\n"
        "    return i32(prompt + count + model) + id * 0\n  } }",
    )
    with wgcc_runtime.load(build(source, tmp_path / "b"), device="llvmpipe") as model:
        extra = {"prompt": 1.0, "count": 1.0, "model": 1.0}
        assert "".join(itertools.islice(wgcc_runtime.write(model, "a", 2, **extra), 2)) == "dd"
