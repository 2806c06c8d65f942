"""A hand-written bundle on both software adapters: entries, inputs, weights, errors."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import line_bundle
import wgcc_runtime
from line_bundle import COLS, ROWS, Reference
from line_training import refused
from wgcc_runtime import Model, gpu_machine, run_selftest
from wgcc_runtime.device import open_device
from wgcc_runtime.drawn import drawn_input
from wgcc_runtime.weights import save_arrays


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_bundle.write_bundle(tmp_path_factory.mktemp("line") / "bundle")


@pytest.fixture(scope="module")
def shared(bundle: Path, adapter: str) -> Model:
    return wgcc_runtime.load(bundle, device=adapter)


@pytest.fixture
def model(shared: Model) -> Model:
    """At its initial values."""
    shared.reset()
    shared.check_finite = True
    return shared


def batch(seed: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(ROWS, COLS)).astype(np.float32)
    return {"x": x, "y": x.sum(axis=1)}


def test_entries_compute_what_numpy_does(model: Model) -> None:
    expected = Reference()
    for step in range(5):
        data = batch(step)
        loss = model.train(**data)["loss"]
        assert loss == pytest.approx(expected.train(data["x"], data["y"]), rel=1e-5)
    np.testing.assert_allclose(model.params()["w"], expected.w, rtol=1e-5)
    np.testing.assert_allclose(model.state()["opt/opt/momentum/w"], expected.m, rtol=1e-4)
    assert model.state()["opt/opt/step"] == 5
    assert model.steps_done == 5
    np.testing.assert_allclose(
        model.predict(x=batch()["x"])["p"], batch()["x"] @ expected.w, rtol=1e-5
    )


def test_outputs_have_shape_and_type(model: Model) -> None:
    loss = model.call("train", **batch())["loss"]
    assert (loss.shape, loss.dtype) == ((), np.float32)
    rows = model.pick(ids=[3, -1, 0])["rows"]
    w = model.params()["w"]
    np.testing.assert_array_equal(rows, [w[3], 0, w[0]])


def test_entry_without_inputs_and_outputs(model: Model) -> None:
    model.train(**batch())
    assert model.state()["opt/opt/momentum/w"].any()
    assert model.forget() == {}
    assert not model.state()["opt/opt/momentum/w"].any()


def test_profiles_agree(bundle: Path, adapter: str) -> None:
    losses = []
    for profile in ("gpu", "candidate_0"):
        with wgcc_runtime.load(bundle, device=adapter, profile=profile) as model:
            assert model.profile_name == profile
            losses.append(float(model.train(**batch())["loss"]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_software_adapters_run_the_gpu_kernels(model: Model) -> None:
    assert model.profile_name == "gpu"


def test_selftest_passes_and_notices_errors(bundle: Path, model: Model, tmp_path: Path) -> None:
    (result,) = run_selftest(model)
    assert result.passed and result.error < 1e-6
    plan = line_bundle.make_plan()
    plan["selftest"]["entries"]["train"]["outputs"][2]["loss"]["sum"] += 0.1
    wrong = line_bundle.write_bundle(tmp_path / "wrong", selftest=plan["selftest"])
    with refused("selftest", "train.loss"):
        wgcc_runtime.load(wrong, device=model.device_name, verify=True)


def test_selftest_checks_what_is_written(bundle: Path, model: Model, tmp_path: Path) -> None:
    """A loss after a few steps may hide a wrong gradient."""
    model.reset_to_bundle()
    before = model.params()["w"]
    test = line_bundle.make_plan()["selftest"]
    for step in range(3):
        inputs = {
            name: drawn_input(
                draw, f"train/{name}", model.entry("train").inputs[name].shape, 1, step
            )
            for name, draw in test["entries"]["train"]["inputs"].items()
        }
        model.train(**inputs)
    change = (model.params()["w"] - before).astype(float)
    size = float(abs(change).mean())
    facts = {"mean": float(change.mean()), "size": size, "at": change.tolist(), "scale": size}
    test["entries"]["train"]["changes"] = {"tolerance": 1e-2, "tensors": {"w": facts}}
    right = line_bundle.write_bundle(tmp_path / "right", selftest=test)
    wgcc_runtime.load(right, device=model.device_name, verify=True).close()
    facts["at"][2] += 0.02 * size
    wrong = line_bundle.write_bundle(tmp_path / "wrong", selftest=test)
    with refused("selftest", "train.change of w: error 0.02"):
        wgcc_runtime.load(wrong, device=model.device_name, verify=True)


def test_device_has_default_limits(bundle: Path, adapter: str) -> None:
    """A bundle that needs more must say so, because a browser would refuse it."""
    with wgcc_runtime.load(bundle, device=adapter) as model:
        limits = model._machine.device.gpu.limits
    assert limits["max-storage-buffers-per-shader-stage"] == 8
    assert limits["max-compute-invocations-per-workgroup"] == 256
    assert limits["max-compute-workgroup-storage-size"] == 16384
    assert limits["max-storage-buffer-binding-size"] == 128 << 20
    assert limits["min-storage-buffer-offset-alignment"] == 256


def test_zip_is_a_bundle_too(bundle: Path, adapter: str, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "line"), "zip", bundle.parent, "bundle")
    flat = shutil.make_archive(str(tmp_path / "flat"), "zip", bundle)
    for path in (archive, flat):
        with wgcc_runtime.load(path, device=adapter) as model:
            assert model.train(**batch())["loss"] > 0


def test_damaged_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(b"PK\x03\x04 nonsense")
    with refused("bundle"):
        wgcc_runtime.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("plan.json", " " * (9 << 20))
    with refused("bundle", "at most"):
        wgcc_runtime.load(path)


WRONG_INPUTS: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("missing", "train", {"x": np.zeros((8, 4))}, "name", "needs the input `y`"),
    ("misspelt", "predict", {"X": np.zeros((8, 4))}, "name", "no input `X`"),
    ("shape", "predict", {"x": np.zeros((7, 3))}, "shape", r"\[7, 3\], not \[7, 4\]"),
    ("scalar", "predict", {"x": 1.0}, "shape", r"\[\], not"),
    ("text", "predict", {"x": "hello"}, "dtype", "not numbers"),
    ("objects", "predict", {"x": [[object()] * 4] * 8}, "dtype", r"objects \(object\), not num"),
    ("joined", "predict", {"x": np.array([[1.0], [1, 2]], object)}, "dtype", r"`np.stack\(x\)`"),
    ("ragged", "predict", {"x": [[1], [1, 2]]}, "dtype", "cannot be read"),
    ("complex", "predict", {"x": np.zeros((8, 4), complex)}, "dtype", "complex"),
    ("nan", "predict", {"x": np.full((8, 4), np.nan)}, "not-finite", "nan"),
    ("too big", "predict", {"x": np.full((8, 4), 1e300)}, "not-finite", "1e\\+300"),
    ("float ids", "pick", {"ids": [0.0, 1.0, 2.0]}, "dtype", "float64"),
    ("ids beyond", "pick", {"ids": [0, 4, 0]}, "range", r"holds 4 at \[1\]"),
    ("ids below", "pick", {"ids": [0, -2, 0]}, "range", "-2"),
    ("int64", "pick", {"ids": np.array([0, 2**40, 0])}, "range", "i32"),
    ("uint64", "pick", {"ids": np.array([0, 2**63, 0], np.uint64)}, "range", "i32"),
]


@pytest.mark.parametrize(
    ("entry", "inputs", "code", "text"),
    [case[1:] for case in WRONG_INPUTS],
    ids=[case[0] for case in WRONG_INPUTS],
)
def test_wrong_inputs_are_named(
    model: Model, entry: str, inputs: dict[str, Any], code: str, text: str
) -> None:
    with refused(code, text):
        model.call(entry, **inputs)


def test_unknown_entry_is_named(model: Model) -> None:
    with refused("name", "did you mean `predict`"):
        model.call("predikt")
    with pytest.raises(AttributeError, match="no entry `predikt`"):
        model.predikt()
    assert "predict" in dir(model)


class OnlyDlpack:
    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class OnlyArray:
    def __init__(self, array: Any) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._array


@pytest.mark.parametrize("wrap", [OnlyDlpack, OnlyArray, lambda a: a.tolist(), np.asfortranarray])
def test_anything_array_like_goes_in(model: Model, wrap: Any) -> None:
    x = batch()["x"].astype(np.float64)
    expected = model.predict(x=x)["p"]
    np.testing.assert_array_equal(model.predict(x=wrap(x))["p"], expected)


def test_any_number_of_rows(model: Model) -> None:
    x = np.random.default_rng(1).normal(size=(21, COLS)).astype(np.float32)
    w = model.params()["w"]
    for rows in (1, 5, 16, 21):
        for found in (model.predict(x=x[:rows]), model.map("predict", x=x[:rows])):
            np.testing.assert_allclose(found["p"], x[:rows] @ w, rtol=1e-5, atol=1e-6)
    with refused("shape", "`x` has no rows"):
        model.predict(x=x[:0])
    with refused("shape", r"`x` has shape \[21, 3\], not \[21, 4\]"):
        model.predict(x=x[:, :3])


def test_rows_that_mix_run_in_whole_batches(model: Model) -> None:
    x = np.random.default_rng(1).normal(size=(16, COLS)).astype(np.float32)
    assert model.map("train", x=x, y=np.zeros(16))["loss"].shape == ()
    assert model.steps_done == 2
    with refused("shape", "numbers of rows differ: `x` 16, `y` 8"):
        model.map("train", x=x, y=np.zeros(ROWS))
    advice = "other numbers of rows: it trains. Build it for 13: wgcc build MODEL --set B=13"
    with refused("shape", advice):
        model.map("train", x=x[:13], y=np.zeros(13))
    with refused("shape", advice):
        model.train(x=x[:13], y=np.zeros(13))


# ---- initial values and weights


def test_seed_draws_other_values(bundle: Path, model: Model, adapter: str) -> None:
    own = model.params()["w"]
    with wgcc_runtime.load(bundle, device=adapter, seed=5) as other:
        assert (other.params()["w"] != own).all()
        assert other.state()["rng/seed"] == 5
        np.testing.assert_array_equal(other.state()["opt/opt/ema/w"], other.params()["w"])
    with wgcc_runtime.load(bundle, device=adapter, seed=line_bundle.SEED) as same:
        np.testing.assert_array_equal(same.params()["w"], own)


def test_averages_start_at_the_parameters(model: Model) -> None:
    np.testing.assert_array_equal(model.state()["opt/opt/ema/w"], model.params()["w"])


def test_given_weights(bundle: Path, adapter: str, tmp_path: Path) -> None:
    w = np.arange(4, dtype=np.float64)
    file = tmp_path / "w.safetensors"
    save_arrays(file, {"w": w})
    for weights in ({"w": w}, file, str(file), file.read_bytes()):
        with wgcc_runtime.load(bundle, device=adapter, weights=weights) as model:
            np.testing.assert_array_equal(model.params()["w"], w)
            np.testing.assert_array_equal(model.state()["opt/opt/ema/w"], w)


WRONG_WEIGHTS: list[tuple[Any, str]] = [
    ({"v": np.zeros(4)}, "no `v`"),
    ({"w": np.zeros(5)}, r"shape \[5\]; the model has \[4\]"),
    ({"rng/seed": np.uint32(1)}, "lack `w`"),
    (b"nonsense", "not a safetensors file"),
    (b"", "not a safetensors file"),
    (b"\xff" * 64, "not a safetensors file"),
    ("nowhere.safetensors", "cannot read"),
    (7, "not int"),
]


@pytest.mark.parametrize(("weights", "text"), WRONG_WEIGHTS)
def test_wrong_weights_are_refused(bundle: Path, weights: Any, text: str) -> None:
    with refused("weights", text):
        wgcc_runtime.load(bundle, weights=weights)


def test_external_weights_must_be_given(adapter: str, tmp_path: Path) -> None:
    plan = line_bundle.make_plan()
    plan["tensors"]["w"]["init"] = {"kind": "external"}
    bundle = line_bundle.write_bundle(tmp_path / "outside", tensors=plan["tensors"])
    with refused("weights", "`w` is external and must be given"):
        wgcc_runtime.load(bundle, device=adapter)
    with wgcc_runtime.load(bundle, device=adapter, weights={"w": np.ones(4)}) as model:
        assert model.params()["w"].sum() == 4


def test_bundle_weights_take_precedence_over_drawing(adapter: str, tmp_path: Path) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "weights")
    save_arrays(bundle / "weights.safetensors", {"w": np.full(4, 7, np.float32)})
    with wgcc_runtime.load(bundle, device=adapter) as model:
        assert (model.params()["w"] == 7).all()
    with wgcc_runtime.load(bundle, device=adapter, seed=1) as model:
        assert (model.params()["w"] != 7).all()
    save_arrays(bundle / "weights.safetensors", {"w": np.zeros(4), "z": np.zeros(1)})
    with refused("weights", "`z`"):
        wgcc_runtime.load(bundle, device=adapter)


def test_load_params(model: Model) -> None:
    model.load_params({"w": [1, 2, 3, 4]})
    np.testing.assert_array_equal(model.params()["w"], [1, 2, 3, 4])
    with refused("weights", "missing"):
        model.load_params({})
    with refused("weights", "no `v`"):
        model.load_params({"w": np.zeros(4), "v": 1})
    model.load_params({"w": np.ones(4), "v": 1}, strict=False)
    assert model.params()["w"].sum() == 4
    with refused("not-finite"):
        model.load_params({"w": [1, 2, np.inf, 4]})


# ---- when things go wrong on the GPU


def test_nan_is_reported_and_undone(model: Model) -> None:
    good = batch()
    model.train(**good)
    before, state = model.params()["w"], model.state()
    with refused("nan", "train, step 2: `loss` is inf; it first appears in `g` .kernel gradient"):
        model.train(x=good["x"] * np.float32(1e25), y=good["y"])
    np.testing.assert_array_equal(model.params()["w"], before)
    for name, value in model.state().items():
        np.testing.assert_array_equal(value, state[name])
    assert model.steps_done == 1
    assert np.isfinite(model.train(**good)["loss"])


def test_bad_parameters_are_noticed_although_the_loss_is_finite(model: Model) -> None:
    """Inputs of zero give a loss of zero, while momentum drives the parameter to infinity."""
    model.load_params({"w": [3e38, 0, 0, 0], "opt/opt/momentum/w": [-3e38, 0, 0, 0]})
    zeros = {"x": np.zeros((ROWS, COLS)), "y": np.zeros(ROWS)}
    assert model.train(**zeros)["loss"] == 0
    with refused("nan", "step 2: a parameter or state is not finite; it first appears in `w`"):
        model.train(**zeros)
    assert np.isfinite(model.params()["w"]).all()


def test_without_a_guard_only_the_loss_is_tested(adapter: str, tmp_path: Path) -> None:
    plan = line_bundle.make_plan()
    del plan["entries"]["train"]["guard"]
    bundle = line_bundle.write_bundle(tmp_path / "bundle", **plan)
    zeros = {"x": np.zeros((ROWS, COLS)), "y": np.zeros(ROWS)}
    with wgcc_runtime.load(bundle, device=adapter) as model:
        model.load_params({"w": [3e38, 0, 0, 0], "opt/opt/momentum/w": [-3e38, 0, 0, 0]})
        for _ in range(2):
            assert model.train(**zeros)["loss"] == 0
        assert np.isinf(model.params()["w"]).any()
        with refused("nan", "train, step 3: `loss` is"):
            model.train(**batch())


def test_check_can_be_turned_off(model: Model) -> None:
    model.check_finite = False
    loss = model.train(x=batch()["x"] * np.float32(1e25), y=batch()["y"])["loss"]
    assert not np.isfinite(loss)


def test_lost_device_is_an_error(bundle: Path, adapter: str) -> None:
    model = wgcc_runtime.load(bundle, device=adapter)
    model._machine.device.gpu.destroy()
    with refused("device-lost", "load the bundle again"):
        model.train(**batch())


def test_closed_model_says_so(bundle: Path, adapter: str) -> None:
    with wgcc_runtime.load(bundle, device=adapter) as model:
        pass
    for use in (lambda: model.train(**batch()), model.params, model.reset):
        with refused("closed"):
            use()


def test_profile_has_a_row_per_dispatch(model: Model) -> None:
    profile = model.profile("train", repeat=2)
    assert [row.kernel for row in profile.rows] == ["predict", "gradient", "update"]
    assert profile.rows[1].at == "line.wg:2"
    assert profile.method.startswith("GPU timestamps")


def test_profile_without_timestamps_says_so(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gpu_machine, "open_device", lambda adapter, plan, *_: open_device(adapter, plan)
    )
    profile = model.profile("train", repeat=2)
    assert profile.method.startswith("one submit per kernel")
    assert len(profile.rows) == 3
