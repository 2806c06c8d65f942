"""Commands to a training that runs in another thread, or in a cell that is still busy."""

from __future__ import annotations

import threading
from collections.abc import Callable

# How long a pause waits at once; between, an interrupt of the kernel is noticed on every system.
WAIT_SECONDS = 0.2
RUNNING, PAUSED, STOPPED = "running", "paused", "stopped"


class Control:
    """Any thread commands; the training calls `hold` between its submits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._state = RUNNING
        self._steps = 0
        self._settings: dict[str, float] = {}

    @property
    def state(self) -> str:
        return self._state

    def pause(self) -> None:
        self._set(PAUSED)

    def resume(self) -> None:
        self._set(RUNNING)

    def stop(self) -> None:
        self._set(STOPPED)

    def step(self) -> None:
        """One more step, then a pause."""
        with self._changed:
            if self._state != STOPPED:
                self._state = PAUSED
                self._steps += 1
            self._changed.notify_all()

    def set(self, name: str, number: float) -> None:
        """A setting for the steps that follow."""
        with self._changed:
            self._settings[name] = number
            self._changed.notify_all()

    def _set(self, state: str) -> None:
        with self._changed:
            if self._state != STOPPED:
                self._state, self._steps = state, 0
            self._changed.notify_all()

    def take_settings(self) -> dict[str, float]:
        """Those that were set since the last call."""
        with self._changed:
            settings, self._settings = self._settings, {}
        return settings

    def hold(self, show_pause: Callable[[], None]) -> int | None:
        """Waits while paused; returns how many steps may follow at once: 0 ends the training.

        `show_pause` is called when the wait begins, and without the lock: it sends messages.
        """
        is_shown = False
        while True:
            with self._changed:
                if self._state != PAUSED:
                    return 0 if self._state == STOPPED else None
                if self._steps:
                    self._steps -= 1
                    return 1
                if is_shown:
                    self._changed.wait(WAIT_SECONDS)
                    continue
            show_pause()
            is_shown = True
