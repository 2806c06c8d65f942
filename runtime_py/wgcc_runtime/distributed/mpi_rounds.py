"""How processes of an MPI job end a round of local steps together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from wgcc_runtime.distributed.agreement import Outcome
from wgcc_runtime.distributed.rounds import allowed_seconds

TAG = 18


class EndOfRound:
    """Ends a round: a process that has made all its steps says so, and the others stop later."""

    def __init__(self, comm: Any, slack: float) -> None:
        self._comm, self._slack = comm, slack
        self._started = time.monotonic()
        self._until = float("inf")
        self._received = 0
        self._sent: list[Any] = []

    def is_over(self) -> bool:
        while self._comm.iprobe(tag=TAG):
            self._receive()
        return time.monotonic() > self._until

    def announce(self, outcome: Outcome, count: int) -> None:
        """A process that failed ends the round at once."""
        if not _is_ready(outcome, count):
            return
        seconds = time.monotonic() - self._started
        wait = 0.0 if outcome.failure else allowed_seconds(seconds, self._slack) - seconds
        others = [rank for rank in range(self._comm.size) if rank != self._comm.rank]
        self._sent = [self._comm.isend(wait, dest=rank, tag=TAG) for rank in others]

    def close(self, outcomes: Sequence[Outcome], count: int) -> None:
        """Takes what others have announced, so that it is not there in the next round."""
        others = [outcome for outcome in outcomes if outcome.rank != self._comm.rank]
        announced = sum(_is_ready(outcome, count) for outcome in others)
        while self._received < announced:
            self._receive()
        for request in self._sent:
            request.wait()

    def _receive(self) -> None:
        wait = self._comm.recv(tag=TAG)
        self._received += 1
        self._until = min(self._until, time.monotonic() + wait)


def _is_ready(outcome: Outcome, count: int) -> bool:
    return outcome.steps == count or outcome.failure is not None
