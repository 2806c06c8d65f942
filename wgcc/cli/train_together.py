"""`wgcc train` with several workers: the processes of an MPI job, or actors of a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.failures import warnings_printed
from wgcc.cli.group import INTERRUPTED, PROBLEM
from wgcc.cli.printing import mute, say
from wgcc.cli.train import Interruption, Job, check_batch, evaluation_of, read_for, summary

if TYPE_CHECKING:
    from wgcc_runtime.mpi import Processes

# Variables in which process managers say how many processes they started on this machine.
LOCAL_SIZES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")


def run_mpi(job: Job, as_json: bool) -> None:
    """Every process runs this; rank 0 alone prints and writes."""
    from wgcc_runtime.mpi import Processes

    processes = Processes()
    if processes.rank > 0:
        mute()
    _share_cores()
    with _aborting(processes):
        _train_mpi(job, as_json and processes.rank == 0, processes)


def _train_mpi(job: Job, as_json: bool, processes: Processes) -> None:
    import wgcc_runtime
    from wgcc_runtime import mpi

    def prepare() -> Any:
        model = wgcc_runtime.load(
            job.bundle, device=job.device, weights=job.weights, seed=job.seed, verify=True
        )
        data = read_for(model.plan, job, model.preparation)
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
            callbacks=[show],
            stop=interruption.is_wanted,
            **_options(job),
        )
    seconds, prefix = time.perf_counter() - started, f"mpiexec -n {processes.size} "
    summary(model.progress.step(job.entry), job, history, seconds, as_json, prefix)


def _options(job: Job) -> dict[str, Any]:
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
    }


def _share_cores() -> None:
    """One thread for each worker, where there are not two cores for each."""
    found = [int(os.environ[n]) for n in LOCAL_SIZES if os.environ.get(n, "").isdigit()]
    if max(found, default=1) * 2 > (os.cpu_count() or 1):
        os.environ.setdefault("WGCC_THREADS", "1")


@contextlib.contextmanager
def _progress(job: Job, processes: Processes) -> Iterator[Any]:
    from wgcc.cli.progress import make_progress

    if processes.rank > 0:
        yield lambda _: None
        return
    with make_progress(job.steps) as progress:
        yield progress.show


@contextlib.contextmanager
def _aborting(processes: Processes) -> Iterator[None]:
    """What only this process knows of ends the others, too: they would wait for it for ever."""
    from wgcc_runtime.errors import WgccError

    try:
        yield
    except (WgccError, click.exceptions.Exit):
        raise
    except KeyboardInterrupt:
        processes.abort(INTERRUPTED)
        raise
    except BaseException as error:
        click.echo(f"error: worker {processes.rank}: {type(error).__name__}: {error}", err=True)
        processes.abort(PROBLEM)
        raise


def run_ray(job: Job, as_json: bool) -> None:
    """The driver: it reads data, prints and writes; actors compute."""
    from wgcc.cli.progress import make_progress
    from wgcc_runtime import ray
    from wgcc_runtime.bundle_files import open_bundle
    from wgcc_runtime.loader import load_plan
    from wgcc_runtime.values import StartValues

    assert job.workers is not None
    plan = load_plan(job.bundle)
    check_batch(plan, job)
    known = StartValues(plan, open_bundle(job.bundle), job.weights).preparation
    data, evaluation = evaluation_of(plan, job, read_for(plan, job, known))
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
            notice=say,
            eval=evaluation,
            callbacks=[progress.show],
            stop=interruption.is_wanted,
            **_options(job),
        )
    done = history.steps_done
    summary(done, job, history, time.perf_counter() - started, as_json)
