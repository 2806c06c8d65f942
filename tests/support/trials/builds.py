"""Builds that die, fail or are interrupted while they write: the folder is the old or the new one.

First at every single operation on files, then at random moments of processes that build in a loop.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wgcc.bundle.folder import check_folder, write_files
from wgcc.compiler import compile_file
from wgcc.errors import WgError
from wgcc_runtime.loader import load

MODELS = {
    # With constants, weights of another shape, other kernels, another source.
    "old.wg": """model Old {
  f: Linear[2, 3]
  optimizer opt: adam { lr = 0.1 }
  entry train(x: f32[4, 2]) -> (loss: f32) {
    loss = sum(f(x) * sin(f32(arange(3))))
    minimize loss with opt
    return loss
  }
}""",
    "new.wg": """model New {
  f: Linear[2, 5]
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[4, 2]) -> (loss: f32) {
    loss = sum(tanh(f(x)))
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[4, 2]) -> (y: f32[4, 5]) = tanh(f(x))
}""",
}
# What the user put into the folder.
THEIRS = {"notes.txt": b"mine", "data/x.bin": bytes(1000), "kernels/mine.wgsl": b"// mine\n"}
WAYS = ("killed", "disk full", "interrupted")
# Files of both, until wgcc next opens the folder.
MIXED = "mixed at first"

Files = Mapping[str, bytes]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("count", type=int, help="how many kills at random moments")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--stride", type=int, default=1, help="try every n-th operation")


def run(options: argparse.Namespace) -> int:
    bad = 0
    with tempfile.TemporaryDirectory(prefix="wgcc-builds-") as name:
        trial = Trial(Path(name))
        for way, inside in itertools.product(WAYS, (False, True)):
            found = trial.at_every_operation(way, inside, options.stride)
            where = "file by file" if inside else "exchanged"
            print(f"{way}, {where}: {dict(found)}", flush=True)
            bad += found["left over"] + found["other"]
            bad += found[MIXED] if way != "killed" or not inside else 0
        found = trial.at_random_moments(options.count, options.seed)
        print(f"{options.count} kills: {dict(found)}")
    return 1 if bad or found["other"] or found["left over"] else 0


class Trial:
    def __init__(self, folder: Path) -> None:
        self.folder, self.bundle = folder, folder / "place" / "bundle"
        self.files = {name: _compiled(folder, name, text) for name, text in MODELS.items()}
        self.whole = {name: {**files, **THEIRS} for name, files in self.files.items()}
        self._template = folder / "template"
        write_files(self.files["old.wg"], self._template)
        for name, data in THEIRS.items():
            (self._template / name).parent.mkdir(exist_ok=True)
            (self._template / name).write_bytes(data)
        # Imports everything a build needs, so that children need no import.
        write_files(self.files["new.wg"], folder / "first")

    def at_every_operation(self, way: str, inside: bool, stride: int = 1) -> Counter[str]:
        """`inside`: from within the folder, which then cannot be swapped."""
        found = Counter[str]({"old.wg": 0, "new.wg": 0, "other": 0, "left over": 0})
        for at in itertools.count(1, stride):
            shutil.rmtree(self.bundle.parent, ignore_errors=True)
            shutil.copytree(self._template, self.bundle)
            process = os.fork()
            if not process:
                self._build(way, inside, at)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            if self.state() == "other":
                found[MIXED] += 1
                check_folder(self.bundle)
            found[self.state()] += 1
            found["left over"] += self._repair()
            if code == 0:
                return found
        raise AssertionError

    def at_random_moments(self, count: int, seed: int) -> Counter[str]:
        """Kills processes that write both bundles alternately, some time after they began."""
        found = Counter[str]({"old.wg": 0, "new.wg": 0, "other": 0, "left over": 0})
        chance, seconds = random.Random(seed), self._seconds()
        shutil.rmtree(self.bundle.parent, ignore_errors=True)
        shutil.copytree(self._template, self.bundle)
        for _ in range(count):
            process = os.fork()
            if not process:
                for name in itertools.cycle(("new.wg", "old.wg")):
                    write_files(self.files[name], self.bundle)
            time.sleep(chance.random() * 4 * seconds)
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            state = self.state()
            found[state] += 1
            found["in the midst of a build"] += bool(self._strays())
            if state in self.files:
                load(self.bundle, device="llvmpipe", verify=True).close()
        found["left over"] += self._repair()
        return found

    def state(self) -> str:
        """Which bundle is in the folder, complete and with all files of the user."""
        paths = (path for path in sorted(self.bundle.rglob("*")) if path.is_file())
        names = {path.relative_to(self.bundle).as_posix(): path for path in paths}
        found = {name: path.read_bytes() for name, path in names.items() if name[0] != "."}
        return next((name for name, whole in self.whole.items() if found == whole), "other")

    def _repair(self) -> int:
        """Stray files after the next build, which must succeed."""
        write_files(self.files["new.wg"], self.bundle)
        return len(self._strays()) + (self.state() != "new.wg")

    def _strays(self) -> list[Path]:
        return [*self.bundle.parent.glob(".*"), *self.bundle.glob(".*")]

    def _seconds(self) -> float:
        started = time.monotonic()
        for name in self.files:
            write_files(self.files[name], self.folder / "timed")
        return (time.monotonic() - started) / 2

    def _build(self, way: str, inside: bool, at: int) -> None:
        """In a separate process. Exit code 0: it finished without a fault."""
        count = itertools.count(1)

        def fault() -> None:
            if next(count) != at:
                return
            if way == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt if way == "interrupted" else OSError(errno.ENOSPC, "full")

        def hook(event: str, _: tuple[Any, ...]) -> None:
            if event == "open" or event.startswith(("os.", "ctypes.call", "shutil.")):
                fault()

        if inside:
            os.chdir(self.bundle)
        real = os.fsync
        os.fsync = lambda descriptor: (fault(), real(descriptor))[1]  # type: ignore[assignment]
        sys.addaudithook(hook)
        try:
            write_files(self.files["new.wg"], Path() if inside else self.bundle)
        except (WgError, KeyboardInterrupt, OSError):
            os._exit(1)
        os._exit(0 if next(count) <= at else 1)


def _compiled(folder: Path, name: str, text: str) -> Files:
    (folder / name).write_text(text)
    return compile_file(folder / name).files()
