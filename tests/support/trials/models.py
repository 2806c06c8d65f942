"""Many random models: checked on both adapters, compiled with Tint, shrunk."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import adapters
from adapters import ROOT
from random_models.generate import WHOLE, generate
from random_models.judge import judge
from random_models.shrink import shrink
from random_models.spec import Model
from tint_compiler import compile_all
from wgcc.compiler import Compiled
from wgcc.errors import WgError

CASES = ROOT / "tests" / "cases"
NOTHING_TO_TRAIN = "WG0310"
TINT_BATCH = 400


def codes(error: WgError) -> set[str]:
    return {diagnostic.code for diagnostic in error.diagnostics}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("count", type=int, help="how many models")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--shrink", type=float, default=120.0, help="seconds per failure")
    parser.add_argument("--whole", type=float, default=WHOLE, help="share of integer operands")
    parser.add_argument("--no-tint", action="store_true")


def run(options: argparse.Namespace) -> int:
    trial = Trial({name: adapters.request_device(name) for name in adapters.NAMES}, options)
    started = time.monotonic()
    for seed in range(options.start, options.start + options.count):
        trial.one(seed)
        if len(trial.kernels) >= TINT_BATCH:
            trial.compile_with_tint()
    trial.compile_with_tint()
    print(
        f"{options.count} models, {trial.kernel_count} distinct kernels, "
        f"{len(trial.failed)} failed {trial.failed}, {trial.refused} refused by Tint, "
        f"{time.monotonic() - started:.0f} s"
    )
    return 1 if trial.failed or trial.refused else 0


@dataclass
class Trial:
    devices: dict[str, Any]
    options: argparse.Namespace
    kernels: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    failed: list[int] = field(default_factory=list)
    refused: int = 0

    @property
    def kernel_count(self) -> int:
        return len(self.seen)

    def one(self, seed: int) -> None:
        model = generate(seed, self.options.whole)
        failure = self.failure(model, collect=True)
        if failure is None:
            return
        self.failed.append(seed)
        print(f"seed {seed}: {failure[0]}", flush=True)
        kind = failure[1]

        def fails(smaller: Model) -> bool:
            found = self.failure(smaller)
            return found is not None and found[1] == kind

        small = shrink(model, fails, self.options.shrink)
        path = CASES / f"seed_{seed}.wg"
        path.write_text(f"/// {failure[0][:300]}\n{small.text()}", encoding="utf-8")
        print(f"  saved to {path}", flush=True)

    def failure(self, model: Model, collect: bool = False) -> tuple[str, str] | None:
        """What is wrong with a model, and where that was noticed; None if it is correct."""
        folder = Path(tempfile.mkdtemp(prefix="wgcc-random-"))
        try:
            path = folder / "model.wg"
            path.write_text(model.text(), encoding="utf-8")
            compiled = judge(path, self.devices, folder / "bundle")
            if collect:
                self.collect(compiled)
            return None
        except Exception as error:
            if isinstance(error, WgError) and NOTHING_TO_TRAIN in codes(error):
                return None  # all parameters are behind a step function: correctly refused
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(f"{type(error).__name__}: {error}".split())
            return text, f"{type(error).__name__} {Path(place.filename).name}:{place.lineno}"
        finally:
            shutil.rmtree(folder)

    def collect(self, compiled: Compiled) -> None:
        for name, data in compiled.files().items():
            key = hashlib.sha256(data).hexdigest()
            if name.endswith(".wgsl") and key not in self.seen:
                self.seen.add(key)
                self.kernels[key] = data.decode()

    def compile_with_tint(self) -> None:
        if self.options.no_tint or not self.kernels:
            return
        with tempfile.TemporaryDirectory(prefix="wgcc-tint-") as folder:
            for key, text in self.kernels.items():
                (Path(folder) / f"{key}.wgsl").write_text(text, encoding="utf-8")
            results = compile_all(sorted(Path(folder).iterdir()))
        for path, messages in results.items():
            if messages:
                self.refused += 1
                print(f"Tint refuses {messages[:1]}:\n{self.kernels[Path(path).stem]}", flush=True)
        self.kernels.clear()
