"""What `wgcc check` says of limits without writing kernels is what writing them says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from random_models.generate import generate
from wgcc.compiler import read_program
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.ir.program import Program
from wgcc.passes.pipeline import PREPARED, run_passes
from wgcc.schedule.keep_limits import keeps_limits
from wgcc.schedule.limits import check_raised
from wgcc.schedule.schedule import schedule


def prepare(text: str) -> Program:
    _, program, _ = read_program(Source("model.wg", text, "model.wg"))
    return run_passes(program, until=PREPARED)


def breaks_limits(program: Program) -> bool:
    diagnostics = Diagnostics()
    try:
        check_raised(schedule(program), program, diagnostics)
    except WgError:
        return True
    return bool(diagnostics.items)


# Each has a size N that is drawn; about half of the models break a limit, or nearly do.
FORMS = (
    "entry run(x: f32[3, N]) -> (y: f32[3]) = sum(x, axis = 1)",
    "entry run(x: f32[N, 3]) -> (y: f32[3]) = max(x, axis = 0)",
    "entry run(x: f32[N]) -> (y: f32[N]) = softmax(x)",
    "entry run(x: f32[2, N], z: f32[N, 2]) -> (y: f32[2, 2]) = exp(x) @ z",
    "entry run(x: f32[N, 2, 2], z: f32[N, 2, 2]) -> (y: f32[N, 2, 2]) = x @ z",
    "entry run(x: f32[N]) -> (y: f32[N]) = cumsum(x, axis = 0)",
    "entry run(x: f32[1, 1, N, 8]) -> (y: f32[1, 1, N, 8]) = attention(x, x, x)",
    "entry run(x: f32[1, 1, 4, N]) -> (y: f32[1, 1, 4, N]) = attention(x, x, x)",
    "entry run(x: f32[N, 40]) -> (y: f32[40]) = sum(softmax(x) * x, axis = 0)",
    "entry run(x: f32[1, 9, 9, 1], w: f32[3, 3, 1, 1]) -> (y: f32) = "
    "sum(conv2d(x, w, pad = N, stride = N))",
    "entry run(x: f32[N]) -> (y: f32[N]) = cumprod(x)",
    "fn add(s: f32, x: f32) { return s + x, s }\n"
    "  entry run(xs: f32[N]) -> (s: f32, ys: f32[N]) { return scan(add, 0.0, xs) }",
)


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_limits_of_large_models(form: str) -> None:
    """Of no model that breaks a limit it is said that it keeps them."""
    draw = random.Random(form)
    answers = set[bool]()
    for _ in range(6):
        size = int(10 ** draw.uniform(3, 7.5))
        try:
            program = prepare(f"model M {{ {form.replace('N', str(size))} }}\n")
        except WgError:
            continue  # refused before there is anything to place
        answers.add(keeps_limits(program))
        assert not (keeps_limits(program) and breaks_limits(program)), size
    assert answers


@pytest.mark.parametrize("seed", range(6))
def test_limits_of_random_models(seed: int) -> None:
    program = prepare(generate(30_000 + seed).text())
    assert keeps_limits(program) != breaks_limits(program)


def test_a_small_model_is_checked_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a kernel is written")

    monkeypatch.setattr("wgcc.schedule.write_kernels.KernelWriter.dispatch", never)
    path = Path(__file__).parents[2] / "examples" / "sin" / "model.wg"
    assert keeps_limits(prepare(path.read_text(encoding="utf-8")))
