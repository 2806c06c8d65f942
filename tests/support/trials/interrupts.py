"""Ctrl-C at random moments of training, predicting, saving and restoring: all steps are counted."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import line_twin
from adapters import ROOT
from line_training import batches, everything
from wgcc_runtime import Model, WgccError, load
from wgcc_runtime.weights import load_weights

ITEMS = batches(13)
# A model that has made this many steps starts over.
MOST_STEPS = 200
ADAPTERS = ("lavapipe", "swiftshader", "wasm")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("count", type=int, help="how many interrupts")
    parser.add_argument("--seed", type=int, default=0, help="of actions and moments")
    parser.add_argument("--adapter", choices=ADAPTERS, help="default: a third of them on each")


def run(options: argparse.Namespace) -> int:
    adapters = [options.adapter] if options.adapter else ADAPTERS
    total = Counter[str]()
    for adapter in adapters:
        found = interrupt(options.count // len(adapters), options.seed, adapter)
        print(f"{adapter}: {dict(found)}", flush=True)
        total += found
    return 1 if sum(total[kind] for kind in total if kind.startswith("fault")) else 0


def interrupt(count: int, seed: int, adapter: str) -> Counter[str]:
    """The results of this many interrupts. A process that aborts is a fault; another continues."""
    total = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="wgcc-interrupts-") as folder:
        for attempt in itertools.count():
            done = total["interrupts"]
            if done >= count:
                return total
            code = f"from trials.interrupts import worker; worker({folder!r}, {count - done}, "
            code += f"{seed + attempt}, {adapter!r})"
            process = subprocess.run(
                [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": python_path()},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            lines = process.stdout.splitlines()
            total += Counter(json.loads(lines[-1]) if lines else {"interrupts": 1})
            if process.returncode:
                total[f"fault: ended with {process.returncode}"] += 1
                print(process.stderr[-2000:], file=sys.stderr)


def python_path() -> str:
    """For a process that runs a trial."""
    places = (ROOT / "tests" / "support", ROOT / "runtime_py", ROOT)
    return os.pathsep.join(map(str, places))


def worker(folder: str, count: int, seed: int, adapter: str) -> None:
    """Interrupts one model repeatedly; prints the results so far after each."""
    place = Path(folder) / str(seed)
    trial = Trial(line_twin.write_bundle(place / "bundle"), place, adapter, seed)
    for _ in range(count):
        trial.interrupt()
        print(json.dumps(trial.found), flush=True)
    # Ends here with buffers still mapped or work submitted, as a program could.


class Trial:
    """A model that is interrupted, and what it must be after each number of steps."""

    def __init__(self, bundle: Path, place: Path, adapter: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._path, self._log = place / "ck.safetensors", place / "log.jsonl"
        self._model = load(bundle, device=adapter, threads=2)
        with load(bundle, device=adapter, threads=2) as undisturbed:
            self._right = list(_states(undisturbed))
        self._actions: list[Callable[[], Any]] = [
            self._fit, self._fit, self._fit_and_save, self._fit_slowly, self._train, self._train,
            self._fail_in_a_callback, self._diverge, self._predict, self._read, self._save,
            self._restore, self._model.reset,
        ]  # fmt: skip
        self._seconds = {action: 0.02 for action in self._actions}
        self.found = Counter[str]()
        self._model.save(self._path)
        for (
            action
        ) in self._actions:  # once without interrupts: pipelines are compiled at the first use
            self._timed(action)

    def interrupt(self) -> None:
        """One action with one or two signals during it, or just after."""
        action = self._chance.choice(self._actions)
        if self._model.steps_done > MOST_STEPS - 40:
            self._model.reset()
        wait = self._chance.uniform(0, 1.1) * self._seconds[action]
        again = self._chance.choice([0, 0, 1e-5, 1e-3])
        cut = self._meet(action, wait, again)
        self.found["interrupts"] += 1
        self.found[f"{action.__name__.strip('_')}{' (cut short)' if cut else ''}"] += 1
        self._check()

    def _meet(self, action: Callable[[], Any], wait: float, again: float) -> bool:
        """Whether the action ended early. All signals have come when this returns."""
        # Flags, because an interrupted `threading.Event` may stay in a bad state.
        started: list[bool] = []
        sent: list[bool] = []
        threading.Thread(target=_send, args=(wait, again, started, sent)).start()
        cut = True
        try:
            started.append(True)
            self._timed(action)
            cut = False
        except KeyboardInterrupt:
            pass
        while True:
            try:
                is_over = bool(sent)
                time.sleep(0.002)
                if is_over:
                    return cut
            except KeyboardInterrupt:
                pass

    def _timed(self, action: Callable[[], Any]) -> None:
        started = time.perf_counter()
        action()
        self._seconds[action] = 0.7 * self._seconds[action] + 0.3 * (time.perf_counter() - started)

    def _check(self) -> None:
        """Counted steps are those in the parameters, on the GPU and in the file."""
        model, step = self._model, self._model.steps_done
        is_right = _bytes(everything(model)) == self._right[step]
        self.found["fault: uncounted steps"] += not is_right
        if not is_right:
            model.reset()
        self.found["fault: handlers"] += signal.getsignal(signal.SIGINT) is not _default
        arrays, facts = load_weights(self._path)
        saved = facts["steps"].get("train", 0)
        self.found["fault: checkpoint"] += _bytes(arrays) != self._right[saved]
        self.found["fault: files left"] += len(list(self._path.parent.glob(".*.tmp")))
        model.train(**self._item(model.steps_done))

    def _item(self, step: int) -> Any:
        return ITEMS[step % len(ITEMS)]

    def _fit(self, **options: Any) -> None:
        steps, every = self._chance.randint(1, 30), self._chance.choice([1, 3, 10])
        self._model.fit(self._item, steps=steps, every=every, **options)

    def _fit_and_save(self) -> None:
        self._fit(checkpoint=self._path, checkpoint_every=4, log=self._log)

    def _fit_slowly(self) -> None:
        def slow(step: int) -> Any:
            time.sleep(0.001)
            return self._item(step)

        self._model.fit(slow, steps=8, every=4, callbacks=[lambda _: self._model.params()])

    def _fail_in_a_callback(self) -> None:
        def fail(report: Any) -> None:
            raise ZeroDivisionError

        with contextlib.suppress(ZeroDivisionError):
            self._fit(callbacks=[fail])

    def _diverge(self) -> None:
        def item(step: int) -> Any:
            good = self._item(step)
            return {**good, "x": good["x"] * np.float32(1e25)} if step % 7 == 6 else good

        try:
            self._model.fit(item, steps=12, every=12)
        except WgccError as error:
            if error.code != "nan":
                raise

    def _train(self) -> None:
        for _ in range(self._chance.randint(1, 3)):
            self._model.train(**self._item(self._model.steps_done))

    def _predict(self) -> None:
        self._model.map("predict", x=np.concatenate([item["x"] for item in ITEMS]))

    def _read(self) -> None:
        everything(self._model)

    def _save(self) -> None:
        self._model.save(self._path, keep_previous=self._chance.random() < 0.5)

    def _restore(self) -> None:
        self._model.load(self._path)


_default = signal.getsignal(signal.SIGINT)


def _send(wait: float, again: float, started: list[bool], sent: list[bool]) -> None:
    while not started:
        time.sleep(0)
    time.sleep(wait)
    os.kill(os.getpid(), signal.SIGINT)
    if again:
        time.sleep(again)
        os.kill(os.getpid(), signal.SIGINT)
    sent.append(True)


def _states(model: Model) -> Iterator[dict[str, bytes]]:
    for step in range(MOST_STEPS):
        yield _bytes(everything(model))
        model.train(**ITEMS[step % len(ITEMS)])


def _bytes(arrays: dict[str, Any]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}
