"""The programs of tests/loops on both software adapters and the twin, against numpy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from elaborated import program
from random_loops import random_loop
from test_repeat_gradients import draw, with_loss
from test_scan import EFFECTS, LOOKUPS, LSTM
from test_scan_programs import FOLDER, session
from wgcc.compiler import compile_program
from wgcc.errors import Diagnostics, Source
from wgcc.evaluate import Session, evaluate
from wgcc.ir.graph import Graph
from wgcc.ir.program import Program
from wgcc.passes.autograd import autograd
from wgcc.passes.pipeline import run_passes

RANDOM = np.random.default_rng(11)
TARGET = np.zeros((2, 8, 8), np.float32)
TARGET[:, 2:6, 2:6] = 0.8
SEEN = RANDOM.normal(size=(12, 4)).astype(np.float32)
TRACK = (0.7 * np.arange(40) + RANDOM.normal(size=40)).astype(np.float32)
POINTS = RANDOM.normal(size=(256, 2)).astype(np.float32)
BATCHES = RANDOM.normal(size=(20, 8, 3)).astype(np.float32)
# Calls of entries in order, each with its inputs.
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "diffusion": [
        ("train", {"points": POINTS, "t": np.int32(20)}),
        ("train", {"points": POINTS, "t": np.int32(3)}),
        ("sample", {}),
        ("sample_exact", {}),
    ],
    "greedy": [("decode", {"prompt": np.array([3, 1, 4, 1, 5], np.int32)})],
    "viterbi": [("train", {"seen": SEEN}), ("train", {"seen": SEEN}), ("path", {"seen": SEEN})],
    "kalman": [("track", {"seen": TRACK}), ("train", {"seen": TRACK}), ("track", {"seen": TRACK})],
    "steps": [("train", {"xs": BATCHES, "ys": BATCHES @ np.array([1, -2, 0.5], np.float32)})] * 2,
    "automaton": [("grow", {}), *[("train", {"target": TARGET})] * 3, ("grow", {})],
}


@pytest.fixture(scope="module", params=CALLS)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = str(request.param)
    return build(FOLDER / f"{name}.wg", tmp_path_factory.mktemp("loops") / name)


@pytest.fixture(scope="module")
def expected(bundle: Path) -> list[dict[str, Any]]:
    one = session(bundle.name)
    return [one.call(entry, inputs) for entry, inputs in CALLS[bundle.name]]


def test_a_program_gives_what_numpy_gives(
    bundle: Path, expected: list[dict[str, Any]], machine: Any
) -> None:
    with wgcc_runtime.load(bundle, device=machine) as model:
        for (entry, inputs), want in zip(CALLS[bundle.name], expected, strict=True):
            found = model.call(entry, **inputs)
            for name, array in want.items():
                # Rounds multiply what rounding errors there are.
                np.testing.assert_allclose(
                    found[name], array, rtol=2e-3, atol=2e-4, err_msg=f"{entry}: {name}"
                )


@pytest.fixture(scope="module")
def looped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Bundles of texts with `scan`, by name."""
    folder = tmp_path_factory.mktemp("scan")
    texts = {"lstm": LSTM.replace("LOOP", "by_scan"), "effects": EFFECTS, "lookups": LOOKUPS}
    for name, text in texts.items():
        (folder / f"{name}.wg").write_text(text, encoding="utf-8")
        build(folder / f"{name}.wg", folder / name)
    return {name: folder / name for name in texts}


def test_an_lstm_learns_as_in_numpy(looped: dict[str, Path], machine: Any) -> None:
    random = np.random.default_rng(0)
    batch = {"xs": random.normal(size=(2, 5, 3)), "y": random.normal(size=(2, 5, 1))}
    batch = {name: array.astype(np.float32) for name, array in batch.items()}
    with wgcc_runtime.load(looped["lstm"], device=machine) as model:
        one = Session(run_passes(program(LSTM.replace("LOOP", "by_scan"))), model.params())
        for _ in range(3):
            want = one.call("train", batch)["loss"]
            assert model.call("train", **batch)["loss"] == pytest.approx(float(want), rel=1e-4)
        for name, array in model.params().items():
            np.testing.assert_allclose(array, one.params[name], rtol=1e-3, atol=1e-5)


def test_effects_in_rounds_are_those_of_numpy(looped: dict[str, Path], machine: Any) -> None:
    """State, draws that differ in every round, dropout in training, gradients in a body."""
    with wgcc_runtime.load(looped["effects"], device=machine) as model:
        one = Session(run_passes(program(EFFECTS)), model.params(), model.state())
        for entry in ("run", "train", "run", "pull", "grid"):
            want, found = one.call(entry), model.call(entry)
            for name, array in want.items():
                np.testing.assert_allclose(
                    found[name], array, rtol=1e-4, atol=1e-4, err_msg=f"{entry}: {name}"
                )


def test_a_lookup_that_fails_in_a_round_is_an_error_of_the_call(
    looped: dict[str, Path], machine: Any
) -> None:
    with wgcc_runtime.load(looped["lookups"], device=machine) as model:
        good = np.array([2, 3, -6, 9], np.int32)
        before = model.call("count", start=np.int32(1), steps=good)["ys"]
        for steps in ([9, -9, 1, 1], [2, 3, -7, 9]):
            with pytest.raises(wgcc_runtime.WgccError, match="0 to 6") as caught:
                model.call("count", start=np.int32(1), steps=np.array(steps, np.int32))
            assert caught.value.code == "range"
        again = model.call("count", start=np.int32(1), steps=good)["ys"]
        np.testing.assert_array_equal(before, again)
        with pytest.raises(wgcc_runtime.WgccError, match="0 to 6"):
            model.call("decode", first=np.int32(7))


def test_several_tokens_in_one_call_are_those_of_one_call_each(
    tmp_path: Path, machine: Any
) -> None:
    """State with windows that a round writes, and one that fails: the whole call is undone."""
    bundle = build(FOLDER / "cached.wg", tmp_path / "cached")
    prompt = np.array([1, 2, 3, 4], np.int32)
    with wgcc_runtime.load(bundle, device=machine) as model:
        model.call("prefill", ids=prompt)
        several = model.call("several", id=np.int32(5))["ids"].tolist()
        model.call("reset")
        model.call("prefill", ids=prompt)
        token, single = 5, []
        for _ in range(8):
            token = int(model.call("one", id=np.array([token], np.int32))["id"])
            single.append(token)
        assert several == single and len(set(single)) > 2
        model.call("several", id=np.int32(5))
        before = model.state()
        assert before["used"] == 20
        with pytest.raises(wgcc_runtime.WgccError, match="is outside 0 to 23") as caught:
            model.call("several", id=np.int32(5))
        assert caught.value.code == "range"
        for name, array in model.state().items():
            np.testing.assert_array_equal(array, before[name])


@pytest.fixture(scope="module")
def random_entries() -> dict[str, Graph]:
    """Random loops with their gradients, whose names are names of a plan."""
    found = {}
    for seed in (1, 4, 6, 11, 17, 26, 31):
        graph = with_loss(random_loop(seed))
        outputs = {name.replace(".", "_"): value for name, value in graph.outputs.items()}
        found[f"loop{seed}"] = replace(graph, name=f"loop{seed}", outputs=outputs)
    return found


def test_random_loops_and_their_gradients(
    random_entries: dict[str, Graph], tmp_path: Path, machine: Any
) -> None:
    whole = Program("loops", entries=random_entries)
    compile_program(Source("m.wg", ""), whole, Diagnostics()).write(tmp_path / "bundle")
    with wgcc_runtime.load(tmp_path / "bundle", device=machine) as model:
        for name, graph in random_entries.items():
            values = {key: array.astype(np.float32) for key, array in draw(graph).items()}
            want = evaluate(autograd(graph), values).outputs
            for key, array in model.call(name, **values).items():
                limit = 1e-4 * max(1.0, float(np.abs(want[key]).max()))
                np.testing.assert_allclose(array, want[key], atol=limit, err_msg=f"{name}: {key}")
