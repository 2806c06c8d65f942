"""Errors in the arguments of a command, one of which several processes may run together."""

from __future__ import annotations

from collections.abc import Sequence

import click

from wgcc.cli.group import PROBLEM
from wgcc.cli.printing import say

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
    found = processes.failures(own)
    if all(other == found[0] for other in found):
        if processes.rank == 0:
            error.show()
        return error.exit_code
    if processes.rank == 0:
        say(f"error[usage]: worker 0: {own.message}", style="error")
    return PROBLEM
