"""Entries that take microseconds run in the caller's thread: the same results and errors, and a
call that does not end can be left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hostile_twins
import line_twin
import wgcc_runtime
from line_training import assert_same, batches, everything
from trials.interrupts import python_path
from twin_modules import assemble
from wgcc_runtime import Model, WgccError, wasm_direct, wasm_machine
from wgcc_runtime.wasm_machine import FIRST_CALLS, WasmMachine

X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_twin.write_bundle(tmp_path_factory.mktemp("short") / "bundle")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry is short after its first calls, however busy the machine is."""
    monkeypatch.setattr(wasm_machine, "SHORT_SECONDS", 1e9)


@pytest.fixture
def model(bundle: Path, short: None) -> Iterator[Model]:
    with wgcc_runtime.load(bundle, device="wasm") as opened:
        yield opened


@pytest.fixture(scope="module")
def long_way(bundle: Path) -> Iterator[Model]:
    """The same bundle; too few of its calls are counted to make an entry short."""
    with wgcc_runtime.load(bundle, device="wasm") as opened:
        machine = opened._machine
        assert isinstance(machine, WasmMachine)
        machine._durations.add = lambda *_: None  # type: ignore[method-assign]
        yield opened


def repeat(model: Model) -> None:
    for _ in range(FIRST_CALLS):
        model.predict(x=X)


def forbid_handing_over(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = model._machine
    assert isinstance(machine, WasmMachine)

    def refuse(_: Any) -> None:
        raise AssertionError("a call was handed over")

    monkeypatch.setattr(machine._team, "perform", refuse)


def test_later_calls_are_not_handed_over(
    model: Model, long_way: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeat(model)
    wanted = long_way.predict(x=X)["p"]
    # The first of these finds that the entry is short.
    assert model.predict(x=X)["p"].tobytes() == wanted.tobytes()
    forbid_handing_over(model, monkeypatch)
    for _ in range(3):
        assert model.predict(x=X)["p"].tobytes() == wanted.tobytes()
    model.load_params({"w": np.ones(4, np.float32)})
    np.testing.assert_allclose(model.predict(x=X)["p"], X.sum(1), rtol=1e-5)


def arrays(draw: np.random.Generator) -> Any:
    """What a caller may pass: mostly right, and sometimes wrong in one of many ways."""
    x: Any = draw.normal(size=(8, 4)).astype(np.float32)
    kind = int(draw.integers(12))
    if kind < 4:
        x[draw.integers(8), draw.integers(4)] = [np.nan, np.inf, -np.inf, 3e38][kind]
    changed = {
        4: lambda: x.astype([np.float64, np.float16, np.int32, np.uint8][draw.integers(4)]),
        5: lambda: x[: draw.integers(9)],
        6: lambda: np.asfortranarray(x),
        7: lambda: np.repeat(x, 2, axis=1)[:, ::2],
        8: lambda: x.tolist(),
        9: lambda: np.ma.masked_array(x, x > 2),
        10: lambda: x.astype(">f4"),
    }
    return changed[kind]() if kind in changed else x


def answer(model: Model, inputs: dict[str, Any]) -> tuple[Any, ...]:
    try:
        outputs = model.predict(**inputs)
    except WgccError as error:
        return str(error), error.field
    return tuple((k, v.dtype, v.shape, v.tobytes()) for k, v in outputs.items())


@pytest.mark.filterwarnings("error")
def test_any_input_gives_the_same_answer(model: Model, long_way: Model) -> None:
    repeat(model)
    draw = np.random.default_rng(5)
    for _ in range(400):
        inputs = {"x": arrays(draw)}
        if draw.integers(20) == 0:
            inputs = [{}, {"y": X}, {**inputs, "y": X}][draw.integers(3)]
        assert answer(model, inputs) == answer(long_way, inputs), inputs
    assert "predict" in model._quick and "predict" not in long_way._quick


def test_outputs_are_copies(model: Model) -> None:
    repeat(model)
    model.predict(x=X)
    first = model.predict(x=X)["p"]
    kept = first.copy()
    model.predict(x=-X)
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_array_equal(model.predict(x=X)["p"], kept)


def test_training_in_the_callers_thread(
    model: Model, long_way: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among them a step that is undone."""
    seen = []
    for one in (model, long_way):
        for batch in batches(FIRST_CALLS + 1):
            one.train(**batch)
        with monkeypatch.context() as patch:
            if one is model:
                forbid_handing_over(one, patch)
            (batch,) = batches(1)
            with pytest.raises(WgccError, match=r"^nan: "):
                one.train(**{**batch, "y": np.full_like(batch["y"], 3e38)})
            one.fit(iter(batches(5)), steps=5, progress=False)
        one.predict(x=X)
        with pytest.raises(WgccError, match=r"^range: .*3"):
            one.pick(ids=np.int32([0, 9, 1]))
        seen.append((everything(one), one.steps_done))
    long_way.reset_to_bundle()
    assert_same(seen[0][0], seen[1][0])
    assert seen[0][1] == seen[1][1] == FIRST_CALLS + 6


def test_a_closed_model_and_a_new_device(model: Model) -> None:
    repeat(model)
    model.predict(x=X)
    model.snapshot()
    model.recover()
    repeat(model)
    wanted = model.predict(x=X)["p"]
    assert wanted.any()
    model.close()
    with pytest.raises(WgccError, match=r"^closed: "):
        model.predict(x=X)


def test_a_trap_is_a_lost_device(model: Model) -> None:
    repeat(model)
    model.predict(x=X)
    model.snapshot()
    with pytest.raises(WgccError, match=r"^device-lost: .*unreachable"):
        model.predict(x=np.full_like(X, line_twin.TRAP))
    with pytest.raises(WgccError, match=r"^device-lost: "):
        model.predict(x=X)
    model.recover()
    assert model.predict(x=X)["p"].any()


def test_without_a_second_engine_all_calls_are_handed_over(
    model: Model, long_way: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an older wasmtime."""
    monkeypatch.setattr(wasm_direct, "_engine", lambda: object())
    repeat(model)
    for _ in range(3):
        assert answer(model, {"x": X}) == answer(long_way, {"x": X})
    assert not model._quick


# Quick so many times, and then it does what `later` says. Words below 1024 belong to the module.
LATER = """
(func (export "predict") (param i32 i32)
  (i32.store (i32.const 512) (i32.add (i32.load (i32.const 512)) (i32.const 1)))
  (if (i32.gt_u (i32.load (i32.const 512)) (i32.const 20)) (then {later})))
"""
OTHERS = " ".join(
    f'(func (export "{name}") (param i32 i32))'
    for name in ("train", "train/guard", "pick", "forget")
)
ENDS = {
    "a loop": ("(loop $again (br $again))", "interrupted"),
    "a recursion": ("(call $more (i32.const 0))", "device-lost"),
    "a far address": ("(drop (i32.load (i32.const -8)))", "device-lost"),
    "too long": ("(loop $again (br $again))", "time-out"),
}
MORE = "(func $more (param i32) (call $more (local.get 0)) (call $more (local.get 0)))"

# In a process of its own, with limits, so that a regression does not keep a machine busy.
LEFT = """
import os, resource, signal, sys, threading, time
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
import numpy as np
import wgcc_runtime
from wgcc_runtime import interrupts, wasm_direct, wasm_machine
wasm_machine.SHORT_SECONDS = 1e9
model = wgcc_runtime.load(sys.argv[1], device="wasm", threads=1)
x = np.ones((8, 4), np.float32)
for _ in range(20):
    model.predict(x=x)
model._machine._team.perform = None
assert "predict" in model._quick
def press():
    while not interrupts._signals.depth:
        time.sleep(0.01)
    while True:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
if sys.argv[2] == "a loop":
    threading.Thread(target=press, daemon=True).start()
if sys.argv[2] == "too long":
    wasm_direct.WAIT_SECONDS = 0.5
try:
    model.predict(x=x)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted", flush=True)
except wgcc_runtime.WgccError as error:
    print(error.code, flush=True)
try:
    model.predict(x=x)
except wgcc_runtime.WgccError as error:
    print(error.code, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("end", ENDS)
def test_a_later_call_that_goes_wrong_can_be_left(end: str, tmp_path: Path) -> None:
    later, answer = ENDS[end]
    code, flag = assemble(LATER.format(later=later) + OTHERS + MORE)
    folder = hostile_twins.write_bundle(tmp_path / "b", code, flag)
    done = subprocess.run(
        [sys.executable, "-c", LEFT, str(folder), end],
        env={**os.environ, "PYTHONPATH": python_path()}, timeout=300,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == f"{answer}\ndevice-lost\n", done.stderr
