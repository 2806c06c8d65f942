"""Loops at run time: which round a NaN comes from, profiles, every JavaScript engine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import line_bundle
import wgcc_runtime
from loop_graphs import CASES, draw_inputs, loop_graph
from read_ir import program_of, read_graphs
from test_repeat_kernels import compiled
from web_stacks import run_job, verify
from wgcc.bundle.drawing import plan_drawing
from wgcc.bundle.folder import write_files
from wgcc.cli.commands.show.kernel_facts import kernel_facts
from wgcc.cli.commands.show.overview import fused_text, overview
from wgcc.cli.commands.show.subject import Subject
from wgcc.compiler import Compiled, compile_program
from wgcc.errors import Diagnostics, Source
from wgcc_runtime.plan import Twin, read_plan
from wgcc_runtime.plan_parts import run_order, times_run
from wgcc_runtime.wasm_machine import choose_threads

# A loop in a loop, which trains one parameter: a zero gives an infinity in its round.
TRAIN = """
entry train {
  input %xs: f32[5, 2, 3]
  param %w: f32[3]
  %zero = const(value=0.0, dtype=f32)
  %start = broadcast(%zero; shape=(3,))
  %h = repeat(%start, %xs, %w; reverse=False, rounds=5) {
    input %t: u32
    input %x: f32[2, 3]
    input %w.in: f32[3]
    state %h.old: f32[3]
    %k = repeat(%h.old, %x, %w.in; reverse=False, rounds=2) {
      input %s: u32
      input %part: f32[3]
      input %w.inner: f32[3]
      state %k.old: f32[3]
      %root = reciprocal(%part)
      %scaled = mul(%root, %w.inner)
      %k.new = add(%k.old, %scaled)
      write k.old = %k.new
    }
    write h.old = %k
  }
  %loss = sum(%h; axes=(0,))
  %d.w = grad(%loss, %w)
  %w.new = add(%w, %d.w)
  output loss = %loss
  write w = %w.new
}
"""


def write_web(found: Compiled, folder: Path) -> Path:
    files = found.files()
    write_files(files, folder)
    return folder


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = read_graphs(TRAIN)["train"].with_facts(trains=True)
    found = compile_program(Source("m.wg", ""), program_of(graph), Diagnostics())
    return write_web(found, tmp_path_factory.mktemp("loops") / "training")


def bad_batch(part: int) -> Any:
    """Not finite from the round on that reads this part."""
    xs = np.ones(30, np.float32)
    xs[3 * part + 1] = 0
    return xs.reshape(5, 2, 3)


def test_blame_says_which_round(training: Path, machine: Any) -> None:
    with wgcc_runtime.load(training, device=machine) as model:
        model.call("train", xs=np.ones((5, 2, 3), np.float32))
        before = model.params()["w"]
        assert np.all(before == 10)
        with pytest.raises(wgcc_runtime.WgccError) as caught:
            model.call("train", xs=bad_batch(5))
        assert caught.value.code == "nan"
        assert "in round 2 of 2 in round 3 of 5" in str(caught.value)
        assert np.array_equal(model.params()["w"], before)
        assert model.steps_done == 1


def test_an_interrupt_leaves_whole_steps(training: Path) -> None:
    def batches() -> Iterator[dict[str, Any]]:
        for _ in range(7):
            yield {"xs": np.ones((5, 2, 3), np.float32)}
        raise KeyboardInterrupt

    with wgcc_runtime.load(training, device="wasm") as model:
        with pytest.raises(KeyboardInterrupt):
            model.fit(batches(), steps=20)
        assert 0 < model.steps_done <= 7
        assert np.all(model.params()["w"] == 10 * model.steps_done)


@pytest.mark.parametrize("stack", ["node", "chrome"])
def test_blame_in_javascript(training: Path, stack: str) -> None:
    given = {"good": np.ones(30).tolist(), "bad": bad_batch(5).ravel().tolist()}
    for device in ("webgpu", "wasm"):
        seen = run_job(stack, training, "loops", {**given, "device": device})
        assert seen["said"].startswith("nan: `train` step 2: ")
        assert "in round 2 of 2 in round 3 of 5" in seen["said"]
        assert seen["w"] == [10, 10, 10]
        # Whole steps were made before the abort, and counted.
        assert (seen["stopped"], seen["perStep"]) == ("AbortError", 10)
        rows = [(row["label"], row["times"]) for row in seen["rows"]]
        assert ("t.next", 5) in rows and ("s.next", 10) in rows


def test_profiles_sum_over_rounds(tmp_path: Path, machine: Any) -> None:
    compiled(loop_graph("gru", rounds=9)).write(tmp_path / "gru")
    with wgcc_runtime.load(tmp_path / "gru", device=machine) as model:
        rows = {row.label: row for row in model.profile("gru", repeat=2).rows}
        entry = model.entry("gru")
    assert (rows["h.start"].times, rows["wh"].times) == (1, 9)
    flops = {dispatch.label: dispatch.flops for dispatch in entry.dispatches}
    assert rows["wh"].flops == 9 * flops["wh"] > 0


def test_loops_in_every_stack(tmp_path: Path) -> None:
    bundle = write_web(compiled(*map(loop_graph, CASES)), tmp_path / "bundle")
    for device, stacks in (("webgpu", "node,chrome"), ("wasm", "wasm,node,chrome")):
        done = verify(bundle, "--on", stacks, "--device", device, "--json")
        assert done.returncode == 0, done.stderr
        assert len(json.loads(done.stdout)) == len(stacks.split(","))


def test_many_rounds_take_no_more_kernels() -> None:
    few, many = (compiled(loop_graph("lstm", rounds, 4, 8)) for rounds in (8, 1024))
    assert len(few.planned.kernels) == len(many.planned.kernels)
    entry = many.schedule.entries["lstm"]
    assert [(loop.count, loop.rounds) for loop in entry.repeats] == [(3, 1024)]


def test_large_and_odd_sizes(tmp_path: Path) -> None:
    """Several threads of the twin wait for each other after every dispatch."""
    graph = loop_graph("lstm", rounds=7, rows=33, width=65)
    compiled(graph).write(tmp_path / "lstm")
    given = draw_inputs(graph)
    found = []
    for threads in (1, 3):
        with wgcc_runtime.load(tmp_path / "lstm", device="wasm", threads=threads) as model:
            found.append(model.call("lstm", **given))
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])


class Shown(Subject):
    """What `wgcc show` shows of a compiled program."""

    def __init__(self, found: Compiled) -> None:
        self._found = found

    @property
    def compiled(self) -> Compiled:
        return self._found


def test_loops_are_shown_as_loops() -> None:
    found = compiled(loop_graph("nested", rounds=4))
    plan = found.planned.plan
    text = fused_text(Shown(found))
    assert "→ 42 dispatches (9 of them different)" in text
    outline = [line for line in text.splitlines() if line.endswith(("{", "}", "threads"))]
    assert [line.split(":")[0].split()[-1] for line in outline] == [
        "h_start", "t_start", "{", "last_start", "s_start", "{", "hs", "h_inner", "s_next", "}",
        "h_next", "t_next", "}",
    ]  # fmt: skip
    assert [line.strip() for line in outline if line.endswith("{")] == [
        "repeat 4 rounds {",
        "repeat 2 rounds {",
    ]
    shown = overview(plan)
    assert "42 dispatches (9 of them different)" in shown
    assert all(re.search(text, shown) for text in (r"s_next +× 8", r"t_next +× 4", r"t_start +× 1"))
    inner, outer = (kernel_facts(plan, name, "") for name in ("s_next", "t_next"))
    assert inner["dispatches"][0]["bytes"] == 2 * outer["dispatches"][0]["bytes"]
    assert len(plan_drawing(plan, "nested").boxes) == 3 + 9 + 3


def test_loops_say_what_runs_how_often() -> None:
    raw = line_bundle.make_plan()
    raw["entries"]["train"]["repeats"] = [
        {"first": 1, "count": 2, "rounds": 3},
        {"first": 1, "count": 1, "rounds": 2},
    ]
    entry = read_plan(json.dumps(raw).encode()).entries["train"]
    order = list(run_order(entry))
    assert [number for number, _ in order] == [0, 1, 1, 2, 1, 1, 2, 1, 1, 2]
    assert [rounds for _, rounds in order[1:4]] == [((1, 3), (1, 2)), ((1, 3), (2, 2)), ((1, 3),)]
    assert times_run(entry) == [1, 6, 3]


def test_short_rounds_run_in_one_thread() -> None:
    """Threads wait for each other after every dispatch, which takes longer than a small product."""
    raw = line_bundle.make_plan()
    train = raw["entries"]["train"]
    for dispatch in train["dispatches"]:
        dispatch["flops"] = 1_000_000
    twin = Twin("twin.wasm", "", 8, {}, 1024, 0)

    def threaded(rounds: int, flops: int) -> bool:
        train["repeats"] = [{"first": 1, "count": 2, "rounds": rounds}]
        train["dispatches"][1]["flops"] = flops
        plan = read_plan(json.dumps(raw).encode())
        return "train" in choose_threads(None, plan, twin).entries

    assert not threaded(rounds=1000, flops=1_000_000)
    assert not threaded(rounds=2, flops=4_000_000)
    assert threaded(rounds=1000, flops=4_000_000)
    assert threaded(rounds=1, flops=40_000_000)
