"""Reads from environment variables what started a process, together with how many others.

Nothing of MPI is loaded for this, since most processes are started alone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# How many processes were started together: by MPICH, Intel MPI, MS-MPI and `srun --mpi=pmi2`, by
# Open MPI, by MVAPICH, and by IBM's jsrun.
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE")
# The number of this process: by the same, by PMIx (`srun --mpi=pmix`), and on Cray's machines.
RANKS = (
    "PMI_RANK",
    "OMPI_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_RANK",
    "JSM_NAMESPACE_RANK",
    "PMIX_RANK",
    "PALS_RANKID",
    "ALPS_APP_PE",
)
# Slurm's own: of the step that `srun` has started, and of the whole job, which a script has, too.
STEP_SIZE, JOB_SIZE, STEP_RANK = "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_PROCID"
# An `mpiexec` inside a job of Slurm sets one of these.
OF_MPIEXEC = ("MPI_LOCALNRANKS", *SIZES[1:])

MESSAGE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Launch:
    """`size`: None if only the rank is known; MPI itself knows whether there are others."""

    command: str
    size: int | None
    rank: int

    @property
    def processes(self) -> str:
        return "processes" if self.size is None else f"{self.size} processes"


def launch(variables: Mapping[str, str] = os.environ) -> Launch:
    """Started alone: size 1. Of two launchers, one inside the other, Slurm's is the outer one."""
    rank, size = _first(RANKS, variables), _first(SIZES, variables)
    if not any(name in variables for name in OF_MPIEXEC):
        tasks = _first([STEP_SIZE] if rank is None else [STEP_SIZE, JOB_SIZE], variables)
        if tasks is not None:
            own = _first([STEP_RANK], variables) if rank is None else rank
            return Launch("srun", tasks if size is None else size, own or 0)
    if rank is None and size is None:
        return Launch("", 1, 0)
    return Launch("mpiexec", size, rank or 0)


def end_others(code: int) -> None:
    """Ends the processes that were started with this one, if it cannot do so by MPI itself.

    MPICH and Intel MPI go on when one of them exits before it has joined; others end by themselves.
    """
    manager = os.environ.get("PMI_FD", "")
    if manager.isdigit():
        wait_for_messages()
        with contextlib.suppress(OSError):
            os.write(int(manager), f"cmd=abort exitcode={code}\n".encode())


def wait_for_messages() -> None:
    """Waits before all processes are ended: `mpiexec` loses what it has not passed on by then."""
    sys.stderr.flush()
    time.sleep(MESSAGE_SECONDS)


def _first(names: Sequence[str], variables: Mapping[str, str]) -> int | None:
    texts = [variables[name] for name in names if name in variables]
    numbers = [int(text) for text in texts if text.isascii() and text.isdigit()]
    return numbers[0] if numbers else None
