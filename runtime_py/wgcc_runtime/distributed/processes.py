"""The processes of an MPI job: what they agree on, and the mean of what they have."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from socket import gethostname
from typing import Any, TypeVar

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.distributed.agreement import Failure
from wgcc_runtime.distributed.averaging import cuts, mean
from wgcc_runtime.distributed.launchers import STEP_SIZE, launch, wait_for_messages
from wgcc_runtime.errors import WgccError

T = TypeVar("T")
# Exit codes of a problem and of Ctrl-C.
PROBLEM, INTERRUPTED = 1, 130
# Up to so many bytes of all processes together, one message with everything is faster than two.
SMALL = 1 << 20


class Processes:
    """All make the same calls in the same order.

    An error in what one of them does inside `agree`, `gather` or `lead` is raised by all. Any other
    one that leaves `together` ends all processes, because the others would wait for ever.
    """

    def __init__(self) -> None:
        MPI = _mpi()
        self.comm: Any = MPI.COMM_WORLD
        self.rank, self.size = int(self.comm.rank), int(self.comm.size)
        self._local: Any = MPI.COMM_TYPE_SHARED
        self._known: BaseException | None = None
        _check_size(self.size)

    def count_local(self) -> int:
        """How many of them run on this machine."""
        own = self.comm.Split_type(self._local)
        count = int(own.size)
        own.Free()
        return count

    # ---- errors

    def agree(self, work: Callable[[], T]) -> T:
        """Runs `work` everywhere; an error of one process is raised by all."""
        result, error = _attempt(work)
        self._raise_first(self.failures(error), error)
        return result  # type: ignore[return-value]

    def failures(self, error: Exception | None) -> list[Failure | None]:
        """Gathers the error of each process; meanwhile the others are in a call of `agree`."""
        failures: list[Failure | None] = self.comm.allgather(_as_sent(error))
        return failures

    def gather(self, work: Callable[[], T]) -> list[T]:
        """Runs `work` everywhere; all get all results, in the order of ranks."""
        result, error = _attempt(work)
        outcomes = self.comm.allgather((result, _as_sent(error)))
        self._raise_first([failure for _, failure in outcomes], error)
        return [result for result, _ in outcomes]

    def lead(self, work: Callable[[], T]) -> T:
        """Runs `work` on rank 0; all get its result, or raise its error."""
        result, error = _attempt(work) if self.rank == 0 else (None, None)
        result, failure = self.comm.bcast((result, _as_sent(error)))
        if failure:
            place = "worker 0: " if failure.is_unforeseen else ""
            self.fail(WgccError(failure.code, f"{place}{failure.message}"), error)
        done: T = result
        return done

    def fail(self, error: WgccError, cause: BaseException | None = None) -> None:
        """Raises an error that all processes know of and raise now."""
        self._known = error
        raise error from cause

    def _raise_first(self, failures: Sequence[Failure | None], cause: BaseException | None) -> None:
        for rank, failure in enumerate(failures):
            if failure:
                same = all(other == failure for other in failures)
                place = "" if same else f"worker {rank}: "
                self.fail(WgccError(failure.code, f"{place}{failure.message}"), cause)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Within this, no process is left waiting for one that has failed."""
        try:
            yield
        except BaseException as error:
            if self.size > 1 and error is not self._known:
                self._end(error)
            raise

    def _end(self, error: BaseException) -> None:
        """Ends all processes with the message of this one."""
        code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else PROBLEM
        if code == PROBLEM:
            if os.environ.get("WGCC_TRACEBACK"):
                traceback.print_exception(error)
            failure = Failure.of(error, own=True)
            print(f"error[{failure.code}]: worker {self.rank}: {failure.message}", file=sys.stderr)
            wait_for_messages()
        self.comm.Abort(code)
        # Some versions of MPI return while they end the others.
        os._exit(code)

    # ---- numbers

    def mean(self, flat: Array, weights: Sequence[float] | None = None) -> Array:
        """The mean over all processes, added up in the order of ranks."""
        flat = np.ascontiguousarray(flat, np.float32)
        if self.size * flat.nbytes <= SMALL:
            return mean(list(self.all_of(flat)), weights)
        return self._mean_of_parts(flat, weights)

    def all_of(self, numbers: Array) -> Array:
        """Gathers `numbers`, which are equally many on all processes: one row for each rank."""
        rows = np.empty((self.size, numbers.size), numbers.dtype)
        self.comm.Allgather(numbers, rows)
        return rows

    def _mean_of_parts(self, flat: Array, weights: Sequence[float] | None) -> Array:
        """Each process adds up one part, and sends it to all."""
        ends = cuts(flat.size, self.size)
        counts = [end - start for start, end in pairwise(ends)]
        own = counts[self.rank]
        received = np.empty((self.size, own), np.float32)
        self.comm.Alltoallv(
            [flat, (counts, ends[:-1])],
            [received, ([own] * self.size, [own * i for i in range(self.size)])],
        )
        result = np.empty(flat.size, np.float32)
        self.comm.Allgatherv(mean(list(received), weights), [result, (counts, ends[:-1])])
        return result


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        # A RuntimeError: there is mpi4py, but no MPI library.
        launcher, reason = launch(), str(error).split("\n", 1)[0]
        text = f"{launcher.command} started {launcher.processes}, but " if launcher.command else ""
        text += f"mpi4py cannot be imported on {gethostname()}"
        raise WgccError("no-mpi", f"{text} ({reason}): pip install 'wgcc[mpi]'") from None
    return MPI


def _check_size(size: int) -> None:
    launcher = launch()
    if launcher.size is None or size >= launcher.size:
        return
    text = f"{launcher.command} started {launcher.size} processes, but mpi4py sees {size}: "
    advice = (
        "they are of different MPI libraries (pip install 'wgcc[mpi]' has an mpiexec that fits)"
    )
    if launcher.command == "srun":
        advice = "use a kind of MPI that your library knows (srun --mpi=list; --mpi=pmi2, pmix); "
        advice += f"for processes that train alone, unset {STEP_SIZE}"
    raise WgccError("no-mpi", text + advice)


def _attempt(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return work(), None
    except Exception as error:
        return None, error


def _as_sent(error: Exception | None) -> Failure | None:
    return None if error is None else Failure.of(error, own=True)
