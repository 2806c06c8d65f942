"""Live training without a front end: commands, points, settings, and what notebooks are sent."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import wgcc
from wgcc_runtime.errors import WgccError
from wgcc_runtime.history import Report
from wgcc_runtime.model import Model
from wgcc_runtime.notebook import LiveTraining, train
from wgcc_runtime.notebook.captures import _picture
from wgcc_runtime.notebook.control import Control
from wgcc_runtime.notebook.points import MOST_POINTS, Points

LINE = """
const rate = 0.1
dim B = 4
model Line {
  fc: Linear[1, 1]
  optimizer opt: sgd { lr = rate }
  entry train(x: f32[B, 1], y: f32[B, 1]) -> (loss: f32, rate: f32) {
    loss = mse(fc(x), y)
    minimize loss with opt
    return loss, opt.lr
  }
}
"""
X = np.arange(4, dtype=np.float32)[:, None]
DATA = {"x": X, "y": 2 * X}
# Far more than any machine needs; a test that waits so long has failed.
LONG = 120.0


@pytest.fixture
def model() -> Model:
    return wgcc.compile(LINE, constants={"rate": 0.01})


class Watch:
    """A callback that lets a test wait for a step."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self._more = threading.Condition()

    def __call__(self, report: Report) -> None:
        with self._more:
            self.steps.append(report.step)
            self._more.notify_all()

    def wait_for(self, step: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: self.steps and self.steps[-1] >= step, LONG)


def test_it_trains_beside_the_caller_and_gives_what_fit_gives(model: Model) -> None:
    live = train(model, DATA, steps=20, every=5, seed=1)
    history = live.wait(LONG)
    other = wgcc.compile(LINE, constants={"rate": 0.01})
    assert history.losses == other.fit(DATA, steps=20, every=5, seed=1).losses
    assert live.history is history and live.widget.status["state"] == "finished"
    assert live.widget.curve == [list(p) for p in zip(history.steps, history.losses, strict=True)]
    assert live.widget.status["step"] == live.widget.status["steps"] == 20


def test_pause_step_resume_and_stop(model: Model) -> None:
    watch = Watch()
    live = train(model, DATA, steps=10**9, callbacks=[watch])
    watch.wait_for(10)
    live.pause()
    wait_for_state(live, "paused")
    before = model.steps_done
    live.step()
    watch.wait_for(before + 1)
    live.step()
    watch.wait_for(before + 2)
    assert model.steps_done == before + 2 and live.widget.status["state"] == "paused"
    live.resume()
    watch.wait_for(before + 100)
    live.stop()
    history = live.wait(LONG)
    assert history.stopped == "callback" and live.widget.status["state"] == "stopped"
    assert model.steps_done == history.steps[-1] or history.steps[-1] < model.steps_done


def wait_for_state(live: LiveTraining, state: str) -> None:
    """The widget is told when the training really pauses."""
    reached = threading.Event()
    live.widget.observe(lambda _: live.widget.status["state"] == state and reached.set(), "status")
    assert live.widget.status["state"] == state or reached.wait(LONG)


def test_a_pause_is_shown_when_the_steps_before_it_are_computed(model: Model) -> None:
    """Or a step that is counted afterwards would look like one more than was asked for."""
    shown: list[str] = []

    def pause(report: Report) -> None:
        if report.step == 3:
            live._receive({"kind": "pause"})
            shown.append(live.widget.status["state"])

    live = train(model, DATA, steps=10**9, every=1, callbacks=[pause])
    wait_for_state(live, "paused")
    assert shown == ["running"] and live.widget.status["step"] == model.steps_done
    live._receive({"kind": "resume"})
    wait_for_state(live, "running")
    live.stop()
    live.wait(LONG)


def test_a_paused_training_can_be_stopped(model: Model) -> None:
    live = train(model, DATA, steps=10**9)
    live.pause()
    wait_for_state(live, "paused")
    live.stop()
    assert live.wait(LONG).stopped == "callback"


def test_a_live_setting_changes_between_steps(model: Model) -> None:
    watch, rates = Watch(), []
    keep = lambda report: rates.append(report.outputs["rate"])  # noqa: E731
    live = train(model, DATA, steps=10**9, callbacks=[keep, watch])
    watch.wait_for(10)
    assert live.widget.settings == {"rate": pytest.approx(0.01)}
    live.widget._handle_custom_msg({"kind": "set", "name": "rate", "value": 0.02}, [])
    watch.wait_for(watch.steps[-1] + 200)
    live.stop()
    live.wait(LONG)
    assert rates[0] == pytest.approx(0.01) and rates[-1] == pytest.approx(0.02)
    assert live.widget.settings == {"rate": 0.02}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"kind": "set", "name": "speed", "value": 1.0}, "`speed` is no live setting"),
        ({"kind": "set", "name": "rate", "value": "much"}, "could not convert"),
        ({"kind": "set", "name": "rate", "value": None}, "float()"),
        ({"kind": "set", "name": "rate", "value": float("inf")}, "not a finite number"),
        ({"kind": "dance"}, ""),
        ({}, ""),
        ("pause", ""),
    ],
)
def test_messages_that_make_no_sense_are_answered(
    model: Model, message: Any, expected: str
) -> None:
    live = LiveTraining()
    live.begin(model, 10)
    live.widget._handle_custom_msg(message, [])
    assert expected in live.widget.status["error"]
    assert live.widget.status["state"] == "running"


def test_errors_of_fit_are_raised_by_wait(model: Model) -> None:
    live = train(model, {"x": X}, steps=10)
    with pytest.raises(WgccError, match="y"):
        live.wait(LONG)
    assert live.widget.status["state"] == "failed" and "y" in live.widget.status["error"]


def test_a_training_that_goes_on_has_no_history(model: Model) -> None:
    live = train(model, DATA, steps=10**9)
    with pytest.raises(WgccError, match="has not ended after 0"):
        live.wait(0)
    live.stop()
    live.wait(LONG)


def test_single_steps_of_a_callback_are_reported(model: Model) -> None:
    """`hold` of any callback limits how many steps are submitted at once."""

    class OneByOne:
        def hold(self, step: int) -> int | None:
            return 1 if step < 30 else 0

        def __call__(self, report: Report) -> None: ...

    history = model.fit(DATA, steps=100, every=10, callbacks=[OneByOne()])
    assert history.stopped == "callback" and model.steps_done == 30
    assert history.steps[-20:] == list(range(11, 31))


def test_the_same_bits_with_pauses(model: Model) -> None:
    """Single steps take batches that were cut for a longer submit, none twice and none lost."""
    rng = np.random.default_rng(3)

    class Random:
        def hold(self, _: int) -> int | None:
            return int(rng.integers(1, 4)) if rng.random() < 0.5 else None

        def __call__(self, report: Report) -> None: ...

    data = {"x": rng.normal(size=(64, 1)).astype("f"), "y": rng.normal(size=(64, 1)).astype("f")}
    model.fit(data, steps=200, every=50, seed=5, callbacks=[Random()])
    other = wgcc.compile(LINE, constants={"rate": 0.01})
    other.fit(data, steps=200, every=50, seed=5)
    assert np.array_equal(model.parameters["fc.w"], other.parameters["fc.w"])


def test_points_are_few_and_the_last_is_there() -> None:
    points = Points()
    for step in range(10_000):
        points.add(step, float(step))
    assert len(points.pairs) <= MOST_POINTS + 1
    assert points.pairs[0] == [0, 0.0] and points.pairs[-1] == [9999, 9999.0]
    assert points.pairs == sorted(points.pairs)


def test_captures_are_sent_as_pictures() -> None:
    program = LINE.replace("mse(fc(x), y)", 'mse(capture(fc(x), "guess"), y)')
    model = wgcc.compile(program, capture_stats=["d.fc.w"])
    live = train(model, DATA, steps=20, every=5)
    live.wait(LONG)
    pictures = {picture["name"]: picture for picture in live.widget.captures}
    assert pictures.keys() == {"guess", "d.fc.w"} == set(model.captured)
    guess, gradient = pictures["guess"], pictures["d.fc.w"]
    assert guess["shape"] == [4, 1] and sum(guess["bins"]) == 4
    assert guess["high"] == pytest.approx(float(model.captured["guess"].max()))
    assert [len(row) for row in guess["map"]] == [1, 1, 1, 1]
    assert gradient["shape"] == [1, 1] and sum(gradient["bins"]) == 1 and gradient["map"] == []


def test_pictures_of_captures_are_small() -> None:
    large = _picture(np.arange(600 * 500.0).reshape(2, 300, 500))
    assert (len(large["map"]), len(large["map"][0])) == (32, 32)
    assert large["map"][0][0] == 0 and 120 < large["map"][-1][-1] < 130
    odd = _picture(np.array([[np.nan, np.inf], [1.0, 1.0]]))
    assert odd["nan"] == 1 and odd["map"][1] == [0, 0] and json.dumps(odd)
    empty = _picture(np.zeros((0, 3)))
    assert empty["map"] == [] and sum(empty["bins"]) == 0


def test_commands_after_the_end_change_nothing() -> None:
    control = Control()
    control.stop()
    for command in (control.pause, control.resume, control.step):
        command()
        assert control.state == "stopped" and control.hold(pytest.fail) == 0


def test_importing_the_runtime_imports_nothing_of_notebooks() -> None:
    code = (
        "import sys; before = set(sys.modules); import wgcc_runtime\n"
        "new = sorted(m for m in set(sys.modules) - before if m.startswith('wgcc_runtime'))\n"
        "outside = {'anywidget', 'ipywidgets', 'traitlets', 'IPython', 'marimo', 'comm'}\n"
        "assert not outside & set(sys.modules), outside & set(sys.modules)\n"
        "assert not [m for m in new if 'notebook' in m or 'progress' in m], new\n"
        "print(len(new))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 1
