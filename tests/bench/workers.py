"""Two workers of one thread each beside one, the cost of exchanging, and what more would do.

    python tests/bench/workers.py [--steps N] [--rounds N] [--megabytes 0.1,1,10,100] [--json FILE]

Workers are processes of MPI on this machine, each with the twin in one thread. Times are medians of
blocks of steps. Beside one worker and two that train together there are two that train at the same
time, each for itself (`Model.fit`): what the machine gives without any exchange. All three run by
turns, because the speed of a machine varies; a ratio is the median of those of the rounds.
What is printed is the section "What it costs" of runtime_py/DISTRIBUTED.md.
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
for place in (ROOT, ROOT / "runtime_py", ROOT / "tests" / "support", FOLDER):
    sys.path.insert(0, str(place))

import numpy as np  # noqa: E402
from batches import write_batch  # noqa: E402

SOURCES = {"c": FOLDER / "models" / "c.wg", "cnn": ROOT / "examples" / "cnn" / "model.wg"}
BLOCKS = 5
# Batches of each worker in an epoch.
EPOCH = 16
WORKERS = (8, 64, 512)
# Gbit/s, and seconds until a message arrives, of the networks to extrapolate to.
NETWORKS = ((1, 100e-6), (10, 30e-6))
RATIOS = """\
| model | gradients | step of one worker | two workers, rows/s of one | two that do not exchange |
|---|---:|---:|---:|---:|"""
SHARES = """\
| gradients | one exchange | share of a step of `c` | of `cnn` |
|---:|---:|---:|---:|"""
FORMULA = """\
An exchange of S bytes between n workers takes 2·S·(n−1)/(n·W) + 2·(n−1)·L + S·c seconds: W is what
each worker sends in a second, L how long a message takes to arrive (both assumed: 100 µs at
1 Gbit/s, 30 µs at 10), and c copying and adding up, measured above. Of n times the rows/s of one
worker remain t / (t + that), with t, the step of one worker, measured above:"""
EFFICIENCIES = """\
| model | network | 8 workers | 64 workers | 512 workers |
|---|---:|---:|---:|---:|"""


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
    parser.add_argument("--rounds", type=int, default=3)
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
        found["models"][name] = _by_turns(task, options.rounds)
    for size in options.megabytes.split(","):
        found["exchange"][size] = _run(2, {"megabytes": float(size)})["seconds"]
    return found


def _by_turns(task: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Of one worker, the median; of two, how many of its rows/s they make in the same round."""
    ones, ratios = [], {"2": [], "apart": []}  # type: ignore[var-annotated]
    for _ in range(rounds):
        ones.append(_run(1, task))
        for key, found in ratios.items():
            run = _run(2, {**task, "apart": True} if key == "apart" else task)
            found.append(run["rows"] / ones[-1]["rows"])
    one = sorted(ones, key=lambda run: run["seconds"])[rounds // 2]
    return {"1": one, **{key: statistics.median(found) for key, found in ratios.items()}}


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
    # Each worker takes batches of its own; an epoch has several, as data of users has.
    data = {key: np.concatenate([rows] * own.size * EPOCH) for key, rows in batch.items()}
    bundle = folder / "bundles" / name
    options = {"steps": (BLOCKS + 1) * task["steps"], "every": task["steps"]}
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        rows, size = model.entry("train").rows, _gradient_bytes(model)
        own.comm.Barrier()
        if own.size == 1 or "apart" in task:
            history = model.fit(data, **options)
        else:
            history = mpi.fit(model, bundle, data, own, **options)
        # Of workers that train together, only the first has reports.
        times = [report.ms / 1000 for report in history.reports[1:]]
        mine = statistics.median(times) if times else None
        seconds = statistics.mean(t for t in own.comm.allgather(mine) if t is not None)
        count = rows.count if rows else 1
        return {"seconds": seconds, "rows": own.size * count / seconds, "bytes": size}


def _gradient_bytes(model: Any) -> int:
    from wgcc_runtime.flight import exchange_of

    return int(exchange_of(model.entry("train")).bytes)


def _report(found: dict[str, Any]) -> None:
    """Tables of Markdown: most figures are ratios, which other machines have, too."""
    models, exchange = found["models"], found["exchange"]
    print(RATIOS)
    for name, runs in models.items():
        one = runs["1"]
        cells = [f"`{name}`", f"{one['bytes'] / 1e6:.2f} MB", f"{1000 * one['seconds']:.1f} ms"]
        cells += [f"{runs[key]:.2f} ×" for key in ("2", "apart")]
        print(_row(cells))
    print(f"\n{SHARES}")
    for size, seconds in exchange.items():
        steps = [models[name]["1"]["seconds"] for name in ("c", "cnn")]
        shares = [f"{100 * seconds / (seconds + step):.1f} %" for step in steps]
        print(_row([f"{size} MB", f"{1000 * seconds:.2f} ms", *shares]))
    print(f"\n{FORMULA}\n\n{EFFICIENCIES}")
    for name, runs in models.items():
        for gbit, latency in NETWORKS:
            parts = [efficiency(found, runs["1"], n, gbit, latency) for n in WORKERS]
            print(_row([f"`{name}`", f"{gbit} Gbit/s", *(f"{100 * part:.0f} %" for part in parts)]))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


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
