"""What tests of Ray need: deaths on order, machines that come and go, a round by hand."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray as cluster
from ray._private.node import Node
from ray._private.parameter import RayParams
from safetensors import safe_open

from distributed_models import data_for
from ray_workers import order_death
from wgcc_runtime import ray
from wgcc_runtime.distributed.ray_members import Member
from wgcc_runtime.history import History


def fit(bundle: Path, name: str, workers: Any, **options: Any) -> History:
    return ray.fit(bundle, data_for(name), workers, device="wasm", **options)


def position(checkpoint: Path) -> int:
    with safe_open(checkpoint, "np") as file:
        return int(json.loads(file.metadata()["wgcc"])["data"]["position"])


class Killer:
    """Before some steps it orders deaths; `watch` and `stop` are arguments of `fit`.

    A death is a place in a call of a worker (see ray_workers.py), or None: SIGKILL at any moment.
    """

    def __init__(self, deaths: dict[int, list[str | None]]) -> None:
        self._deaths, self._calls = deaths, 0
        self._random = random.Random(5)
        self._pids: list[int] = []
        self._timers: list[threading.Timer] = []
        self.ordered = 0

    def watch(self, members: list[Member]) -> None:
        self._pids = [member.pid for member in members]

    def stop(self) -> bool:
        for place in self._deaths.get(self._calls, []):
            if place:
                order_death(place)
                self.ordered += 1
            else:
                self._timers.append(threading.Timer(self._random.uniform(0, 0.02), self._kill))
                self._timers[-1].start()
        self._calls += 1
        return False

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pids.pop(self._random.randrange(len(self._pids))), signal.SIGKILL)
            self.ordered += 1


@cluster.remote
class _Sleeper:
    def ready(self) -> None:
        return None


@contextlib.contextmanager
def taken_cores(count: int) -> Iterator[Any]:
    """Within it, or until its result is killed, so many cores have something else to do."""
    sleeper = _Sleeper.options(num_cpus=count).remote()  # type: ignore[attr-defined]
    try:
        cluster.get(sleeper.ready.remote())
        yield sleeper
    finally:
        cluster.kill(sleeper)


@contextlib.contextmanager
def second_machine(address: str) -> Iterator[Node]:
    """A machine with one core joins the cluster; `kill_all_processes` takes it away."""
    own = RayParams(
        gcs_address=address, node_ip_address=address.split(":")[0], num_cpus=1, num_gpus=0,
        object_store_memory=80 << 20, include_log_monitor=False,
    )  # fmt: skip
    node = Node(own, head=False, shutdown_at_exit=False, spawn_reaper=False)
    try:
        yield node
    finally:
        node.kill_all_processes(check_alive=False, allow_graceful=False)
