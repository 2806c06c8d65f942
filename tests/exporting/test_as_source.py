"""`wgcc show --as wg`: a graph of the IR as a program that computes the same numbers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters import ROOT
from cli_runs import run
from wgcc.compiler import read_program
from wgcc.errors import WgError
from wgcc.evaluate import evaluate
from wgcc.exporting.as_source import program_source
from wgcc.ir.graph import Builder, Graph, TensorType, Value
from wgcc.ir.program import Program
from wgcc.ops import infer_types

EXAMPLES = sorted((ROOT / "examples").rglob("*.wg"))
# Entries that the language says again. The others train, draw random numbers, have loops or pool.
FEWEST_SAID = 30


def numbers(graph: Graph, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for value in (*graph.inputs, *graph.params, *graph.state):
        if value.dtype in ("f32", "f16"):
            found[value.name] = rng.standard_normal(value.shape).astype(np.float32)
        else:
            found[value.name] = rng.integers(0, 2, value.shape)
    return found


def said_again(program: Program, entry: str, folder: Path) -> Program | None:
    """The program of one entry, written and read; None where the language cannot say it."""
    entries = {entry: program.entries[entry]}
    only = Program(program.name, params=program.params, state=program.state, entries=entries)
    try:
        text = program_source(only)
    except WgError as error:
        assert "cannot be said" in str(error) or "too long" in str(error)
        return None
    path = folder / "again.wg"
    path.write_text(text, encoding="utf-8")
    return read_program(path)[1]


def check(program: Program, entry: str, folder: Path) -> bool:
    again = said_again(program, entry, folder)
    if again is None:
        return False
    graph, other = program.entries[entry], again.entries[entry]
    given = numbers(graph)
    wanted = evaluate(graph, given).outputs
    renamed = {name.replace(".", "_"): array for name, array in given.items()}
    for value in (*other.inputs, *other.params, *other.state):
        assert value.name in renamed, f"{value.name} is no source of {entry}"
    results = evaluate(other, renamed).outputs
    for name, right in wanted.items():
        np.testing.assert_allclose(results[name], right, rtol=1e-5, atol=1e-6)
    return True


def test_entries_of_the_examples_say_the_same(tmp_path: Path) -> None:
    said = 0
    for path in EXAMPLES:
        try:
            program = read_program(path)[1]
        except WgError:
            continue
        for entry in program.entries:
            said += check(program, entry, tmp_path)
    assert said >= FEWEST_SAID


UNARY = ("tanh", "exp", "square", "abs", "neg", "sigmoid", "floor")
BINARY = ("add", "sub", "mul", "maximum", "minimum")


def random_graph(seed: int) -> Graph:
    """Functions of elements, moves and reductions of one tensor, in any order."""
    rng = random.Random(seed)
    b = Builder(infer_types, ["x"])
    x = Value("x", TensorType((3, 4)))
    values = [x]
    for _ in range(8):
        a = rng.choice(values)
        kind = rng.randrange(5)
        if kind == 0:
            new = b.apply(rng.choice(UNARY), a)
        elif kind == 1:
            new = b.apply("transpose", a, perm=tuple(reversed(range(len(a.shape)))))
        elif kind == 2 and a.shape:
            new = b.apply("sum", a, axes=(rng.randrange(len(a.shape)),))
        elif kind == 3:
            new = b.apply("reshape", a, shape=(a.type.size,))
        else:
            other = next(v for v in [*rng.sample(values, len(values)), a] if v.shape == a.shape)
            new = b.apply(rng.choice(BINARY), a, other)
        values.append(new)
    outputs = {"y": values[-1], "z": values[-2]}
    return Graph("main", (x,), nodes=tuple(b.nodes), outputs=outputs)


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_say_the_same(seed: int, tmp_path: Path) -> None:
    assert check(Program("random", entries={"main": random_graph(seed)}), "main", tmp_path)


def test_the_command_prints_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.wg"
    path.write_text("wg 1\nmodel M {\n  fc: Linear[3, 2]\n  entry predict(x: f32[4, 3]) -> (y: "
                    "f32[4, 2]) = softmax(fc(x))\n}\n")  # fmt: skip
    code, text, _ = run(capsys, "show", str(path), "--stage", "ir", "--as", "wg")
    assert code == 0 and "softmax(" in text and "x @ fc_w" in text
    code, _, said = run(capsys, "show", str(path), "--as", "wg")
    assert code != 0 and "--stage" in said


def test_what_cannot_be_said_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.wg"
    path.write_text("wg 1\nmodel M {\n  entry noise() -> (y: f32[4]) = randn(f32[4])\n}\n")
    code, _, said = run(capsys, "show", str(path), "--stage", "ir", "--as", "wg")
    assert code != 0 and "entry noise cannot be said in the language" in said and "random" in said
