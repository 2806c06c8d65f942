"""Errors become texts and exit codes: those of the runtime, and those in the arguments of a
command, which several processes may run together. Warnings of the runtime become lines."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, cast

import click

from wgcc.cli.printing import say

# Exit codes.
PROBLEM, USAGE, CHECK_FAILED, INTERRUPTED = 1, 2, 3, 130

# Codes of the runtime that mean a numeric check failed.
_NUMERIC_CODES = ("nan", "selftest")


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Turns an error of the runtime into `error[code]: text` and the matching exit code, and its
    warnings into lines."""
    from wgcc_runtime.errors import WgccError

    try:
        with warnings_printed():
            yield
    except WgccError as error:
        say(f"error[{error.code}]: {error.message}", style="error")
        code = CHECK_FAILED if error.code in _NUMERIC_CODES else PROBLEM
        raise click.exceptions.Exit(code) from None


@contextlib.contextmanager
def warnings_printed() -> Iterator[None]:
    """Within this, a warning of the runtime is printed at once, as `warning: text`."""
    from wgcc_runtime.errors import WgccWarning

    with warnings.catch_warnings():
        others: Any = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if issubclass(category, WgccWarning):
                say(f"warning: {message}", style="warning")
            else:
                others(message, category, *place)

        warnings.simplefilter("always", WgccWarning)
        warnings.showwarning = cast("Any", show)
        yield


# The command that `mpiexec` may have started several times.
JOINT = "train"


def report(error: click.ClickException, arguments: Sequence[str]) -> int:
    """Shows an error; the result is the exit code."""
    if JOINT in arguments[:1]:
        from wgcc_runtime.distributed.launchers import launch

        if launch().size != 1:
            return _report_together(error)
    error.show()
    return error.exit_code


def _report_together(error: click.ClickException) -> int:
    """A file that only this process lacks, for example: the others would wait for it for ever."""
    from wgcc_runtime.distributed.launchers import end_others
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.mpi import Processes

    own = WgccError("usage", error.format_message())
    try:
        processes = Processes()
    except WgccError:
        error.show()
        end_others(error.exit_code)
        return error.exit_code
    errors = processes.failures(own)
    if all(other == errors[0] for other in errors):
        if processes.rank == 0:
            error.show()
        return error.exit_code
    if processes.rank == 0:
        say(f"error[usage]: worker 0: {own.message}", style="error")
    return PROBLEM
