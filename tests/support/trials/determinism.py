"""Builds, runs in fresh processes, resumed runs, and runs in Deno: the same bits every time."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import wgcc_runtime
from adapters import ROOT
from building import build
from example_runs import EXAMPLES, draw_batch, fingerprint, training_entries
from example_runs import run as train
from web_stacks import as_lists, build_web, from_base64, run_job

BUILD = """
import sys, pathlib
from wgcc.bundle.web import web_files
from wgcc.compiler import compile_file
from example_runs import fingerprint
compiled = compile_file(pathlib.Path(sys.argv[1]))
files = compiled.files()
files |= web_files(compiled.planned.plan, files)
print(fingerprint(*(part for name in files for part in (name.encode(), files[name]))))
"""
RUN = """
import sys, pathlib
import adapters
adapters.use_software_drivers()
from example_runs import run
bundle, adapter, first, count, start, end = sys.argv[1:]
for step in run(pathlib.Path(bundle), adapter, int(first), int(count), start, end):
    print(step)
"""
# The limit of what is sent to Deno as JSON.
MOST_NUMBERS = 3_000_000


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--examples", nargs="*", default=EXAMPLES, help="default: all")
    parser.add_argument("--builds", type=int, default=100, help="of each example")
    parser.add_argument("--processes", type=int, default=10, help="that train each example")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--adapter", default="lavapipe")
    parser.add_argument("--seed", type=int, default=0, help="of the hash seeds")


def run(options: argparse.Namespace) -> int:
    chance, wrong = random.Random(options.seed), 0
    for name in options.examples:
        source = ROOT / "examples" / name / "model.wg"
        with tempfile.TemporaryDirectory(prefix="wgcc-same-") as folder:
            bundle = build(source, Path(folder) / "bundle")
            if options.builds:
                wrong += _reported(
                    name, f"{options.builds} builds", builds(source, options.builds, chance)
                )
            if training_entries(wgcc_runtime.load_plan(bundle)) and options.processes:
                wrong += _train(name, bundle, Path(folder), options, chance)
    print(f"{wrong} differences")
    return 1 if wrong else 0


def _train(
    name: str, bundle: Path, folder: Path, options: argparse.Namespace, chance: random.Random
) -> int:
    runs, steps = Runs(bundle, folder, options.adapter, chance), options.steps
    found = {runs.straight(steps) for _ in range(options.processes)}
    wrong = _reported(name, f"{steps} steps in {options.processes} processes", found)
    pair = {*found, runs.resumed(steps, steps // 3)}
    wrong += _reported(name, f"interrupted after {steps // 3} steps and resumed", pair)
    if options.adapter == "lavapipe":
        wrong += _reported(name, *in_deno(name, folder, steps))
    return wrong


def _reported(name: str, what: str, found: set[str]) -> int:
    answer = "the same bits" if len(found) == 1 else f"{len(found)} different results"
    print(f"{name}: {what}: {answer}", flush=True)
    return len(found) - 1


def builds(source: Path, count: int, chance: random.Random) -> set[str]:
    """Fingerprints of all files of a bundle, built under different hash seeds."""
    return {_process(BUILD, chance, str(source)) for _ in range(count)}


@dataclass
class Runs:
    """Training in fresh processes: fingerprints of all outputs and of the checkpoint at the end."""

    bundle: Path
    folder: Path
    adapter: str
    chance: random.Random

    def straight(self, steps: int) -> str:
        end = self.folder / "end.safetensors"
        return fingerprint(self._run(0, steps, "", end), end.read_bytes())

    def resumed(self, steps: int, middle: int) -> str:
        half, end = self.folder / "half.safetensors", self.folder / "end.safetensors"
        outputs = self._run(0, middle, "", half)
        outputs += self._run(middle, steps - middle, str(half), end)
        return fingerprint(outputs, end.read_bytes())

    def _run(self, first: int, count: int, start: str, end: Path) -> bytes:
        job = (str(self.bundle), self.adapter, str(first), str(count), start, str(end))
        return _process(RUN, self.chance, *job).encode()


def in_deno(name: str, folder: Path, steps: int) -> tuple[str, set[str]]:
    """Checkpoints of both runtimes after as many steps as can be sent to Deno."""
    bundle = build_web(ROOT / "examples" / name / "model.wg", folder / "web")
    (entry,) = training_entries(wgcc_runtime.load_plan(bundle))
    steps = min(steps, MOST_NUMBERS // sum(t.size for t in entry.inputs.values()))
    batches = [as_lists(draw_batch(entry, step)) for step in range(steps)]
    answer = run_job("deno", bundle, "training", {"batches": batches, "entry": entry.name})
    end = folder / "python.safetensors"
    train(bundle, "lavapipe", 0, steps, "", str(end))
    found = {fingerprint(from_base64(answer["checkpoint"])), fingerprint(end.read_bytes())}
    return f"{steps} steps in Python and in Deno", found


def _process(code: str, chance: random.Random, *arguments: str) -> str:
    paths = os.pathsep.join(str(ROOT / part) for part in ("tests/support", "runtime_py", "."))
    environment = {"PYTHONPATH": paths, "PYTHONHASHSEED": str(chance.randrange(1 << 32))}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return done.stdout
