"""`wgcc train` with several workers: the processes of an MPI job, or actors of a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.commands.train import (
    Interruption,
    TrainingJob,
    check_batch,
    evaluation_of,
    read_for,
    summary,
)
from wgcc.cli.failures import PROBLEM, warnings_printed
from wgcc.cli.printing import mute, say
from wgcc.cli.progress import Loading

if TYPE_CHECKING:
    from wgcc_runtime.history import History
    from wgcc_runtime.mpi import Processes


def started_together() -> str:
    """The command that started this process with others, such as `mpiexec`; empty if none did."""
    from wgcc_runtime.distributed.launchers import launch
    from wgcc_runtime.mpi import is_parallel

    own_launch = launch()
    if not is_parallel():
        return ""
    if own_launch.rank > 0:
        mute()
    return own_launch.command


def run_mpi(job: TrainingJob, as_json: bool) -> None:
    """Every process runs this; rank 0 alone prints and writes."""
    from wgcc_runtime.distributed.launchers import launch

    processes = _join_processes()
    with processes.together():
        # As others do whose arguments are wrong: see `usage_errors`.
        processes.agree(lambda: None)
        done, history, seconds = _train_mpi(job, processes)
    prefix = f"{launch().command} -n {processes.size} "
    summary(done, job, history, seconds, as_json and processes.rank == 0, prefix)


def _join_processes() -> Processes:
    from wgcc_runtime.distributed.launchers import end_others
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.mpi import Processes

    try:
        return Processes()
    except WgccError as error:
        # Perhaps MPI is missing on this machine only: whichever it is, it says so.
        click.echo(f"error[{error.code}]: {error.message}", err=True)
        end_others(PROBLEM)
        raise click.exceptions.Exit(PROBLEM) from None


def _train_mpi(job: TrainingJob, processes: Processes) -> tuple[int, History, float]:
    import wgcc_runtime
    from wgcc_runtime import mpi

    _share_cores(processes.count_local())

    def prepare() -> Any:
        model = wgcc_runtime.load(
            job.bundle,
            device=job.device,
            weights=job.weights,
            seed=job.seed,
            on_bytes=Loading(),
            fast=job.fast,
        )
        data = read_for(model.plan, job, model)
        check_batch(model.plan, job)
        return model, *evaluation_of(model.plan, job, data)

    model, data, evaluation = processes.agree(prepare)
    say(f"training `{job.entry}` of {model.plan.model} with {processes.size} workers (MPI)")
    started = time.perf_counter()
    with Interruption() as interruption, warnings_printed(), _progress(job, processes) as show:
        history = mpi.fit(
            model,
            job.bundle,
            data,
            processes,
            eval=evaluation,
            notice=say,
            callbacks=[show],
            stop=interruption.is_wanted,
            **_options(job),
        )
    return model.progress.step(job.entry), history, time.perf_counter() - started


def _options(job: TrainingJob) -> dict[str, Any]:
    return {
        "entry": job.entry,
        "steps": job.steps,
        "every": job.every,
        "log": job.log,
        "checkpoint": job.out,
        "resume": job.resume,
        "seed": job.seed,
        "sync_every": job.sync_every,
        "outer_lr": job.outer_lr,
        "outer_momentum": job.outer_momentum,
        "sync_slack": job.sync_slack,
    }


def _share_cores(workers: int) -> None:
    """One thread for each worker of this machine, where there are not two cores for each."""
    if workers * 2 > (os.cpu_count() or 1):
        os.environ.setdefault("WGCC_THREADS", "1")


@contextlib.contextmanager
def _progress(job: TrainingJob, processes: Processes) -> Iterator[Any]:
    from wgcc.cli.progress import make_progress

    if processes.rank > 0:
        yield lambda _: None
        return
    with make_progress(job.steps) as progress:
        yield progress.show


def run_ray(job: TrainingJob, as_json: bool) -> None:
    """The driver: it reads data, prints and writes; actors compute."""
    from wgcc.cli.progress import make_progress
    from wgcc_runtime import ray
    from wgcc_runtime.bundle_files import open_bundle
    from wgcc_runtime.loader import load_plan
    from wgcc_runtime.values import StartValues

    assert job.workers is not None
    plan = load_plan(job.bundle)
    check_batch(plan, job)
    values = StartValues(plan, open_bundle(job.bundle), job.weights)
    data, evaluation = evaluation_of(plan, job, read_for(plan, job, values))
    least, most = job.workers
    count = f"{least}" if least == most else f"{least} to {most}"
    say(f"training `{job.entry}` of {plan.model} with {count} workers (Ray)")
    started = time.perf_counter()
    with Interruption() as interruption, warnings_printed(), make_progress(job.steps) as progress:
        history = ray.fit(
            job.bundle,
            data,
            job.workers,
            address=job.ray,
            device=job.device,
            weights=job.weights,
            cores=1 if job.cores is None else job.cores,
            gpus=job.gpus or 0,
            notice=say,
            eval=evaluation,
            callbacks=[progress.show],
            stop=interruption.is_wanted,
            **_options(job),
        )
    done = history.steps_done
    summary(done, job, history, time.perf_counter() - started, as_json)
