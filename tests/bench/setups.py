"""Who takes part: each library on each backend is a process that makes steps on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers import node_program, say, torch_python

from adapters import environment

FOLDER = Path(__file__).resolve().parent
NODE = FOLDER.parent.parent / ".cache" / "node"


@dataclass(frozen=True, slots=True)
class Setup:
    """`where`: chromium, node or python. `backend`: what the library computes with."""

    where: str
    library: str
    backend: str
    threads: int = 1

    @property
    def name(self) -> str:
        name = f"{self.where}-{self.library}-{self.backend}"
        return name if self.threads == 1 else f"{name}-{self.threads}"


# What is summed up over blocks: milliseconds, steps and CPU milliseconds.
TIMED = ("ms", "steps", "cpu")
# Those with which models that only wgcc has are measured, and those for the benchmarks' own models.
WGCC = (
    Setup("chromium", "wgcc", "wasm"),
    Setup("chromium", "wgcc", "webgpu"),
)
SETUPS = (
    *WGCC,
    Setup("chromium", "jax", "wasm"),
    Setup("chromium", "jax", "webgpu"),
    Setup("chromium", "tfjs", "wasm"),
    Setup("chromium", "tfjs", "webgpu"),
    Setup("node", "wgcc", "wasm"),
    Setup("node", "wgcc", "wasm", threads=2),
    Setup("node", "jax", "wasm"),
    Setup("node", "tfjs", "wasm"),
    Setup("python", "wgcc", "wasm"),
    Setup("python", "wgcc", "llvmpipe"),
    Setup("python", "torch", "cpu"),
)


@dataclass(slots=True)
class Running:
    """A setup's process, and what it answered: `failed` says why it no longer takes part."""

    setup: Setup
    process: subprocess.Popen[str]
    seen: dict[str, Any] = field(default_factory=lambda: {"ms": [], "steps": 0, "cpu": 0.0})

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._send(request)
        return self._answer()

    def block(self, seconds: float, most: int, counted: bool = True) -> None:
        """Some steps; those of a warming up are made, but not counted."""
        answer = self.ask({"seconds": seconds, "most": most})
        timed = {key: answer.pop(key) for key in TIMED if key in answer}
        self.seen |= answer
        if counted:
            self.seen |= {key: self.seen[key] + value for key, value in timed.items()}

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def _send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(f"{json.dumps(request)}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer says so

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "its process ended"}
        if "failed" in answer:
            self.seen["failed"] = answer["failed"]
            say(f"{self.setup.name} failed: {answer['failed']}")
        return answer


def start(setup: Setup, folder: Path, model: str, entry: str) -> Running | None:
    """A process whose first step is made; None if the library is not there."""
    command = _command(setup)
    if command is None:
        return None
    drivers = "lavapipe" if setup.where == "python" else "swiftshader"
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "NODE_FOLDER": str(NODE), **environment(drivers)},
    )
    running = Running(setup, process)
    task = {"folder": str(folder), "model": model, "entry": entry, "library": setup.library}
    running.seen |= running.ask({**task, "backend": setup.backend, "threads": setup.threads})
    return running


def _command(setup: Setup) -> list[str] | None:
    if setup.where != "python":
        return [node_program(), str(FOLDER / f"{setup.where}.mjs")]
    python: Path | None = Path(sys.executable)
    if setup.library == "torch":
        python = torch_python()
    return [str(python), str(FOLDER / f"{setup.library}_steps.py")] if python else None
