"""Recurrent layers: PyTorch's numbers for rows of different lengths, in kernels that do not depend
on the number of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import wgcc_runtime
from adapters import ROOT
from building import build
from cli_runs import run
from elaborated import problems, program
from wgcc.compiler import compile_file
from wgcc.elaborate.elaborate import check
from wgcc.errors import Diagnostics, Source
from wgcc.schedule.kernel import GPU, EntrySchedule, Kernel

FOLDER = ROOT / "tests" / "importing"


def test_rows_of_different_lengths_are_those_of_pytorch(
    machine: Any, tmp_path: Path, capsys: Any
) -> None:
    """Two bidirectional layers from given states, with imported weights."""
    weights = tmp_path / "weights.safetensors"
    files = (str(FOLDER / "recurrent.safetensors"), str(FOLDER / "recurrent.wg"))
    assert run(capsys, "import", *files, "-o", str(weights))[0] == 0
    bundle = build(FOLDER / "recurrent.wg", tmp_path / "bundle")
    model = wgcc_runtime.load(bundle, device=machine, weights=weights)
    wanted = load_file(FOLDER / "recurrent_padded.safetensors")
    given = {name: wanted[name] for name in ("x", "h", "c", "lengths")}
    found = model.padded(**given)
    for name, expected in (("y", "y"), ("h", "h_n"), ("c", "c_n")):
        np.testing.assert_allclose(found[name], wanted[expected], atol=1e-6)
    whole = load_file(FOLDER / "recurrent_run.safetensors")
    np.testing.assert_allclose(model.predict(x=whole["x"])["y"], whole["y"], atol=1e-6)


TRAINED = """
dim B = 4, T = 8, X = 3, Z = 16
model M {{
  rnn: {kind}[X, Z]
  optimizer opt: adam {{ lr = 0.01 }}
  entry train(x: f32[B, T, X], y: f32[B, T, Z]) -> (loss: f32) {{
    loss = mse(rnn(x), y)
    minimize loss with opt
    return loss
  }}
  entry predict(x: f32[B, T, X]) -> (y: f32[B, T, Z]) = rnn(x)
}}
"""


@pytest.mark.parametrize(("kind", "most"), [("RNN", 3), ("LSTM", 4), ("GRU", 4)])
def test_loops_do_not_depend_on_the_number_of_steps(kind: str, most: int, tmp_path: Path) -> None:
    """Sums over all steps behind the loops are cut into parts if they are long.

    The dispatches of a round include the one that advances the counter.
    """
    source = tmp_path / "model.wg"
    source.write_text(TRAINED.format(kind=kind), encoding="utf-8")
    short, long = (
        compile_file(source, sizes={"T": times}, twin=False).schedule for times in (8, 1024)
    )
    predict = [schedule.entries["predict"] for schedule in (short, long)]
    assert len(kernels(predict[0])) == len(kernels(predict[1]))
    for before, after in zip(
        short.entries["train"].repeats, long.entries["train"].repeats, strict=True
    ):
        assert (before.rounds, after.rounds, before.count) == (8, 1024, after.count)
    forward, backward = short.entries["train"].repeats
    assert forward.count <= 3 and backward.count <= most
    trains = [schedule.entries["train"] for schedule in (short, long)]
    assert len(kernels(trains[1])) <= len(kernels(trains[0])) + 6
    assert len(kernels_in_loops(trains[0])) == len(kernels_in_loops(trains[1]))


def kernels(entry: EntrySchedule) -> set[Kernel]:
    return {dispatch.launches[GPU].kernel for dispatch in entry.dispatches}


def kernels_in_loops(entry: EntrySchedule) -> set[Kernel]:
    ranges = [entry.dispatches[loop.first : loop.end] for loop in entry.repeats]
    return {dispatch.launches[GPU].kernel for range_ in ranges for dispatch in range_}


def found_help(text: str) -> list[str]:
    found = Diagnostics()
    check(Source("model.wg", text), found)
    return [help_.text for help_ in found.items[0].helps]


def test_the_library_is_read_only_for_programs_that_use_it() -> None:
    text = "layer LSTM[D] {{ param w: f32[D] = 0.0\n fn forward(x: f32[D]) -> f32[D] = x * w }}\n"
    own = text.format() + "model M { f: LSTM[2]\n entry e(x: f32[2]) -> (y: f32[2]) = f(x) }\n"
    assert [*program(own).params] == ["f.w"]
    assert "LSTM" in str(found_help("model M { f: Lstm[2, 3] }\n"))


def test_states_and_numbers_of_layers_that_do_not_fit_are_refused() -> None:
    text = """model M {
  rnn: GRU[3, 4]
  none: LSTM[3, 4](layers = 0)
  entry e(x: f32[2, 5, 3], h: f32[2, 2, 4]) -> (y: f32[2, 5, 4]) = rnn.run(x, h)[0]
}
"""
    found = problems(text)
    assert "`layers` must be at least 1" in found[0]
    assert "the state has a row for each layer and direction" in found[1]
