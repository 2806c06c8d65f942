"""NaN and infinity in any parameter, input or gradient of the examples are reported and undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from building import build
from line_training import everything, refused
from poisoned_bundles import BAD, floats, poisoned
from wgcc.compiler import compile_file
from wgcc_runtime import Model
from wgcc_runtime.arrays import check_batch
from wgcc_runtime.drawn import drawn_input

EXAMPLES = ("sin", "digits", "playground")
LARGER = ("cnn", "names", "mamba")


@pytest.fixture(scope="module", params=EXAMPLES)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nan") / request.param
    return build(ROOT / "examples" / request.param / "model.wg", folder)


@pytest.fixture(scope="module")
def model(bundle: Path, target: str) -> Iterator[Model]:
    with wgcc_runtime.load(bundle, device=target) as found:
        yield found


def batch(model: Model, step: int) -> dict[str, Any]:
    entry, test = model.entry("train"), model.plan.selftest
    return {
        name: drawn_input(spec, f"train/{name}", entry.inputs[name].shape, test["seed"], step)
        for name, spec in test["entries"]["train"]["inputs"].items()
    }


def drawn(model: Model) -> dict[str, Any]:
    """A batch for models whose self-test has no training step."""
    entry, rng = model.entry("train"), np.random.default_rng(0)
    found: dict[str, Any] = {}
    for name, tensor in entry.inputs.items():
        if tensor.is_float:
            found[name] = rng.uniform(0, 1, tensor.shape).astype(np.float32)
        else:
            found[name] = rng.integers(0, 2, tensor.shape).astype(np.int32)
    return found


def after_two_steps(model: Model) -> dict[str, Any]:
    model.reset()
    for step in range(2):
        model.train(**batch(model, step))
    return everything(model)


def assert_same_but(model: Model, before: dict[str, Any], name: str) -> None:
    for key, value in everything(model).items():
        if key != name:
            np.testing.assert_array_equal(value, before[key], err_msg=key)


def test_bad_parameters_and_moments(model: Model) -> None:
    """Written without the runtime's knowledge, like a memory error."""
    for number, tensor in enumerate(floats(model)):
        before = after_two_steps(model)
        values = before[tensor.name].copy()
        values.reshape(-1)[(7 * number) % values.size] = BAD[number % 3]
        model._machine.write(tensor, values)
        with refused("nan", f"train, step 3: .*`{tensor.name}` was not finite before the step"):
            model.train(**batch(model, 2))
        assert_same_but(model, before, tensor.name)
        np.testing.assert_array_equal(everything(model)[tensor.name], values)
        assert model.steps_done == 2


def test_bad_inputs(model: Model) -> None:
    """`call` refuses them; here its check is bypassed."""
    entry = model.entry("train")
    for name, tensor in entry.inputs.items():
        if not tensor.is_float:
            continue
        for bad in BAD:
            before = after_two_steps(model)
            given = dict(check_batch(batch(model, 2), entry))
            given[name] = given[name].copy()
            given[name].reshape(-1)[-1] = bad
            with refused("nan", f"`train/{name}` was not finite before the step"):
                model.runner("train", entry.outputs).run([given])
            assert_same_but(model, before, "")


def test_bad_gradients(bundle: Path, adapter: str, tmp_path: Path) -> None:
    plan = wgcc_runtime.load_plan(bundle)
    params = [name for name, t in plan.tensors.items() if t.role == "param"]
    if adapter == "swiftshader":
        params = [params[0], params[-1]]  # its pipelines take long to compile
    for number, name in enumerate(params):
        word = (0x7FC00000, 0x7F800000, 0xFF800000)[number % 3]
        damaged = poisoned(bundle, tmp_path / str(number), name, word)
        with wgcc_runtime.load(damaged, device=adapter) as model:
            before = everything(model)
            with refused("nan", f"train, step 1: .*first appears in `d.{name}` .kernel poison"):
                model.train(**batch(model, 0))
            assert_same_but(model, before, "")


def test_the_guard_is_one_dispatch(model: Model) -> None:
    guard = model.entry("train").guard
    assert guard is not None
    (dispatch,) = guard.dispatches
    assert dispatch.grid <= (2, 1, 1)


@pytest.mark.parametrize("example", LARGER)
def test_larger_examples(example: str, tmp_path: Path) -> None:
    """The first and last tensor, and a gradient: their kernels take long to compile."""
    source, bundle = ROOT / "examples" / example / "model.wg", tmp_path / "bundle"
    compile_file(source, entries=["train"]).write(bundle)
    with wgcc_runtime.load(bundle, device="lavapipe") as model:
        given = drawn(model)
        model.train(**given)
        before = everything(model)
        for tensor, bad in zip((floats(model)[0], floats(model)[-1]), BAD, strict=False):
            values = before[tensor.name].copy()
            values.reshape(-1)[-1] = bad
            model._machine.write(tensor, values)
            with refused("nan", f"train, step 2: .*`{tensor.name}` was not finite before the step"):
                model.train(**given)
            assert_same_but(model, before, tensor.name)
            model._machine.write(tensor, before[tensor.name])
    name = next(name for name, tensor in model.plan.tensors.items() if tensor.role == "param")
    damaged = poisoned(bundle, tmp_path / "damaged", name, 0x7FC00000)
    with wgcc_runtime.load(damaged, device="lavapipe") as model:
        before = everything(model)
        with refused("nan", f"train, step 1: .*first appears in `d.{name}` .kernel poison"):
            model.train(**given)
        assert_same_but(model, before, "")
