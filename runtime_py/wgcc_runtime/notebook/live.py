"""A training that a notebook shows while it runs; `train` runs it beside the kernel."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.notebook.captures import capture_pictures
from wgcc_runtime.notebook.control import PAUSED, RUNNING, STOPPED, Control
from wgcc_runtime.notebook.display import display
from wgcc_runtime.notebook.points import Points
from wgcc_runtime.notebook.widget import TrainingWidget
from wgcc_runtime.progress import Pace

if TYPE_CHECKING:
    from wgcc_runtime.history import History, Report
    from wgcc_runtime.model import Model

# Front ends draw no faster, and each update is a message.
UPDATE_SECONDS = 0.1
STARTING, FINISHED, FAILED = "starting", "finished", "failed"


def train(model: Model, batches: Any, y: Any = None, **options: Any) -> LiveTraining:
    """As `model.fit(batches, y, …)`, but the cell ends at once and training goes on beside it.

    Returns what a notebook shows as a curve with controls: pause, step, stop, live settings.
    `wait()` gives the `History`.
    """
    live = LiveTraining()
    callbacks = [*options.pop("callbacks", ()), live]
    options = {"progress": False, **options, "callbacks": callbacks}
    live.start(lambda: model.fit(batches, y, **options))
    return live


class LiveTraining:
    """A callback of `fit` with a widget. Its methods may be called from any thread."""

    def __init__(self, steps: int | None = None, shows: bool = False) -> None:
        """`steps`: how many `fit` makes, if known beforehand; `shows`: as soon as it begins."""
        self._given, self._shows = steps, shows
        self._control = Control()
        self.widget = TrainingWidget(self._receive)
        self.widget.status = {"state": STARTING}
        self._model: Model | None = None
        self._last: int | None = None
        self._report: Report | None = None
        self._pace = Pace()
        self._curve, self._evaluated = Points(), dict[str, Points]()
        self._sent_at = -math.inf
        self._thread: threading.Thread | None = None
        self._history: History | None = None
        self._failure: BaseException | None = None

    # ---- commands

    def pause(self) -> None:
        """After the steps that the device is computing."""
        self._control.pause()

    def resume(self) -> None:
        self._control.resume()

    def step(self) -> None:
        """Makes one step, and pauses."""
        self._control.step()

    def stop(self) -> None:
        """Ends the training; the model keeps what it learned."""
        self._control.stop()

    def set(self, name: str, number: float) -> None:
        """A live setting, such as the learning rate, from the next submit on."""
        known = self._live_settings()
        if name not in known:
            there = ", ".join(known) or "none: give wgcc.compile a number for it, as a float"
            raise WgccError("name", f"`{name}` is no live setting; there are {there}", name)
        if not math.isfinite(number):
            raise WgccError("range", f"`{name}` is {number}, not a finite number", name)
        self._control.set(name, float(number))

    def wait(self, timeout: float | None = None) -> History:
        """Waits for the end, and raises what `fit` raised. Ends training if it is interrupted."""
        if self._thread is not None:
            try:
                self._thread.join(timeout)
            except KeyboardInterrupt:
                self.stop()
                raise
        if self._failure is not None:
            raise self._failure
        if self._history is None:
            raise WgccError("busy", f"training has not ended after {timeout} seconds")
        return self._history

    @property
    def history(self) -> History | None:
        """None until the training has ended."""
        return self._history

    def start(self, fit: Any) -> None:
        """Runs `fit`, which has this object among its callbacks, in a thread."""
        self._thread = threading.Thread(target=self._run, args=(fit,), daemon=True)
        self._thread.start()

    def _run(self, fit: Any) -> None:
        try:
            self._history = fit()
        except BaseException as failure:  # it is raised again by `wait`
            self._failure = failure
            self._send(FAILED, error=str(failure) or type(failure).__name__)

    def _receive(self, command: Mapping[str, Any]) -> None:
        """A message of the front end; one that makes no sense is answered, not raised."""
        kind = command.get("kind")
        simple = {"pause": self.pause, "resume": self.resume, "step": self.step, "stop": self.stop}
        try:
            if kind in simple:
                simple[kind]()
            elif kind == "set":
                self.set(str(command.get("name")), float(command.get("value", "nan")))
            self.widget.send({"kind": "heard"})
        except (WgccError, TypeError, ValueError) as error:
            self._send(None, error=str(error))
            self.widget.send({"kind": "heard"})

    # ---- a callback of fit

    def begin(self, model: Model, last: int | None) -> None:
        self._model = model
        self._last = last or (model.steps_done + self._given if self._given else None)
        self.widget.settings = {
            # The decimal number that a reader wrote, not the f32 next to it.
            name: float(f"{float(model.parameters[state]):.7g}")
            for name, state in self._live_settings().items()
        }
        self._send(RUNNING)
        if self._shows:
            display(self.widget)

    def __call__(self, report: Report) -> None:
        self._report = report
        self._pace.add(report)
        self._curve.add(report.step, report.loss)
        for name, number in report.eval.items():
            self._evaluated.setdefault(name, Points()).add(report.step, number)
        if time.monotonic() - self._sent_at > UPDATE_SECONDS:
            self._send(None)
            self._send_captures()

    def end(self, _model: Model) -> None:
        """The captures of the last step stay."""
        self._send_captures()

    def hold(self, _step: int) -> int | None:
        most = self._control.hold(self._show_pause)
        self._apply_settings()
        if most is None and self.widget.status["state"] == PAUSED:
            self._send(RUNNING)
        return most

    def _show_pause(self) -> None:
        """Only now: the device was still computing steps when the pause was asked for."""
        self._send(PAUSED)
        self._send_captures()

    def close(self) -> None:
        """The last picture stays, also in a notebook that is saved."""
        is_stopped = self._control.state == STOPPED
        self._send(STOPPED if is_stopped else FINISHED)

    def _send_captures(self) -> None:
        """Only the training's own thread may read them, between two submits."""
        model = self._model
        if model is None:
            return
        # An evaluation may have run since the last step.
        trained = [name for name in model._captures if model.plan.entries[name].training]
        # A picture that cannot be read does not end a training.
        with contextlib.suppress(WgccError):
            for name in trained[-1:]:
                self.widget.captures = capture_pictures(model, name)

    def _live_settings(self) -> Mapping[str, str]:
        return {} if self._model is None else self._model.live_settings

    def _apply_settings(self) -> None:
        assert self._model is not None
        states = self._live_settings()
        changed = self._control.take_settings()
        for name, number in changed.items():
            self._model.parameters[states[name]] = number
        if changed:
            self.widget.settings = {**self.widget.settings, **changed}

    def _send(self, state: str | None, error: str = "") -> None:
        """Everything that the widget shows. None: the state that it has."""
        if state is None:
            state = self.widget.status["state"]
        self._sent_at = time.monotonic()
        self.widget.curve = self._curve.pairs
        self.widget.evaluated = {name: points.pairs for name, points in self._evaluated.items()}
        status = {"state": state, "step": 0, "steps": self._last, "error": error}
        if self._report is not None:
            status |= {
                "step": self._report.step,
                "numbers": self._numbers(),
                "pace": self._pace_text(),
            }
        self.widget.status = status

    def _numbers(self) -> dict[str, float]:
        assert self._report is not None
        evaluated = {f"eval {name}": number for name, number in self._report.eval.items()}
        return {**self._report.outputs, **evaluated}

    def _pace_text(self) -> str:
        return self._pace.speed() if self._last is None else self._pace.text(self._last)

    # ---- how notebooks show it

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Jupyter and VS Code."""
        return self.widget._repr_mimebundle_(**options)

    def _display_(self) -> Any:
        """marimo."""
        return self.widget
