"""Two workers of one thread each beside one, the cost of exchanging, and what more would do.

    python tests/bench/workers.py [--steps N] [--megabytes 0.1,1,10,100] [--json FILE]

Workers are processes of MPI on this machine, each with the twin in one thread. Rows per second are
medians of blocks; the one worker trains with `Model.fit`, without any exchange.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
for place in (ROOT, ROOT / "runtime_py", FOLDER.parent, FOLDER):
    sys.path.insert(0, str(place))

import numpy as np  # noqa: E402
from batches import write_batch  # noqa: E402

SOURCES = {"c": FOLDER / "models" / "c.wg", "cnn": ROOT / "examples" / "cnn" / "model.wg"}
BLOCKS = 5
WORKERS = (8, 64, 512)
# Gbit/s, and seconds until a message arrives, of the networks to extrapolate to.
NETWORKS = ((1, 100e-6), (10, 30e-6))
FORMULA = """\
Seconds of one exchange of S bytes between n workers: 2·S·(n−1)/(n·W) + 2·(n−1)·L + S·c
  W: bytes/s of each worker's link; L: seconds until a message arrives; both are assumed
  c: seconds per byte for copying and adding up, measured here with two processes
Efficiency: t / (t + that), with t, the seconds of a step of one worker, measured here"""


def main(arguments: Sequence[str]) -> int:
    options = _options().parse_args(arguments)
    if options.work:
        _work(json.loads(options.work))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = _measure(Path(folder), options)
    _report(found)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40, help="in each block")
    parser.add_argument("--megabytes", default="0.1,1,10,100")
    parser.add_argument("--json")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    return parser


def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    from building import build

    found: dict[str, Any] = {"models": {}, "exchange": {}}
    (folder / "bundles").mkdir()
    for name, source in SOURCES.items():
        build(source, folder / "bundles" / name)
        write_batch(name, "train", folder)
        task = {"folder": str(folder), "model": name, "steps": options.steps}
        found["models"][name] = {str(n): _run(n, task) for n in (1, 2)}
    for size in options.megabytes.split(","):
        found["exchange"][size] = _run(2, {"megabytes": float(size)})["seconds"]
    return found


def _run(processes: int, task: dict[str, Any]) -> dict[str, Any]:
    """The same program as the workers; the first prints what was measured."""
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    command = [mpiexec, "-n", str(processes), sys.executable, __file__, "--work", json.dumps(task)]
    environment = {**os.environ, "WGCC_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def _work(task: dict[str, Any]) -> None:
    from wgcc_runtime import mpi

    own = mpi.Processes()
    result = _exchange(own, task) if "megabytes" in task else _train(own, task)
    if own.rank == 0:
        print(json.dumps(result))


def _exchange(own: Any, task: dict[str, Any]) -> dict[str, float]:
    flat = np.ones(int(task["megabytes"] * 1e6 / 4), np.float32)
    times = []
    for _ in range(BLOCKS + 1):
        own.comm.Barrier()
        started = time.perf_counter()
        own.mean(flat)
        times.append(time.perf_counter() - started)
    return {"seconds": statistics.median(times[1:])}


def _train(own: Any, task: dict[str, Any]) -> dict[str, float]:
    from safetensors.numpy import load_file

    import wgcc_runtime
    from wgcc_runtime import mpi

    folder, name = Path(task["folder"]), task["model"]
    batch = load_file(folder / "batches" / f"{name}.safetensors")
    # Each worker takes a batch of its own.
    data = {key: np.concatenate([rows] * own.size) for key, rows in batch.items()}
    bundle = folder / "bundles" / name
    options = {"steps": (BLOCKS + 1) * task["steps"], "every": task["steps"]}
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        rows, size = model.entry("train").rows, _gradient_bytes(model)
        if own.size == 1:
            history = model.fit(data, **options)
        else:
            history = mpi.fit(model, bundle, data, own, **options)
        # Only the first worker has reports.
        times = [report.ms / 1000 for report in history.reports[1:]]
        seconds = statistics.median(times) if own.rank == 0 else 1.0
        count = rows.count if rows else 1
        return {"seconds": seconds, "rows": own.size * count / seconds, "bytes": size}


def _gradient_bytes(model: Any) -> int:
    from wgcc_runtime.halves import exchange_of

    return int(exchange_of(model.entry("train")).bytes)


def _report(found: dict[str, Any]) -> None:
    print(f"{'model':8}{'rows/s of one':>16}{'of two':>12}{'ratio':>8}")
    for name, runs in found["models"].items():
        one, two = runs["1"]["rows"], runs["2"]["rows"]
        print(f"{name:8}{one:16.1f}{two:12.1f}{two / one:8.2f}")
    step = found["models"]["c"]["1"]["seconds"]
    print(f"\n{'MB':>8}{'exchange, ms':>16}{'share of a step of c':>24}")
    for size, seconds in found["exchange"].items():
        print(f"{size:>8}{1000 * seconds:16.2f}{100 * seconds / (seconds + step):23.1f}%")
    print(f"\n{FORMULA}\n\n{'model':8}{'Gbit/s':>8}" + "".join(f"{n:>8}" for n in WORKERS))
    for name, runs in found["models"].items():
        for gbit, latency in NETWORKS:
            cells = [efficiency(found, runs["1"], n, gbit, latency) for n in WORKERS]
            print(f"{name:8}{gbit:8}" + "".join(f"{100 * cell:7.0f}%" for cell in cells))


def efficiency(
    found: dict[str, Any], one: dict[str, float], workers: int, gbit: float, latency: float
) -> float:
    """How much of n times the rows/s of one worker n workers make: see FORMULA."""
    size, step = one["bytes"], one["seconds"]
    sent = 2 * size * (workers - 1) / (workers * gbit * 1e9 / 8)
    seconds = sent + 2 * (workers - 1) * latency + size * seconds_per_byte(found["exchange"])
    return step / (step + seconds)


def seconds_per_byte(exchange: dict[str, float]) -> float:
    size, seconds = max((float(size), seconds) for size, seconds in exchange.items())
    return seconds / (size * 1e6)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
