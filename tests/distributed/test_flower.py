"""Federated training on Flower: simulated, and with processes; the same bits as by hand."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import wgcc_runtime
from adapters import ROOT
from building import build
from flower_models import ROWS, SEED, federated_by_hand, make, rows_of
from wgcc_runtime.distributed import federated

if sys.version_info < (3, 11):
    pytest.skip("Flower needs Python 3.11", allow_module_level=True)

BIN = Path(sys.executable).parent
TIMEOUT = 240
# Flower warns of what later versions will remove.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("waves"))


def environment(**more: str) -> dict[str, str]:
    modules = os.pathsep.join(
        [str(ROOT), str(ROOT / "runtime_py"), str(ROOT / "tests" / "support")]
    )
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    ray = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    return {**os.environ, **quiet, **ray, "PYTHONPATH": modules, "PATH": path, **more}


def assert_by_hand(out: Path, bundle: Path, rounds: int, epochs: int) -> None:
    found, wanted = load_file(out), federated_by_hand(bundle, rounds, epochs)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name].tobytes() == value.tobytes(), name


SIMULATION = """
import sys
from flwr.simulation import run_simulation
from flower_models import SEED, rows_of
from wgcc_runtime import flower

bundle, out, log = sys.argv[1:]
if __name__ == "__main__":
    client = flower.client(bundle, rows_of, eval=rows_of, device="wasm", threads=1)
    own = {"eval": rows_of({"partition-id": 0}), "device": "wasm"}
    server = flower.server_app(bundle, rounds=2, epochs=4, seed=SEED, out=out, log=log, **own)
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    start = {"init_args": {"num_cpus": 2, "include_dashboard": False}}
    run_simulation(server, client, num_supernodes=2, backend_config={**resources, **start})
"""


def test_a_simulation_gives_the_mean_by_hand(bundle: Path, tmp_path: Path) -> None:
    program, out, log = tmp_path / "run.py", tmp_path / "out.safetensors", tmp_path / "log.jsonl"
    program.write_text(SIMULATION, encoding="utf-8")
    command = [sys.executable, str(program), str(bundle), str(out), str(log)]
    own = environment(FLWR_HOME=str(tmp_path / "home"))
    done = subprocess.run(
        command, env=own, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert_by_hand(out, bundle, rounds=2, epochs=4)
    first, second = [json.loads(line) for line in log.read_text().splitlines()]
    assert (first["step"], second["step"]) == (1, 2) and first["failed"] == 0
    assert second["loss"] < first["loss"] and second["eval_error"] < first["eval_error"]
    with wgcc_runtime.load(bundle, device="wasm", threads=1, weights=out) as model:
        expected = float(model.eval(**rows_of({"partition-id": 0}))["error"])
    assert second["eval_server_error"] == pytest.approx(expected, rel=1e-6)


# ---- a SuperLink and two SuperNodes, each a process


APP = """
from flower_models import SEED, rows_of
from wgcc_runtime import flower

client = flower.client({bundle!r}, rows_of, device="wasm", threads=1)
server = flower.server_app(
    {bundle!r}, rounds=1, steps=12, seed=SEED, out={out!r}, proximal_mu={mu}
)
"""
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "waves"
version = "1.0.0"
license = "MIT"
dependencies = []

[tool.flwr.app]
publisher = "someone"

[tool.flwr.app.components]
serverapp = "federation:server"
clientapp = "federation:client"

[tool.flwr.app.config]
"""
CONNECTION = """
[superlink]
default = "here"

[superlink.here]
address = "127.0.0.1:{}"
insecure = true
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def write_app(folder: Path, bundle: Path, out: Path, port: int) -> dict[str, str]:
    """An app and Flower's configuration; returns the environment for its commands."""
    app, home = folder / "app", folder / "home"
    for place in (app, home):
        place.mkdir()
    text = APP.format(bundle=str(bundle), out=str(out), mu=MU)
    (app / "federation.py").write_text(text, encoding="utf-8")
    (app / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (home / "config.toml").write_text(CONNECTION.format(port), encoding="utf-8")
    return environment(FLWR_HOME=str(home))


@contextlib.contextmanager
def federation(folder: Path, port: int, own: dict[str, str]) -> Iterator[None]:
    link = ["flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port)]
    node = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}"]
    commands = [[*link, "--disable-runtime-dependency-installation"]]
    for i in range(2):
        commands.append([*node, "--port", str(free_port()), "--node-config", f"partition-id={i}"])
    running = []
    try:
        for i, command in enumerate(commands):
            with open(folder / f"{i}.txt", "w", encoding="utf-8") as log:
                running.append(
                    subprocess.Popen(
                        [str(BIN / command[0]), *command[1:]],
                        env=own, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                    )
                )  # fmt: skip
        wait_for(port)
        yield
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(port: int) -> None:
    end = time.monotonic() + TIMEOUT / 2
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise AssertionError("the SuperLink has not started")


def test_processes_give_the_mean_of_fedprox_by_hand(tmp_path: Path) -> None:
    bundle, term = proximal_bundles(tmp_path)
    out, port = tmp_path / "out.safetensors", free_port()
    own = write_app(tmp_path, bundle, out, port)
    with federation(tmp_path, port, own):
        done = subprocess.run(
            [str(BIN / "flwr"), "run", str(tmp_path / "app"), "here", "--stream"],
            env=own, capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    logs = "".join((tmp_path / f"{i}.txt").read_text() for i in range(3))
    assert done.returncode == 0 and out.exists(), done.stdout + done.stderr + logs
    with wgcc_runtime.load(bundle, device="wasm", threads=1, seed=SEED) as model:
        start = model.params()
        near, far = (mean_of_clients(model, start, mu) for mu in (MU, 0.0))
    found = load_file(out)
    by_loss = mean_of([by_the_loss(term, start, rows_of({"partition-id": i})) for i in range(2)])
    for name, value in found.items():
        assert value.tobytes() == near[name].tobytes(), name
        # As of a model that has the term in its loss.
        np.testing.assert_allclose(value, by_loss[name], rtol=0, atol=2e-5)
    assert max(np.abs(found[n] - far[n]).max() for n in found) > 1e-2


def mean_of_clients(model: wgcc_runtime.Model, start: Any, mu: float) -> dict[str, Any]:
    request = federated.Round("", "", 1, steps=12, seed=SEED, mu=mu)
    updates = [
        federated.train(model, start, rows_of({"partition-id": i}), request) for i in range(2)
    ]
    assert [update.rows for update in updates] == list(ROWS)
    # Whichever reply comes first, the mean has the same bits.
    means, other = federated.average(updates), federated.average(updates[::-1])
    assert all(means[n].tobytes() == other[n].tobytes() for n in means)
    return means


def mean_of(clients: list[dict[str, Any]]) -> dict[str, Any]:
    weights = [rows / sum(ROWS) for rows in ROWS]
    return {n: sum(w * c[n] for w, c in zip(weights, clients, strict=True)) for n in clients[0]}


# ---- FedProx


PROXIMAL = """
dim B = 8
model Near {
  a: Linear[3, 5]
  b: Linear[5, 1](bias = false)
  optimizer opt: adam { lr = 0.05; clip_norm = 0.1 }
  entry train(x: f32[B, 3], y: f32[B, 1]INPUTS) -> (loss: f32) {
    loss = mse(b(tanh(a(x))), y)
    total = lossTERM
    minimize total with opt
    return loss
  }
}
"""
INPUTS = ", aw: f32[3, 5], ab: f32[5], bw: f32[5, 1]"
TERM = " + 0.5 * 2.0 * (sum(square(a.w - aw)) + sum(square(a.b - ab)) + sum(square(b.w - bw)))"


MU = 2.0


def proximal_bundles(folder: Path) -> tuple[Path, Path]:
    """A model, and one whose loss has the proximal term, with w₀ as inputs."""
    found = []
    for name, inputs, term in (("plain", "", ""), ("term", INPUTS, TERM)):
        text = PROXIMAL.replace("INPUTS", inputs).replace("TERM", term)
        (folder / f"{name}.wg").write_text(text, encoding="utf-8")
        found.append(build(folder / f"{name}.wg", folder / name))
    return found[0], found[1]


def by_the_loss(bundle: Path, start: Any, data: Any, steps: int = 12) -> dict[str, Any]:
    """A round of a client, by a model with the term in its loss."""
    with wgcc_runtime.load(bundle, device="wasm", threads=1, seed=SEED) as model:
        model.load_params(start)
        names = {"aw": "a.w", "ab": "a.b", "bw": "b.w"}
        inputs = {**data, **{key: start[name] for key, name in names.items()}}
        model.fit(inputs, steps=steps, seed=SEED + 1)
        return dict(model.params())


def test_fedprox_trains_on_the_loss_with_a_proximal_term(tmp_path: Path) -> None:
    """As a model that has the term in its loss; clipping is after it."""
    bundle, term = proximal_bundles(tmp_path)
    data = rows_of({"partition-id": 0})
    with wgcc_runtime.load(bundle, device="wasm", threads=1, seed=1) as model:
        start = model.params()
        found = [
            federated.train(
                model, start, data, federated.Round("", "", 1, steps=30, seed=SEED, mu=mu)
            )
            for mu in (MU, 0.0)
        ]
    near, far = ([update.arrays[n] - start[n] for n in start] for update in found)
    for name, value in by_the_loss(term, start, data, 30).items():
        np.testing.assert_allclose(found[0].arrays[name], value, rtol=0, atol=2e-5)
    assert sum((d**2).sum() for d in near) < 0.7 * sum((d**2).sum() for d in far)
