"""Threads that use one model, or two models on one device, at the same time."""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import line_twin
from line_training import batches, everything
from wgcc_runtime import Model, load
from wgcc_runtime.weights import load_weights

ITEM = batches(1)[0]
ADAPTERS = ("lavapipe", "swiftshader", "wasm")
THREADS = 4


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("count", type=int, help="how many calls of each thread")


def run(options: argparse.Namespace) -> int:
    faults = 0
    for adapter in ADAPTERS:
        with tempfile.TemporaryDirectory(prefix="wgcc-threads-") as folder:
            found = share(Path(folder), options.count, adapter)
        print(f"{adapter}: {dict(found)}", flush=True)
        faults += sum(found[kind] for kind in found if kind.startswith("fault"))
    return 1 if faults else 0


def share(folder: Path, count: int, adapter: str) -> Counter[str]:
    """Uses two models on one device, with four threads each."""
    bundle = line_twin.write_bundle(folder / "bundle")
    first = load(bundle, device=adapter, threads=2)
    second = load(bundle, device=getattr(first._machine.device, "gpu", adapter), threads=3)
    trials = [Trial(model, folder / f"{i}.safetensors") for i, model in enumerate((first, second))]
    threads = [
        threading.Thread(target=trial.work, args=(number, count))
        for trial in trials
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Counter[str]()
    for trial in trials:
        found += trial.result(load(bundle, device=adapter))
        trial.model.close()
    return found


class Trial:
    """One model in many threads. All train on one batch, so that the loss of each step is known."""

    def __init__(self, model: Model, path: Path) -> None:
        self.model, self._path = model, path
        self._losses: list[float] = []
        self._events: list[str] = []  # appending is atomic, counting is not

    def work(self, number: int, count: int) -> None:
        uses: list[Callable[[], Any]] = [self._train, self._predict, self._train, self._save]
        uses[2] = self._fit if number == 0 else self._train
        try:
            for i in range(count):
                uses[(i + number) % len(uses)]()
                self._events.append("calls")
        except BaseException as error:
            print(repr(error), flush=True)
            self._events.append(f"fault: {type(error).__name__}")

    def result(self, undisturbed: Model) -> Counter[str]:
        """Whether every step was made once, and the model is as after that many steps."""
        steps = self.model.steps_done
        right = sorted(float(undisturbed.train(**ITEM)["loss"]) for _ in range(steps))
        found = Counter({**Counter(self._events), "steps": steps})
        found["fault: losses"] += right != sorted(self._losses)
        same = _bytes(everything(undisturbed)) == _bytes(everything(self.model))
        found["fault: parameters"] += not same
        undisturbed.close()
        return +found

    def _train(self) -> None:
        self._losses.append(float(self.model.train(**ITEM)["loss"]))

    def _fit(self) -> None:
        self._losses += self.model.fit(lambda _: ITEM, steps=3, every=1).losses

    def _predict(self) -> None:
        self.model.predict(x=ITEM["x"])

    def _save(self) -> None:
        path = self._path.with_suffix(f".{threading.get_ident()}")
        self.model.save(path)
        arrays, facts = load_weights(path)
        if int(arrays["opt/opt/step"]) != facts["steps"].get("train", 0):
            self._events.append("fault: checkpoint")


def _bytes(arrays: dict[str, Any]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}
