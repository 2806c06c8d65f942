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
from wgcc_runtime import WgccError, flower
from wgcc_runtime.distributed import federated
from wgcc_runtime.distributed.identity import bundle_digest

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
    modules = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py"), str(ROOT / "tests")])
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
    assert (first["step"], second["step"]) == (1, 2)
    assert second["loss"] < first["loss"] and second["eval_error"] < first["eval_error"]
    with wgcc_runtime.load(bundle, device="wasm", threads=1, weights=out) as model:
        expected = float(model.eval(**rows_of({"partition-id": 0}))["error"])
    assert second["eval_server_error"] == pytest.approx(expected, rel=1e-6)


# ---- a SuperLink and two SuperNodes, each a process


APP = """
from flower_models import SEED, rows_of
from wgcc_runtime import flower

client = flower.client({bundle!r}, rows_of, device="wasm", threads=1)
server = flower.server_app({bundle!r}, rounds=2, steps=6, seed=SEED, out={out!r})
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
    text = APP.format(bundle=str(bundle), out=str(out))
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


def test_processes_give_the_mean_by_hand(tmp_path: Path) -> None:
    bundle, out, port = make(tmp_path, eval=""), tmp_path / "out.safetensors", free_port()
    own = write_app(tmp_path, bundle, out, port)
    with federation(tmp_path, port, own):
        done = subprocess.run(
            [str(BIN / "flwr"), "run", str(tmp_path / "app"), "here", "--stream"],
            env=own, capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    logs = "".join((tmp_path / f"{i}.txt").read_text() for i in range(3))
    assert done.returncode == 0 and out.exists(), done.stdout + done.stderr + logs
    with wgcc_runtime.load(bundle, device="wasm", threads=1, seed=SEED) as model:
        start = dict(model.params())
    assert not np.array_equal(load_file(out)["a.w"], start["a.w"])
    assert_steps_by_hand(out, bundle)


def assert_steps_by_hand(out: Path, bundle: Path) -> None:
    with wgcc_runtime.load(bundle, device="wasm", threads=1, seed=SEED) as model:
        means = {n: model.params().get(n, model.state().get(n)) for n in load_file(out)}
        for number in (1, 2):
            request = federated.Round("", "", number, steps=6, seed=SEED)
            updates = [
                federated.train(model, means, rows_of({"partition-id": i}), request)
                for i in range(2)
            ]
            assert [update.rows for update in updates] == list(ROWS)
            # Whichever reply comes first, the mean has the same bits.
            means = federated.average(updates)
            other = federated.average(updates[::-1])
            assert all(means[n].tobytes() == other[n].tobytes() for n in means)
    for name, value in load_file(out).items():
        assert value.tobytes() == means[name].tobytes(), name


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


def test_fedprox_trains_on_the_loss_with_a_proximal_term(tmp_path: Path) -> None:
    """As a model that has the term in its loss; clipping is after it."""
    bundles = {}
    for name, inputs, term in (("plain", "", ""), ("term", INPUTS, TERM)):
        text = PROXIMAL.replace("INPUTS", inputs).replace("TERM", term)
        (tmp_path / f"{name}.wg").write_text(text, encoding="utf-8")
        bundles[name] = build(tmp_path / f"{name}.wg", tmp_path / name)
    data = rows_of({"partition-id": 0})
    with wgcc_runtime.load(bundles["term"], device="wasm", threads=1, seed=1) as model:
        start = model.params()
        names = {"aw": "a.w", "ab": "a.b", "bw": "b.w"}
        model.fit({**data, **{k: start[n] for k, n in names.items()}}, steps=30, seed=SEED + 1)
        wanted = model.params()
    with wgcc_runtime.load(bundles["plain"], device="wasm", threads=1) as model:
        found = [
            federated.train(
                model, start, data, federated.Round("", "", 1, steps=30, seed=SEED, mu=mu)
            )
            for mu in (2.0, 0.0)
        ]
    near, far = ([update.arrays[n] - start[n] for n in start] for update in found)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[0].arrays[name], value, rtol=0, atol=2e-5)
    assert sum((d**2).sum() for d in near) < 0.7 * sum((d**2).sum() for d in far)


# ---- errors


def ask(app: Any, arrays: Any, config: dict[str, Any], kind: str = "train") -> Any:
    from flwr.app import ConfigRecord, Context, Message, Metadata, RecordDict

    from wgcc_runtime.distributed.flower_strategy import record_of

    content = RecordDict({"arrays": record_of(arrays), "config": ConfigRecord(config)})
    # As the SuperLink makes it: of run 1, from node 2 to node 1, and valid for an hour.
    metadata = Metadata(1, "id", 2, 1, "", "", time.time(), 3600.0, kind, 1, 1)
    message = Message(content, metadata=metadata)
    context = Context(1, 1, {"partition-id": 0}, RecordDict(), {})
    return app(message, context)


def request_of(bundle: Path, **more: Any) -> dict[str, Any]:
    own = {"bundle": bundle_digest(bundle), "version": wgcc_runtime.__version__}
    return {**own, "epochs": 1, "server-round": 1, **more}


def values_of(bundle: Path) -> dict[str, Any]:
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        tensors = federated.exchanged(model.plan)
        return {n: {**model.params(), **model.state()}[n] for n in tensors}


def test_a_client_refuses_what_does_not_fit(bundle: Path) -> None:
    app = flower.client(bundle, rows_of, eval=None, device="wasm", threads=1)
    good, arrays = request_of(bundle), values_of(bundle)
    assert not ask(app, arrays, good).has_error()
    without = {n: a for n, a in arrays.items() if n != "a.b"}
    cases = [
        (arrays, {**good, "bundle": "0" * 64}, "mismatch: the client has another bundle than"),
        (arrays, {**good, "version": "0.0.0"}, "version: the client has wgcc_runtime"),
        (arrays, {"epochs": 1}, "mismatch: the server has sent no hash of its bundle"),
        (without, good, "weights: the server has not sent `a.b`"),
        ({**arrays, "c": arrays["a.b"]}, good, "weights: the server has sent `c`, unknown"),
        ({**arrays, "a.b": arrays["a.w"]}, good, "weights: the server has sent `a.b` of shape"),
        (arrays, {**good, "steps": "many"}, "mismatch: the server has sent a wrong setting"),
        (arrays, {**good, "entry": "eval"}, "name: the entry `eval` does not train"),
    ]
    for sent, config, expected in cases:
        reply = ask(app, sent, config)
        assert reply.has_error() and reply.error.reason.startswith(expected), reply
    few = {n: a[:5] for n, a in rows_of({"partition-id": 0}).items()}
    assert (
        "5 rows are fewer than the batch of 8"
        in ask(flower.client(bundle, few, device="wasm"), arrays, good).error.reason
    )
    assert "`data` is a dict of arrays, not int" in ask(
        flower.client(bundle, 5, device="wasm"), arrays, good
    ).error.reason  # fmt: skip
    # Without held-out rows, a client has no part in the evaluation.
    reply = ask(app, arrays, good, "evaluate")
    assert dict(reply.content["metrics"]) == {"num-examples": 0}


class Observed:
    def __init__(self) -> None:
        self.rounds: list[int] = []

    def trained(self, number: int, arrays: Any, metrics: dict[str, float]) -> None:
        self.rounds.append(number)

    def evaluated(self, number: int, metrics: dict[str, float]) -> dict[str, float]:
        self.rounds.append(-number)
        return metrics


def test_a_server_leaves_out_clients_that_fail(bundle: Path) -> None:
    from wgcc_runtime.distributed.flower_strategy import Averaging, received_arrays

    app = flower.client(bundle, rows_of, eval=rows_of, device="wasm", threads=1)
    arrays, observed = values_of(bundle), Observed()
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        strategy = Averaging(model.plan, observed, proximal_mu=0.0)
    good = ask(app, arrays, request_of(bundle))
    bad = ask(app, arrays, {**request_of(bundle), "bundle": "0" * 64})
    record, metrics = strategy.aggregate_train(1, [bad, good])
    sent = next(iter(good.content.array_records.values()))
    assert all(np.array_equal(a, sent[n].numpy()) for n, a in received_arrays(record).items())
    assert metrics == {"loss": good.content["metrics"]["loss"]}
    for replies, expected in (([bad], "mismatch: round 2: client"), ([], "flower: round 2: no cl")):
        with pytest.raises(WgccError) as caught:
            strategy.aggregate_train(2, replies)
        assert str(caught.value).startswith(expected)
    replies = [ask(app, arrays, request_of(bundle), "evaluate"), bad]
    assert strategy.aggregate_evaluate(1, replies)["error"] > 0
    assert observed.rounds == [1, -1]


def test_data_that_one_client_prepared_is_refused(bundle: Path, tmp_path: Path) -> None:
    rows = [f"{i},{i * 2},{i % 3},{i % 5}" for i in range(16)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,y", *rows]), encoding="utf-8")
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        data = wgcc_runtime.read_data(tmp_path / "rows.csv", model, target="y", scale=True)
        request = federated.Round("", "", 1, epochs=1)
        with pytest.raises(WgccError, match="give arrays that all clients made alike"):
            federated.train(model, values_of(bundle), data, request)
        # The prepared arrays themselves can be used.
        assert federated.train(model, values_of(bundle), data.arrays, request).rows == 16


def test_wrong_arguments(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, expected in (
        ({"epochs": 1, "steps": 2}, "`epochs` and `steps` exclude each other"),
        ({"rounds": 0}, "rounds"),
        ({"fraction": 1.5}, "`fraction` is above 0 and at most 1, not 1.5"),
        ({"proximal_mu": -1}, "`proximal_mu` is 0 or a positive number, not -1"),
        ({"entry": "eval"}, "the entry `eval` does not train"),
    ):
        with pytest.raises(WgccError, match=expected):
            flower.server_app(bundle, **options)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "flwr.app", None)
    with pytest.raises(WgccError, match=r"Flower cannot be imported.*wgcc\[flower\]") as caught:
        flower.client(bundle, rows_of)
    assert caught.value.code == "no-flower"
