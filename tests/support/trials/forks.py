"""Processes forked from one that uses the GPU: each use is refused at once, and none hangs."""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import line_twin
from line_training import batches
from trials.interrupts import python_path
from wgcc_runtime import Model, WgccError, load

ITEM = batches(1)[0]
ADAPTERS = ("lavapipe", "swiftshader", "wasm")
# Longer is a hang.
PATIENCE = 60.0
# Exit codes of a child that was refused, that was not, and that did not use the GPU.
REFUSED, TAKEN, ENDED = 41, 42, 43


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("count", type=int, help="how often each use is tried on each adapter")


def run(options: argparse.Namespace) -> int:
    faults = 0
    for adapter in ADAPTERS:
        found, slowest = fork(options.count, adapter)
        print(f"{adapter}: {dict(found)}, slowest {1000 * slowest:.0f} ms", flush=True)
        faults += sum(found[kind] for kind in found if kind.startswith("fault"))
    return 1 if faults else 0


def fork(count: int, adapter: str) -> tuple[Counter[str], float]:
    """How children ended, and the longest time they took."""
    with tempfile.TemporaryDirectory(prefix="wgcc-forks-") as folder:
        code = f"from trials.forks import worker; worker({folder!r}, {count}, {adapter!r})"
        process = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": python_path()},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if process.returncode:
        print(process.stderr[-2000:], file=sys.stderr)
        return Counter({f"fault: the parent ended with {process.returncode}": 1}), 0.0
    found, slowest = json.loads(process.stdout)
    return Counter(found), slowest


def worker(folder: str, count: int, adapter: str) -> None:
    """Forks while another thread trains. Children leave this function by `sys.exit`, so that it
    has nothing to clean up."""
    bundle = line_twin.write_bundle(Path(folder) / "bundle")
    model, other = load(bundle, device=adapter, threads=2), load(bundle, device=adapter, threads=2)
    threading.Thread(target=_train_for_ever, args=(model,), daemon=True).start()
    found, slowest = Counter[str](), 0.0
    for name, use in _uses(bundle, adapter, Path(folder) / "w.safetensors").items():
        for _ in range(count):
            started = time.monotonic()
            status = _ended(_child(use, [model, other]))
            slowest = max(slowest, time.monotonic() - started)
            wanted = ENDED if name in ("gc", "exit", "close") else REFUSED
            found[name if status == wanted else f"fault: {name} {status}"] += 1
    other.train(**ITEM)
    print(json.dumps([found, slowest]), flush=True)


def _uses(bundle: Path, adapter: str, path: Path) -> dict[str, Callable[[list[Model]], Any]]:
    """What a child tries with models of its parent, one of which was just training."""
    return {
        "call": lambda models: models[0].train(**ITEM),
        "idle model": lambda models: models[1].train(**ITEM),
        "fit": lambda models: models[1].fit(lambda _: ITEM, steps=3),
        "params": lambda models: models[0].params(),
        "save": lambda models: models[0].save(path),
        "reset": lambda models: models[1].reset(),
        "profile": lambda models: models[1].profile(),
        "load": lambda models: load(bundle, device=adapter, threads=2),
        "close": lambda models: [model.close() for model in models],
        "gc": _drop,
        "exit": lambda models: None,
    }


def _drop(models: list[Model]) -> None:
    models.clear()
    gc.collect()


def _train_for_ever(model: Model) -> None:
    while True:
        model.train(**ITEM)


def _child(use: Callable[[list[Model]], Any], models: list[Model]) -> int:
    process = os.fork()
    if process:
        return process
    status = TAKEN
    try:
        use(models)
        status = ENDED
    except WgccError as error:
        status = REFUSED if error.code == "forked" else TAKEN
    sys.exit(status)  # the ordinary end of a process, with everything that is freed then


def _ended(process: int) -> int | None:
    """The exit code, negative for a signal; None for a process that hangs."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, 9)
    os.waitpid(process, 0)
    return None
