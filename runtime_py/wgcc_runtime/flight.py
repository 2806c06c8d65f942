"""Calls in flight: submitted to the GPU, and not yet counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Entry
from wgcc_runtime.runner import Batch, CallError, Runner

Outputs = list[dict[str, Array]]


class Flight:
    """One submit of an entry. The next use of the model lands it, so that all calls are counted."""

    def __init__(
        self, runner: Runner, entry: Entry, first: int, calls: int, count: Callable[[int], None]
    ) -> None:
        """`first` is the number of the first call; `count` is called with how many succeeded."""
        self._runner, self._entry, self._first = runner, entry, first
        self._calls, self._count = calls, count
        self._outputs: Outputs = []
        self._failure: BaseException | None = None
        self.has_landed = False

    def land(self) -> None:
        """Waits for the results and counts the calls. An error is kept for `result` to raise."""
        self.has_landed = True
        made = self._calls
        try:
            self._outputs = self._runner.collect()
        except CallError as error:
            made = error.index
            self._failure = error.at_step(self._entry, self._first + made)
        except BaseException as error:
            made = 0 if _is_lost(error) else self._runner.undo(made)
            self._failure = error
        self._count(made)

    def result(self) -> Outputs:
        """The outputs of each call, after landing."""
        if self._failure:
            raise self._failure
        return self._outputs


class Launcher:
    """Calls one entry of a model, several times in one submit."""

    def __init__(
        self, launch: Callable[[Sequence[Batch], bool], Flight], land: Callable[[], None]
    ) -> None:
        self._launch, self._land = launch, land

    def start(self, batches: Sequence[Batch], from_data: bool = False) -> Flight:
        """Does not wait. `from_data`: the batches are the next ones of the training's data."""
        return self._launch(batches, from_data)

    def finish(self, flight: Flight) -> Outputs:
        if not flight.has_landed:
            self._land()
        return flight.result()

    def run(self, batches: Sequence[Batch]) -> Outputs:
        return self.finish(self.start(batches))


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, WgccError) and error.code == "device-lost"
