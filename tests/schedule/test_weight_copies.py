"""`precision = f16`: the f16 copies of weights that products read are never out of date."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import wgcc.passes.lay_out as lay_out
import wgcc.schedule.kernel as kernel
import wgcc_runtime
from building import build
from changed_plans import REMOVED, change
from cli_runs import run
from web_stacks import as_lists, build_web, run_job, run_node
from wgcc.schedule.kernels.update import LABEL, copies_of, master
from wgcc_runtime import Model, WgccError
from wgcc_runtime.plan import read_plan

ADAPTER = "llvmpipe"
# What an optimizer adds to parameters: averages, moments, sums of gradients. A frozen layer, too.
MODEL = """
dim N = 32
model Copied {{
  seed = 7
  precision = {precision}
  a: Linear[32, 48]
  odd: Linear[48, 37](bias = false)
  b: Linear[37, 40]
  frozen fixed: Linear[40, 32]
  optimizer opt: {optimizer}
  fn scores(x: f32[N, 32]) -> f32[N, 32] = x |> a |> tanh |> odd |> b |> fixed
  entry train(x: f32[N, 32], y: f32[N, 32]) -> (loss: f32) {{
    loss = mse(scores(x), y)
    minimize loss with opt over "{over}"
    return loss
  }}
  entry shrink(by: f32) {{ a.w := by * a.w }}
  entry predict(x: f32[N, 32]) -> (y: f32[N, 32]) = scores(x)
  {more}
}}
"""
ALL = "adamw { lr = 1e-2; clip_norm = 1.0; accumulate = 2; ema = 0.9 }"
AVERAGED = "entry averaged(x: f32[N, 32]) -> (y: f32[N, 32]) with ema = scores(x)"
OPTIMIZERS = (
    "sgd { lr = 1e-2; momentum = 0.9 }",
    "adam { lr = 1e-2; amsgrad = true; accumulate = 2; ema = 0.9 }",
    "adadelta { lr = 1.0; weight_decay = 0.1; ema = 0.9 }",
    "muon { lr = 1e-2 }",
    "adafactor { lr = 1e-2 }",
    "lion { lr = 1e-3; group if axes < 2 { lr_scale = 2.0 } }",
)


def write(folder: Path, precision: str = "f16", optimizer: str = ALL, more: str = "") -> Path:
    path = folder / f"{precision}.wg"
    over = "*.w" if optimizer.startswith("muon") else "*"
    settings = optimizer.replace("; ", "\n")
    text = MODEL.format(precision=precision, optimizer=settings, more=more, over=over)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copies")
    return build_web(write(folder, more=AVERAGED), folder / "bundle")


@pytest.fixture
def model(bundle: Path) -> Iterator[Model]:
    with wgcc_runtime.load(bundle, device=ADAPTER) as found:
        yield found


def batch(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(32, 32)).astype(np.float32) for name in ("x", "y")}


def copied(model: Model) -> int:
    """How many weights have copies, all of which are those of the weights as they are."""
    beside = {d.bindings[0].buffer: d.bindings[1].buffer for d in model.plan.copies}
    count = 0
    for name, value in model.params().items():
        if name.endswith(".w"):
            place = model.plan.tensors[name]
            data = model._machine.read(
                beside[place.buffer], place.offset // 2, -(-value.size // 2) * 4
            )
            found = np.frombuffer(data, "<f2")[: value.size]
            np.testing.assert_array_equal(found, value.reshape(-1).astype(np.float16), name)
            assert np.any(found)
            count += value.size
    return count


def expected(params: dict[str, Any], x: Any, halves: bool = True) -> Any:
    """The same in numpy: f16 operands, f32 sums; what is stored between products is f16."""

    def half(array: Any) -> Any:
        return array.astype(np.float16).astype(np.float32) if halves else array

    def weight(name: str) -> Any:
        return half(params[name])

    h = half(np.tanh(half(x) @ weight("a.w") + params["a.b"]))
    h = half(h @ weight("odd.w"))
    h = half(h @ weight("b.w") + params["b.b"])
    return h @ weight("fixed.w") + params["fixed.b"]


def check_values(model: Model) -> None:
    """Predictions have the roundings of f16, nothing else."""
    x = batch(9)["x"]
    found = model.predict(x=x)["y"]
    params = model.params()
    np.testing.assert_allclose(found, expected(params, x), atol=1.5e-3 * np.abs(found).max())
    exact = expected(params, x, halves=False)
    assert np.abs(found - exact).max() > 1e-5 * np.abs(found).max()


def test_copies_follow_whatever_writes_weights(model: Model, tmp_path: Path) -> None:
    assert copied(model) >= 32 * 48 + 48 * 37 + 37 * 40 + 40 * 32
    check_values(model)
    for step in range(3):
        model.train(**batch(step))
        copied(model)
    model.save(tmp_path / "trained.safetensors")
    check_values(model)
    model.call("shrink", by=np.float32(0.5))
    copied(model)
    check_values(model)
    model.load(tmp_path / "trained.safetensors")
    copied(model)
    check_values(model)
    model.load(tmp_path / "trained.safetensors", weights="ema")
    copied(model)
    model.load_params({"a.w": np.full((32, 48), 0.1, np.float32)}, strict=False)
    copied(model)
    check_values(model)
    model.reset(3)
    copied(model)
    check_values(model)


def test_a_step_that_is_undone_takes_its_copies_back(model: Model) -> None:
    # Every second step updates.
    model.train(**batch())
    before, bad = model.params(), batch()
    bad["y"][3, 4] = 1e30
    with pytest.raises(WgccError) as caught:
        model.train(**bad)
    assert caught.value.code == "nan"
    for name, value in model.params().items():
        np.testing.assert_array_equal(value, before[name])
    copied(model)
    check_values(model)


def test_copies_follow_the_halves_of_a_step(model: Model) -> None:
    before = model.params()
    for _ in range(2):
        model.apply(model.gradients(batch()))
    copied(model)
    assert np.abs(model.params()["a.w"] - before["a.w"]).max() > 1e-3
    check_values(model)
    weights = model.params()["a.w"]
    for _ in range(2):
        model.apply(model.gradients(batch()))
    assert np.any(model.params()["a.w"] != weights)
    model.undo()
    np.testing.assert_array_equal(model.params()["a.w"], weights)
    copied(model)
    check_values(model)


def test_copies_come_back_with_a_lost_device(model: Model) -> None:
    model.train(**batch())
    model.train(**batch())
    model.snapshot()
    model._machine.device.gpu.destroy()
    with pytest.raises(WgccError):
        model.train(**batch())
    model.recover()
    copied(model)
    check_values(model)


def test_averages_are_read_as_they_are(model: Model) -> None:
    """Entries `with ema` have no copies of what they read."""
    for _ in range(2):
        model.train(**batch())
    x = batch(9)["x"]
    averages = {n.removeprefix("opt/opt/ema/"): v for n, v in model.state().items() if "/ema/" in n}
    params = {**model.params(), **averages}
    found = model.call("averaged", x=x)["y"]
    np.testing.assert_allclose(found, expected(params, x), atol=2e-3 * np.abs(found).max())


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda text: text.split()[0])
def test_every_optimizer_writes_them(optimizer: str, tmp_path: Path) -> None:
    bundle = build(write(tmp_path, optimizer=optimizer), tmp_path / "bundle")
    with wgcc_runtime.load(bundle, device=ADAPTER) as model:
        before = model.params()
        for _ in range(2):
            model.train(**batch())
        assert np.abs(model.params()["odd.w"] - before["odd.w"]).max() > 1e-4
        copied(model)


AGAIN = """
dim N = 64
model Again {
  seed = 3
  precision = f16
  a: Linear[64, 64](bias = false)
  b: Linear[64, 64](bias = false)
  optimizer first: sgd { lr = 1e-1 }
  optimizer second: sgd { lr = 1.0 }
  entry clipped(x: f32[N, 64], y: f32[N, 64]) -> (loss: f32) {
    loss = mse(b(tanh(a(x))), y)
    minimize loss with first over "*"
    a.w := clamp(a.w, -0.05, 0.05)
    return loss
  }
  entry twice(x: f32[N, 64], y: f32[N, 64]) -> (loss: f32, back: f32) {
    loss = mse(b(tanh(a(x))), y)
    minimize loss with first over "*"
    back = mse(a(y), x)
    minimize back with second over "a.*"
    return loss, back
  }
}
"""


def test_weights_that_are_written_again_after_their_update(tmp_path: Path) -> None:
    """By an assignment, or by another optimizer."""
    (tmp_path / "again.wg").write_text(AGAIN, encoding="utf-8")
    build(tmp_path / "again.wg", tmp_path / "again")
    rng = np.random.default_rng(2)
    data = {name: rng.normal(size=(64, 64)).astype(np.float32) for name in ("x", "y")}
    with wgcc_runtime.load(tmp_path / "again", device=ADAPTER) as model:
        for entry in (model.clipped, model.twice):
            entry(**data)
            assert copied(model) == 2 * 64 * 64


def test_an_update_without_room_is_followed_by_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel has eight bindings."""
    monkeypatch.setattr(kernel, "MAX_BINDINGS", 4)
    bundle = build(write(tmp_path), tmp_path / "bundle")
    with wgcc_runtime.load(bundle, device=ADAPTER) as model:
        assert model.plan.entries["train"].dispatches[-1].label == LABEL
        model.train(**batch())
        model.train(**batch())
        copied(model)


def test_cut_arenas_have_copies_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lay_out, "CUT_WORDS", 2048)
    bundle = build(write(tmp_path), tmp_path / "bundle")
    with wgcc_runtime.load(bundle, device=ADAPTER) as model:
        roles = [buffer.role for buffer in model.plan.buffers]
        assert roles.count("copies") == len(model.plan.copies) == roles.count("params") > 1
        model.train(**batch())
        model.train(**batch())
        copied(model)
        check_values(model)


def test_checkpoints_have_no_copies(bundle: Path, tmp_path: Path) -> None:
    """A file of either precision is one of the other."""
    full = build(write(tmp_path, "f32", more=AVERAGED), tmp_path / "full")
    found = []
    for name, path in (("half", bundle), ("full", full)):
        with wgcc_runtime.load(path, device=ADAPTER) as model:
            model.train(**batch())
            model.save(tmp_path / f"{name}.safetensors")
        found.append(load_file(tmp_path / f"{name}.safetensors"))
    shapes = [{n: (v.shape, v.dtype) for n, v in tensors.items()} for tensors in found]
    assert shapes[0] == shapes[1]
    assert all(dtype != np.float16 for _, dtype in shapes[0].values())
    weights = found[1]
    with wgcc_runtime.load(bundle, device=ADAPTER) as model:
        names = model.params().keys()
        model.load_params({name: weights[name] for name in names})
        copied(model)


MALFORMED = (
    ("copies", {}, "copies"),
    ("copies.0.kernel", 999, "copies[0].kernel"),
    ("copies.0.bindings.1.buffer", 999, "copies[0].bindings[1].buffer"),
    ("copies.0.bindings.0.size", 1 << 20, "copies[0].bindings[0]"),
    ("copies.0.bindings.1", REMOVED, "copies[0].bindings"),
    ("memory.copies", 4, "memory.copies"),
    ("buffers.0.role", "copies", "tensors.a.w.buffer"),
)


def test_wrong_copies_are_refused(bundle: Path) -> None:
    """By both runtimes, with the same field."""
    text = (bundle / "plan.json").read_text(encoding="utf-8")
    plans = [json.dumps(change(json.loads(text), path, value)) for path, value, _ in MALFORMED]
    answers = run_node("mirror.mjs", data={"plans": [text, *plans]})["plans"]
    assert answers[0] == {"value": "Copied"}
    for plan, answer, (_, _, field) in zip(plans, answers[1:], MALFORMED, strict=True):
        with pytest.raises(WgccError) as caught:
            read_plan(plan.encode())
        assert (caught.value.code, caught.value.field) == ("plan", field)
        assert answer == {"code": "plan", "field": field}


def test_imported_weights_are_copied(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    with wgcc_runtime.load(bundle, device="wasm") as model:
        shapes = {name: value.shape for name, value in model.params().items()}
    tensors = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    save_file(tensors, tmp_path / "from.safetensors")
    model_file, weights = str(write(tmp_path)), str(tmp_path / "w.safetensors")
    code, _, err = run(
        capsys, "import", str(tmp_path / "from.safetensors"), model_file, "-o", weights
    )
    assert code == 0, err
    out = str(tmp_path / "bundle")
    assert run(capsys, "build", model_file, "-o", out, "--weights", weights)[0] == 0
    with wgcc_runtime.load(out, device=ADAPTER) as model:
        np.testing.assert_array_equal(model.params()["b.w"].size, tensors["b.w"].size)
        copied(model)
        check_values(model)


def test_javascript_refreshes_them_too(bundle: Path) -> None:
    """The same bits as Python after each of the things that write weights."""
    data = batch()
    found = run_job("deno", bundle, "copies", {"batch": as_lists(data)})
    with wgcc_runtime.load(bundle, device=ADAPTER) as model:
        wanted = [model.predict(x=data["x"])["y"]]
        for _ in range(3):
            model.train(**data)
        wanted.append(model.predict(x=data["x"])["y"])
        model.call("shrink", by=np.float32(0.5))
        wanted.append(model.predict(x=data["x"])["y"])
    for name, value in zip(("start", "trained", "shrunk"), wanted, strict=True):
        np.testing.assert_array_equal(np.float32(found[name]), value.reshape(-1))
    assert found["undone"] == found["shrunk"] and found["code"] == "nan"
    assert found["restored"] == found["trained"]
    assert found["reset"] == found["start"]


def test_the_twin_reads_weights_themselves(bundle: Path) -> None:
    """Its products are those of f32, also after updates."""
    with wgcc_runtime.load(bundle, device="wasm") as model:
        for _ in range(2):
            model.train(**batch())
        x = batch(9)["x"]
        found = model.predict(x=x)["y"]
        np.testing.assert_allclose(
            found, expected(model.params(), x, halves=False), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("buffer", ["params", "params2", "frozen", "frozen2"])
def test_copies_know_whose_they_are(buffer: str) -> None:
    assert master(copies_of(buffer)) == buffer
