"""Checks that the compiler answers a text in time, with errors or with a bundle."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wgcc.compiler import compile_program
from wgcc.elaborate import check
from wgcc.errors import Diagnostics, Source, WgError, render_run
from wgcc.ir.program import Program
from wgcc.passes.autograd import autograd
from wgcc_runtime.plan import read_plan

# CPU time, so that a busy machine does not matter.
SECONDS = 30
# Models that take long to build are skipped; this is the limit of elements of an entry.
MOST_ELEMENTS = 2_000_000
SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Verdict:
    """`problem` is empty if all is well; `outcome` is the compiler's result."""

    outcome: str
    problem: str
    seconds: float


def judge(text: str, build: bool) -> Verdict:
    """Check a text, render its diagnostics in both forms, and build it if it passes, on request."""
    started = time.process_time()
    outcome, problem = "", ""
    try:
        with _deadline(SECONDS):
            outcome = _check(text, build)
    except _TooLate:
        problem = f"no answer after {SECONDS} s, in {_innermost(sys.exc_info()[2])}"
    except WgError as error:
        problem = f"checks, but does not build: {error}" if outcome else f"check raises: {error}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        problem = f"{type(error).__name__}: {error} in {_innermost(error.__traceback__)}"
    return Verdict(outcome or "none", " ".join(problem.split()), time.process_time() - started)


def _check(text: str, build: bool) -> str:
    diagnostics = Diagnostics()
    source = Source("fuzz.wg", text)
    programs = check(source, diagnostics, prepare=autograd)
    render_run(diagnostics, None).encode()
    json.dumps([item.as_json() for item in diagnostics])
    if diagnostics.errors:
        return "errors"
    # A text can contain a lone surrogate, but a file that is built cannot.
    if build and not SURROGATES.search(text):
        for program in programs.values():
            if _size(program) <= MOST_ELEMENTS:
                files = compile_program(source, program, diagnostics).files()
                read_plan(files["plan.json"])
    return "model" if programs else "nothing to build"


def _size(program: Program) -> int:
    return sum(
        value.type.size
        for graph in program.entries.values()
        for node in graph.nodes
        for value in node.outputs
    ) + sum(tensor.type.size for tensor in program.params.values())


class _TooLate(BaseException):
    pass


@contextmanager
def _deadline(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise _TooLate

    old = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)


def _innermost(trace: Any) -> str:
    frames = [f for f in traceback.extract_tb(trace) if "wgcc" in f.filename] or ["?"]
    last = frames[-1]
    return last if isinstance(last, str) else f"{Path(last.filename).name}:{last.lineno}"
