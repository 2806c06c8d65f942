"""Ctrl-C and other signals at any moment: all steps are counted, and the model keeps working."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import line_bundle
import line_twin
import wgcc_runtime
from line_training import assert_same, batches, data, everything, refused
from trials.interrupts import interrupt, python_path
from twin_modules import assemble, record
from wgcc_runtime import Model, device, interrupts, runner, wasm_machine
from wgcc_runtime.arrays import check_batch
from wgcc_runtime.interrupts import handle_now, held
from wgcc_runtime.wasm_engine import Instance


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_twin.write_bundle(tmp_path_factory.mktemp("interrupts") / "bundle")


@pytest.fixture(params=["lavapipe", "wasm"])
def model(bundle: Path, request: pytest.FixtureRequest) -> Iterator[Model]:
    with wgcc_runtime.load(bundle, device=request.param) as found:
        yield found


@pytest.fixture
def gpu_model(bundle: Path) -> Iterator[Model]:
    with wgcc_runtime.load(bundle, device="lavapipe") as found:
        yield found


def ctrl_c() -> None:
    """At once, in the thread that calls."""
    signal.raise_signal(signal.SIGINT)


def steps_of(model: Model) -> int:
    """As counted, and as the kernels count them."""
    (counted,) = {model.steps_done, int(model.state()["opt/opt/step"])}
    return counted


def test_random_interrupts(target: str) -> None:
    found = interrupt(60, seed=1, adapter=target)
    assert found["interrupts"] == 60
    assert not [kind for kind in found if kind.startswith("fault")]
    assert sum(found[kind] for kind in found if "cut short" in kind) > 5


@pytest.mark.parametrize("where", ["submit", "collect"])
def test_a_submit_and_its_count_are_one(
    model: Model, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    real = getattr(runner.Runner, where)

    def interrupted(self: Any, *arguments: Any) -> Any:
        ctrl_c()
        found = real(self, *arguments)
        ctrl_c()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(runner.Runner, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(data(), steps=50, every=1)
        assert steps_of(model) == 1
        with pytest.raises(KeyboardInterrupt):
            model.train(**batches(1)[0])
    assert steps_of(model) == 2
    model.fit(data(), steps=50, every=50)
    assert steps_of(model) == 52


def test_what_was_submitted_is_counted_before_anything_else(model: Model) -> None:
    """A function that returns data sees the model as after the steps in flight."""
    items, seen = batches(13), []

    def item(step: int) -> Any:
        seen.append(steps_of(model))
        if step == 9:
            model.predict(x=items[0]["x"])
            model.train(**items[9])
        return items[step]

    model.fit(item, steps=12, every=3)
    assert seen == sorted(seen)
    assert steps_of(model) == 13


def test_an_interrupt_between_submit_and_results_loses_no_step(
    model: Model, tmp_path: Path
) -> None:
    def item(step: int) -> Any:
        if step == 20:
            raise KeyboardInterrupt
        return batches(1)[0]

    path = tmp_path / "ck.safetensors"
    with pytest.raises(KeyboardInterrupt):
        model.fit(item, steps=50, every=50, checkpoint=path)
    assert steps_of(model) == model.progress.position == 20
    model.save(path)
    before = everything(model)
    model.reset()
    model.load(path)
    assert_same(everything(model), before)


def test_handlers_of_the_program_are_restored_and_run_in_order() -> None:
    heard: list[int] = []
    hear = lambda number, _: heard.append(number)  # noqa: E731 (the same object twice)
    with handler(signal.SIGUSR1, hear), handler(signal.SIGTERM, hear):
        with held():
            with held():
                for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGTERM):
                    signal.raise_signal(number)
            assert heard == []
            handle_now()
            assert heard == [signal.SIGTERM, signal.SIGUSR1, signal.SIGTERM]
            signal.raise_signal(signal.SIGUSR1)
        assert heard[3:] == [signal.SIGUSR1]
        assert signal.getsignal(signal.SIGTERM) is hear
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_a_handler_raises_comes_out_once() -> None:
    heard: list[int] = []
    hearing = handler(signal.SIGUSR1, lambda number, _: heard.append(number))
    with hearing, pytest.raises(KeyboardInterrupt), held():
        ctrl_c()
        signal.raise_signal(signal.SIGUSR1)
        ctrl_c()
    assert heard == [signal.SIGUSR1]
    with held():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_with_a_notice_gives_it_at_once() -> None:
    said: list[str] = []

    class Talking:
        def __call__(self, *_: object) -> None:
            said.append("handled")

        def notice(self) -> None:
            said.append("noticed")

    with handler(signal.SIGINT, Talking()), held():
        ctrl_c()
        assert said == ["noticed"]
    assert said == ["noticed", "handled"]


def test_other_threads_get_no_signals() -> None:
    def work() -> None:
        with held():
            handle_now()

    with held():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


def test_repeated_ctrl_c_ends_a_wait_that_does_not_end(
    gpu_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a kernel that never ends: the third Ctrl-C does not wait for it."""
    model = gpu_model
    model.fit(data(), steps=5, every=5)
    before = everything(model)

    class Never:
        """A promise that is never kept."""

        _thread_event = threading.Event()

    def endless(promise: Any, doing: str) -> None:
        for _ in range(interrupts.INSISTENT):
            ctrl_c()
        device.wait(Never(), doing)

    started = time.monotonic()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(device, "wait", endless)
        model.train(**batches(1)[0])
    assert time.monotonic() - started < 20  # and not until the time-out
    assert steps_of(model) == 5
    assert_same(everything(model), before)
    model.train(**batches(1)[0])
    assert steps_of(model) == 6


@pytest.mark.parametrize("short", [True, False])
def test_insisting_ends_the_steps_of_the_twin(
    short: bool, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the same submit that have not begun; `short` ones run in this thread."""
    monkeypatch.setattr(wasm_machine, "SHORT_SECONDS", 1e9 if short else 0.0)
    with wgcc_runtime.load(bundle, device="wasm") as model:
        model.fit(data(), steps=64, every=64)
        before, run = everything(model), Instance.call
        calls: list[str] = []

        def pressing(instance: Instance, export: str, alone: bool = False) -> None:
            calls.append(export)
            run(instance, export, alone)
            assert (threading.current_thread() is threading.main_thread()) == short
            ctrl_c()
            while interrupts._signals.waiting.count(signal.SIGINT) < len(calls):
                time.sleep(0.001)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Instance, "call", pressing)
            model.runner("train", ["loss"]).run(
                [check_batch(batches(1)[0], model.entry("train"))] * 9
            )
        assert calls == ["train"] * interrupts.INSISTENT
        assert steps_of(model) == 64
        assert_same(everything(model), before)


ENDLESS = " ".join(
    f'(func (export "{name}") (param i32 i32) {body})'
    for name, body in {
        "train": "(loop $again (br $again))", "train/guard": "", "predict": "", "pick": "",
        "forget": "",
    }.items()
)  # fmt: skip


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose twin never finishes a training step."""
    folder, (code, flag) = tmp_path_factory.mktemp("endless") / "bundle", assemble(ENDLESS)
    line_bundle.write_bundle(folder, twin=record(code, flag, line_twin.SIZES))
    (folder / "twin.wasm").write_bytes(code)
    return folder


# In a process of its own, which ends with the thread that never does.
LEFT = """
import os, signal, sys, threading, time
import wgcc_runtime
from line_training import batches
from wgcc_runtime import interrupts, wasm_team
from wgcc_runtime.wasm_engine import Instance
wasm_team.WAIT_SECONDS = float(sys.argv[2])
model = wgcc_runtime.load(sys.argv[1], device="wasm")
class Handler:
    def __call__(self, *_):
        raise KeyboardInterrupt
    def notice(self):
        print("noticed")
signal.signal(signal.SIGINT, Handler())
begun, run = threading.Event(), Instance.call
def call(instance, export, alone=False):
    begun.set()
    run(instance, export, alone)
def press():
    begun.wait()
    for number in range(int(sys.argv[3])):
        os.kill(os.getpid(), signal.SIGINT)
        while interrupts._signals.waiting.count(signal.SIGINT) <= number:
            time.sleep(0.01)
Instance.call = call
threading.Thread(target=press, daemon=True).start()
def answer(action):
    try:
        return action()
    except wgcc_runtime.WgccError as error:
        return error
    except KeyboardInterrupt:
        return "interrupted"
print(answer(lambda: model.train(**batches(1)[0])))
print(model.steps_done, answer(model.params))
model.recover()
print(model.steps_done, sorted(model.params()))
"""


@pytest.mark.parametrize(
    ("seconds", "presses", "answer"),
    [
        (600.0, interrupts.INSISTENT, ["noticed"] * interrupts.INSISTENT + ["interrupted"]),
        (0.5, 0, ["time-out: the twin did not finish `train`"]),
    ],
    ids=["insisting", "time-out"],
)
def test_a_call_of_the_twin_that_does_not_end(
    endless: Path, seconds: float, presses: int, answer: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEFT, str(endless), str(seconds), str(presses)],
        env={**os.environ, "PYTHONPATH": python_path()}, timeout=60,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    *first, lost, recovered = done.stdout.splitlines()
    assert [line.partition(" within")[0] for line in first] == answer, done.stderr
    assert lost.startswith("0 device-lost: a call of the WebAssembly twin was not finished")
    assert recovered == "0 ['w']"


@pytest.mark.parametrize("checked", [True, False])
def test_results_that_cannot_be_read(
    model: Model, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    """The steps are undone if there is a copy, and counted if there is none."""
    model.check_finite = checked
    results = type(model._machine.results(4))
    fetch = results.fetch

    def failing(self: Any, size: int) -> Any:
        fetch(self, size)
        raise wgcc_runtime.WgccError("gpu", "injected")

    for train in (lambda: model.train(**batches(1)[0]), lambda: model.fit(data(), steps=1)):
        with monkeypatch.context() as patch, refused("gpu", "injected"):
            patch.setattr(results, "fetch", failing)
            train()
    assert steps_of(model) == (0 if checked else 2)


def test_interrupts_reach_a_thread_that_waits_for_another(model: Model) -> None:
    taken, release = threading.Event(), threading.Event()

    def hog() -> None:
        with model._exclusive.use():
            taken.set()
            release.wait(20)

    thread = threading.Thread(target=hog)
    thread.start()
    taken.wait(20)
    started = time.monotonic()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        model.params()
    assert time.monotonic() - started < 10
    release.set()
    thread.join()
    assert steps_of(model) == 0


class handler:  # noqa: N801 (reads as a word)
    """Within it, a signal has this handler."""

    def __init__(self, number: int, handle: Any) -> None:
        self._number, self._handle = number, handle

    def __enter__(self) -> Any:
        self._before = signal.signal(self._number, self._handle)
        return self._handle

    def __exit__(self, *_: object) -> None:
        signal.signal(self._number, self._before)
