"""`--workers` without a cluster: nobody outside this machine can reach what Ray starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from ipaddress import ip_address
from typing import Any

import pytest

from trials.interrupts import python_path
from wgcc_runtime.errors import WgccError
from wgcc_runtime.ray import _cluster

# Ray brings psutil with it.
LISTENING = """
import json, os
from wgcc_runtime.ray import _cluster
with _cluster(None, 1, 0, None) as ray:
    import psutil
    @ray.remote
    class Worker:
        def ready(self):
            return True
    worker = Worker.remote()
    assert ray.get(worker.ready.remote())
    me = psutil.Process()
    found = [
        (process.name(), connection.laddr.ip)
        for process in [me, *me.children(recursive=True)]
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    mode = os.environ["RAY_AUTH_MODE"]
left = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" in os.environ
print(json.dumps({"found": found, "mode": mode, "left": left}))
"""


def test_all_sockets_are_on_the_loopback() -> None:
    variables = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", LISTENING], env={**variables, "PYTHONPATH": python_path()},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert len(seen["found"]) >= 4
    outside = [(name, ip) for name, ip in seen["found"] if not _is_loopback(ip)]
    assert outside == []
    assert (seen["mode"], seen["left"]) == ("token", False)


def _is_loopback(text: str) -> bool:
    address: Any = ip_address(text)
    return bool((getattr(address, "ipv4_mapped", None) or address).is_loopback)


def test_a_start_that_fails_is_an_error_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def failing(*_: Any, **__: Any) -> None:
        raise Exception("The current node timed out during startup.\nmore")

    monkeypatch.setattr(ray, "init", failing)
    said = pytest.raises(WgccError, match="Ray could not be started on this machine: The current")
    with said, _cluster(None, 1, 0, None):
        pass
