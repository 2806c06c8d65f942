"""Data-parallel training on a Ray cluster, whose machines may come and go: `pip install ray`.

`import ray` inside this package is Ray itself: imports are absolute.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import socket
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wgcc_runtime.bundle_files import open_bundle
from wgcc_runtime.checkpoint import resume_checkpoint
from wgcc_runtime.data.preparation import Data, Preparation
from wgcc_runtime.digests import LARGEST
from wgcc_runtime.distributed.identity import identity
from wgcc_runtime.distributed.ray_loopback import on_loopback
from wgcc_runtime.distributed.ray_members import Member, Shipped, Sizes
from wgcc_runtime.distributed.ray_team import RayTeam
from wgcc_runtime.distributed.ray_worker import SIGNALS, Everything, Job
from wgcc_runtime.distributed.reserved import candidates, check_request, threads_for
from wgcc_runtime.distributed.setup import (
    Options,
    Start,
    checked_options,
    open_log,
    rows_of,
    training_plan,
)
from wgcc_runtime.distributed.training import Training
from wgcc_runtime.distributed.worker import Values
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.errors import WgccError
from wgcc_runtime.fit import (
    check_places,
    check_preparation,
    check_training,
    kept_preparation,
    resumed_place,
)
from wgcc_runtime.flight import Progress, exchange_of
from wgcc_runtime.history import History
from wgcc_runtime.loader import load_plan
from wgcc_runtime.plan import Entry, Plan
from wgcc_runtime.replace_file import previous
from wgcc_runtime.values import StartValues

# How long a connection to a cluster may take.
CONNECT_SECONDS = 5.0
# How long missing workers are waited for.
JOIN_SECONDS = 120.0


def fit(
    bundle: str | Path,
    data: Any,
    workers: int | tuple[int, int],
    *,
    address: str | None = None,
    device: str | None = None,
    weights: Any = None,
    threads: int | None = None,
    cores: float = 1,
    gpus: float = 0,
    wait: float = JOIN_SECONDS,
    notice: Callable[[str], Any] = lambda _: None,
    on_workers: Callable[[list[Member]], Any] = lambda _: None,
    **options: Any,
) -> History:
    """Trains a bundle with actors of a Ray cluster; the options are those of `Model.fit`.

    `workers`: how many, or the least and the most: between them workers may come and go. With a
    fixed number the result has the same bits each time, even if workers die and are replaced.
    `address`: of the cluster; none: one on this machine. Each worker gets `cores` and `gpus` of it:
    with a GPU it opens that adapter, without one its twin has as many threads as cores.
    `wait`: seconds for which missing workers are waited for.
    `data`: a dict of arrays with all rows. `seed`: of initial values and of the order of rows.
    `sync_every`, `outer_lr`, `outer_momentum`, `sync_slack`: see `wgcc_runtime.mpi.fit`.
    `notice` gets a line when a worker joins or dies, and now and then one for each worker;
    `on_workers` the list of workers.
    """
    checked, sizes = checked_options({**options, "notice": notice}), _sizes(workers, wait)
    check_request(cores, gpus)
    plan, arrays = load_plan(bundle), rows_of(data)
    entry = _training_entry(plan, checked)
    outer = checked.outer if checked.sync_every is not None else None
    begin, everything, preparation = _start(bundle, plan, checked, data, weights)
    job = Job(checked.entry, device, threads_for(cores, threads), outer, preparation)
    with _cluster(address, sizes.most * cores, gpus, device) as ray:
        shipped = Shipped(
            ray.put(_pack(bundle)), ray.put(dict(arrays)), identity(bundle, "the driver"), job
        )
        team = RayTeam(
            ray,
            _actor_options(cores, gpus, is_signalled=outer is not None),
            shipped, sizes, everything, plan,
            preparation, checked.eval, checked.slack, notice, on_workers,
        )  # fmt: skip
        with contextlib.closing(team):
            log = open_log(checked, begin)
            return Training(team, training_plan(checked, entry, begin), log).run()


def _training_entry(plan: Plan, options: Options) -> Entry:
    entry = check_training(plan, options.entry)
    if options.sync_every is None:
        exchange_of(entry)
    return entry


def _actor_options(cores: float, gpus: float, is_signalled: bool) -> dict[str, Any]:
    signals = {"concurrency_groups": {SIGNALS: 1}} if is_signalled else {}
    return {"num_cpus": cores, "num_gpus": gpus, "max_restarts": 0, **signals}


def _own_gpus(device: str | None) -> int:
    """How many GPUs a cluster on this machine has: Ray itself knows those of few makers."""
    count = len(candidates(device))
    if not count:
        text = "workers with `gpus` need a GPU, and this machine has no adapter for one"
        raise WgccError("no-adapter", text, "gpus")
    return count


def _sizes(workers: Any, wait: float) -> Sizes:
    least, most = workers if isinstance(workers, tuple | list) else (workers, workers)
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (least, most))
    if not whole or not 1 <= least <= most:
        text = f"`workers` is a number above 0, or the least and the most, not {workers!r}"
        raise WgccError("range", text, "workers")
    if not wait >= 0:
        raise WgccError("range", f"`wait` is a number of seconds, not {wait!r}", "wait")
    return Sizes(least, most, wait)


def _start(
    bundle: str | Path, plan: Plan, options: Options, data: Any, weights: Any
) -> tuple[Start, Everything, Preparation | None]:
    """The values that training starts with: initial ones, or those of a checkpoint."""
    check_places(options.checkpoint, options.log, options.resume)
    values = StartValues(plan, open_bundle(bundle), weights)
    words = values.words(checked_seed(options.seed))
    place = resumed_place(options.checkpoint, options.resume)
    if place is None:
        first = Everything(Values(dict(words), Progress(seed=options.seed or 0)), None)
        return Start(0), first, _preparation_to_keep(values.preparation, data)
    checkpoint = resume_checkpoint(place, plan, words)
    if isinstance(data, Data):
        check_preparation(data, checkpoint)
    progress = checkpoint.progress.copy()
    progress.seed = progress.seed if options.seed is None else options.seed
    step = progress.step(options.entry)
    damaged = options.checkpoint and checkpoint.path == previous(Path(options.checkpoint))
    begin = Start(step, True, not damaged, checkpoint.notes)
    resumed = Everything(Values(dict(checkpoint.words), progress), checkpoint.velocity)
    return begin, resumed, _preparation_to_keep(checkpoint.preparation, data)


def _preparation_to_keep(known: Preparation | None, data: Any) -> Preparation | None:
    return kept_preparation(known, data) if isinstance(data, Data) else known


def _pack(bundle: str | Path) -> bytes:
    """The bundle as one .zip, with what runs it."""
    read, stream = open_bundle(bundle), io.BytesIO()
    plan = load_plan(bundle)
    names = ["plan.json", "weights.safetensors", "constants.safetensors"]
    names += [f"{folder}/{k.file}" for k in plan.kernels for folder in ("kernels", "subgroups")]
    names += [plan.twin.file] if plan.twin else []
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            content = read(name, LARGEST)
            if content is not None:
                archive.writestr(name, content)
    return stream.getvalue()


@contextlib.contextmanager
def _cluster(address: str | None, cores: float, gpus: float, device: str | None) -> Iterator[Any]:
    """The module `ray`, connected; a cluster that this started ends with it."""
    # The driver handles deaths of workers itself, and says so in a line.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed")
    if address is None and "ray" not in sys.modules:
        # Ray reads it when it is imported; a mode that is set is the user's.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
    except ImportError as error:
        text = f"Ray cannot be imported ({error}): pip install 'wgcc[ray]'"
        raise WgccError("no-ray", text) from None
    if ray.is_initialized():
        yield ray
        return
    _check_address(address)
    own: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is None:
        own["include_dashboard"] = False
        own["num_cpus"] = max(os.cpu_count() or 1, int(cores) + 1)
        own["num_gpus"] = _own_gpus(device) if gpus else None
    with contextlib.nullcontext() if address else on_loopback():
        try:
            ray.init(address or "local", **own)
        # Ray raises a plain Exception where its processes do not start in time.
        except Exception as error:
            raise _no_connection(address, str(error).strip()) from None
        try:
            yield ray
        finally:
            ray.shutdown()


def _no_connection(address: str | None, text: str) -> WgccError:
    """A connection to a cluster of other versions leaves nothing that could go on."""
    if address is None:
        reason = text.split("\n", 1)[0] or "it gave no reason"
        return WgccError("ray", f"Ray could not be started on this machine: {reason}")
    place = address
    versions = re.findall(r"(Ray|Python): (\S+)", text) if "ersion mismatch" in text else []
    if len(versions) == 4:
        there, here = (
            " and ".join(f"{n} {v}" for n, v in pair) for pair in (versions[:2], versions[2:])
        )
        advice = "install the same versions everywhere"
        return WgccError(
            "version", f"the cluster at {place} has {there}, this machine {here}: {advice}"
        )
    reason = text.split("\n", 1)[0]
    if "connect to Ray cluster" in reason:
        # The address answers, so that the token is the likeliest reason, which Ray does not give.
        reason += " (one with a token needs RAY_AUTH_MODE=token, and the same ~/.ray/auth_token)"
    return WgccError("ray", f"there is no Ray cluster at {place}: {reason}", "address")


def _check_address(address: str | None) -> None:
    """Ray itself waits long for a machine that does not answer."""
    host, colon, port = (address or "").rpartition(":")
    if not colon or "://" in host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        text = f"there is no Ray cluster at {address}: {error.strerror or error}"
        raise WgccError("ray", text, "address") from None
