"""Which processes `wgcc train` takes for workers of one training, and options that need workers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wgcc.cli import main
from wgcc_runtime import WgccError, mpi
from wgcc_runtime.distributed.launchers import RANKS, SIZES, STEP_SIZE, launch
from wgcc_runtime.distributed.setup import checked_options

STEP = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4", "SLURM_PROCID": "3"}
BATCH = {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}
# Variables, then the launcher, the number of processes, and that of this one.
LAUNCHED = {
    "alone": ({}, "", 1, 0),
    "mpich": ({"PMI_SIZE": "4", "PMI_RANK": "2", "MPI_LOCALNRANKS": "4"}, "mpiexec", 4, 2),
    "intel": ({"PMI_SIZE": "8", "PMI_RANK": "0", "I_MPI_INFO_NP": "8"}, "mpiexec", 8, 0),
    "openmpi": (
        {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1"},
        "mpiexec",
        3,
        1,
    ),
    "mvapich": ({"MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_RANK": "1"}, "mpiexec", 2, 1),
    "jsrun": ({"JSM_NAMESPACE_SIZE": "6", "JSM_NAMESPACE_RANK": "5"}, "mpiexec", 6, 5),
    "srun-pmi2": ({**STEP, "PMI_RANK": "3", "PMI_SIZE": "4"}, "srun", 4, 3),
    "srun-pmix": ({**STEP, "PMIX_RANK": "3"}, "srun", 4, 3),
    "srun-old": ({"SLURM_NTASKS": "8", "PMI_RANK": "7"}, "srun", 8, 7),
    "srun-none": (STEP, "srun", 4, 3),
    "srun-one": ({"SLURM_STEP_NUM_TASKS": "1", "PMIX_RANK": "0"}, "srun", 1, 0),
    "script": (BATCH, "", 1, 0),
    "mpich-in-slurm": (
        {**STEP, "PMI_SIZE": "16", "PMI_RANK": "5", "MPI_LOCALNRANKS": "8"},
        "mpiexec",
        16,
        5,
    ),
    "openmpi-in-slurm": (
        {**BATCH, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1"},
        "mpiexec",
        2,
        1,
    ),
    "pmix-alone": ({"PMIX_RANK": "1"}, "mpiexec", None, 1),
    "cray": ({"ALPS_APP_PE": "3"}, "mpiexec", None, 3),
    "damaged": ({"PMI_SIZE": "many", "PMI_RANK": ""}, "", 1, 0),
}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SIZES, *RANKS, STEP_SIZE):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("case", LAUNCHED)
def test_launchers_are_recognised(case: str) -> None:
    variables, command, size, rank = LAUNCHED[case]
    found = launch(variables)
    assert (found.command, found.size, found.rank) == (command, size, rank)


def test_mpi_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not mpi.is_parallel()
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setenv(STEP_SIZE, "4")
    assert mpi.is_parallel()
    with pytest.raises(WgccError, match=r"^no-mpi: srun started 4 processes.*pip install"):
        mpi.Processes()
    monkeypatch.delenv(STEP_SIZE)
    # Only MPI knows how many there are.
    monkeypatch.setenv("PMIX_RANK", "0")
    with pytest.raises(WgccError, match=r"^no-mpi: mpiexec started processes, but mpi4py cannot"):
        mpi.is_parallel()
    monkeypatch.delenv("PMIX_RANK")
    with pytest.raises(WgccError, match=r"^no-mpi: mpi4py cannot be imported on"):
        mpi.Processes()


def test_a_library_of_mpi_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """mpi4py raises this when it finds none."""

    class Missing:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "mpi4py.MPI":
                raise RuntimeError("cannot load MPI library\nlibmpi.so: no such file")

    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    import mpi4py

    monkeypatch.delattr(mpi4py, "MPI", raising=False)
    with pytest.raises(WgccError, match=r"^no-mpi: .*\(cannot load MPI library\): pip install"):
        mpi.Processes()


MANY = {"PMI_SIZE": "2", "PMI_RANK": "0"}
REFUSED = [
    ("--outer-lr 0.7 --workers 2", {}, "--outer-lr needs --sync-every N"),
    ("--outer-momentum 0", MANY, "--outer-momentum needs --sync-every N"),
    ("--sync-every 5", {}, "--sync-every needs several workers: --workers N, or mpiexec -n N"),
    ("--sync-every 5 --outer-lr 1", {}, "--sync-every needs several workers"),
    ("--ray auto", {}, "--ray needs --workers N"),
    ("--workers 2", MANY, "--workers is for workers of Ray, but mpiexec has started"),
    ("--ray auto", {STEP_SIZE: "2"}, "--ray is for workers of Ray, but srun has started"),
]


@pytest.mark.parametrize(("options", "variables", "message"), REFUSED)
def test_options_without_effect_are_refused(
    options: str,
    variables: dict[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["train", str(tmp_path), *options.split()]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("given", [{}, {"steps": None}])
def test_several_workers_need_steps(given: dict[str, None]) -> None:
    with pytest.raises(WgccError, match=r"^data: fit of several workers needs `steps`"):
        checked_options(given)


@pytest.mark.parametrize("name", ["outer_lr", "outer_momentum"])
def test_options_of_rare_exchange_need_it(name: str) -> None:
    with pytest.raises(WgccError, match=f"`{name}` is for weights that .*: it needs `sync_every`"):
        checked_options({"steps": 1, name: 0.5})
    assert checked_options({"steps": 1, "sync_every": 2, name: 0.5}).outer
