"""Compiling a model of many equal layers takes work in proportion to their number.

What is counted is executed lines and calls, not seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import wgcc.schedule.memory.order as apart
import wgcc.schedule.write_kernels as scheduling
from adapters import NAMES, ROOT, request_device
from deep_models import GPT as DEEP_GPT
from deep_models import write
from executed_lines import executed_lines, growth
from random_models.judge import judge
from wgcc.compiler import Compiled, compile_file
from wgcc.errors import Source
from wgcc.ir.graph import TensorType, Value
from wgcc.ir.index import flat_space, reduction_space
from wgcc.kernel.tree import Module
from wgcc.live_settings import with_live_settings
from wgcc.schedule.fuse.group import Candidates, Group, Precedence, falling
from wgcc.schedule.kernel import ALIGNMENT, Binding, Dispatch, Kernel, Launch, Place
from wgcc.schedule.kernels.context import GroupCode, GroupContext
from wgcc.schedule.memory.slots import Arena, Bits, Life, Timeline, free_spans
from wgcc.schedule.schedule import share_access
from wgcc.schedule.write_kernels import KernelWriter, Repeated

GPT = ROOT / "tests" / "bench" / "models" / "c.wg"
DROPPING = """
model Dropping {{
  {setting}
  seed = 4
  l[{depth}]: Linear[6, 6]
  optimizer opt: sgd {{ lr = 0.1 }}
  entry train(x: f32[5, 6]) -> (loss: f32, y: f32[5, 6]) {{
    y = x
    for part in l {{ y = dropout(tanh(part(y)), 0.3) }}
    loss = {scale} * mean(y ** 2)
    minimize loss with opt
    return loss, y
  }}
}}
"""
GROUPED = """
model Grouped {{
  {setting}
  seed = 4
  l[{depth}]: Linear[6, 6]
  optimizer opt: adamw {{
    lr = 0.1
    {groups}
  }}
  entry train(x: f32[5, 6]) -> (loss: f32) {{
    y = x
    for part in l {{ y = tanh(part(y)) }}
    loss = {scale} * mean(y ** 2)
    minimize loss with opt
    return loss
  }}
}}
"""
# Work may grow as layers to this power.
MOST_GROWTH = 1.3


@pytest.fixture(scope="module")
def devices() -> dict[str, Any]:
    return {name: request_device(name) for name in NAMES}


def gpt(layers: int, twin: bool = True, **sizes: int) -> Compiled:
    return compile_file(GPT, sizes={"D": 64, "L": layers, **sizes}, twin=twin)


def test_no_part_of_the_compiler_does_more_than_its_share_of_work() -> None:
    """Small activations, which fit into the memory of gradients: the case that once took hours."""
    few, many = (executed_lines(lambda n=n: gpt(n, B=2, T=16).planned) for n in (4, 16))
    assert growth(few.total(), many.total(), 4) < MOST_GROWTH
    costly = {name: n for name, n in many.items() if n > many.total() / 200}
    assert len(costly) > 10
    for name, lines in costly.items():
        assert growth(few[name], lines, 4) < MOST_GROWTH, f"{Path(name).name}: {few[name]}, {lines}"


SCHEDULES = [
    *sorted((ROOT / "examples").glob("*/model.wg")),
    *sorted((ROOT / "tests" / "cases").glob("*.wg")),
    *sorted((ROOT / "tests" / "curves").glob("*.wg")),
]


@pytest.mark.parametrize("small", [{}, {"B": 2, "T": 16}], ids=["large", "small"])
def test_equal_layers_share_their_kernels(
    small: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regardless of their number and of where their values are stored; each is written once."""
    written: list[str] = []

    def counted(kind: str, writer: Any) -> Any:
        return lambda *arguments: (written.append(kind), writer(*arguments))[1]

    for kind, writer in scheduling.WRITERS.items():
        monkeypatch.setitem(scheduling.WRITERS, kind, counted(kind, writer))
    kernels, calls = [], []
    for layers in (4, 9, 16):
        written.clear()
        kernels.append(len(gpt(layers, twin=False, **small).planned.kernels))
        calls.append(len(written))
    # In some layers a result is stored in place of an operand, in others elsewhere.
    assert max(kernels) < 1.1 * kernels[0], kernels
    assert max(calls) < 1.2 * calls[0], calls


def test_layers_that_draw_random_numbers_share_their_kernels(tmp_path: Path) -> None:
    """Each dropout draws its own numbers: the kernel reads the call site from memory."""
    depths = (4, 8, 16)
    found = [compile_file(write(tmp_path, DEEP_GPT, depth=n), twin=False) for n in depths]
    assert len({len(compiled.planned.kernels) for compiled in found}) == 1
    words = {constant.words for constant, _ in found[0].schedule.constants.values()}
    assert {number.to_bytes(4, "little") for number in (1, 2, 3, 4)} <= words


def test_draws_with_call_sites_in_memory_are_the_same_numbers(
    tmp_path: Path, devices: dict[str, Any]
) -> None:
    """As the reference draws them, on both adapters."""
    judge(write(tmp_path, DROPPING, depth=5), devices, tmp_path / "bundle")


def _grouped(depth: int) -> str:
    numbers = [f"lr_scale = {0.5 + i / 64}; weight_decay = {i / 128}" for i in range(depth)]
    groups = [f'group "l.{i}.*" {{{{ {text} }}}}' for i, text in enumerate(numbers)]
    return GROUPED.replace("{groups}", "\n    ".join(groups))


def test_many_parameter_groups_share_the_kernel_of_their_updates(tmp_path: Path) -> None:
    """All but the first, which has no weight decay: the others read their numbers from memory."""
    few, many = (compile_file(write(tmp_path, _grouped(n), depth=n), twin=False) for n in (4, 12))
    kernels = [
        [kernel.name for kernel in compiled.planned.kernels if kernel.name.startswith("adam")]
        for compiled in (few, many)
    ]
    assert [len(names) for names in kernels] == [4, 2]


def test_updates_with_numbers_in_memory_are_the_same_numbers(
    tmp_path: Path, devices: dict[str, Any]
) -> None:
    """As the reference computes them, on both adapters."""
    judge(write(tmp_path, _grouped(12), depth=12), devices, tmp_path / "bundle")


def test_a_deep_model_is_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    code = (
        "import hashlib, sys; from wgcc.compiler import compile_file\n"
        "files = compile_file(sys.argv[1]).files().items()\n"
        "print([(name, hashlib.sha256(data).hexdigest()) for name, data in files])"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    command = [sys.executable, "-c", code, str(write(tmp_path, DEEP_GPT, depth=6))]
    found = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize("model", SCHEDULES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_kernels_of_an_equal_group_are_those_it_would_get_itself(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = model.parent.name == "digits"
    shared = compile_file(model, candidates=candidates).schedule
    monkeypatch.setattr(Repeated, "code", lambda _, group, context, write: write(group, context))
    alone = compile_file(model, candidates=candidates).schedule
    for one, other in zip(shared.dispatches, alone.dispatches, strict=True):
        assert replace(one, span=None) == replace(other, span=None)


def test_a_variant_of_a_program_writes_only_the_kernels_that_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was compiled before in a process changes no byte of what is compiled now."""
    first = Source("sin.wg", (ROOT / "examples/sin/model.wg").read_text())
    live = with_live_settings(first, {"opt.lr": 0.1})
    write_code, written = KernelWriter._code, list[str]()

    def count(self: KernelWriter, group: Group, context: GroupContext) -> GroupCode:
        written.append(group.kind)
        return write_code(self, group, context)

    def counted(source: Source) -> tuple[int, dict[str, bytes]]:
        written.clear()
        files = compile_file(source).runtime_files()
        return len(written), files

    monkeypatch.setattr(KernelWriter, "_code", count)
    monkeypatch.setattr(scheduling, "_WRITTEN", Repeated())
    alone, files = counted(live)
    monkeypatch.setattr(scheduling, "_WRITTEN", Repeated())
    counted(first)
    assert counted(live) == (2, files) and alone > 9


def dispatch(writes: str, *regions: Place) -> Dispatch:
    """A dispatch of a kernel that writes the bindings that `writes` marks with `w`."""
    marks = zip(writes, regions, strict=True)
    bindings = [Binding(f"b{i}", "f32", 8, c == "w") for i, (c, _) in enumerate(marks)]
    kernel = Kernel("loop", tuple(bindings), (), Module(()), (), (64, 1, 1))
    shows = ("",) * len(regions)
    return Dispatch("x", regions, {"gpu": Launch(kernel, (1, 1, 1))}, shows, kernel)


def accesses(dispatches: list[Dispatch]) -> list[str]:
    kernels = [item.launches["gpu"].kernel for item in share_access(dispatches)]
    return ["".join(b.access.removeprefix("read")[:2] or "r" for b in k.bindings) for k in kernels]


def test_dispatches_of_one_kernel_agree_on_access() -> None:
    """Also if that takes two steps, because dispatches bind different buffers together."""
    a, b, c, d = (Place(name, 0, 8) for name in "abcd")
    a2, b2 = Place("a", 64, 8), Place("b", 64, 8)
    plain, paired, aliased = (dispatch("wrr", *x) for x in ((d, a, b), (d, b, b2), (a, b, a2)))
    assert accesses([plain, paired]) == ["_wrr"] * 2
    assert accesses([plain, aliased]) == ["_wr_w"] * 2
    assert accesses([plain, paired, aliased]) == ["_w_w_w"] * 3
    other = dispatch("rwr", a, b, c)
    assert accesses([other, plain, paired, aliased])[0] == "r_wr"


def test_bindings_that_share_words_stay_read_only() -> None:
    """WebGPU refuses a dispatch that can write what it has bound twice."""
    a, b, inside = Place("a", 0, 8), Place("b", 0, 8), Place("b", 4, 8)
    twice, once = dispatch("wrr", a, b, inside), dispatch("wrr", a, Place("a", 64, 8), b)
    assert accesses([once, twice]) == ["_w_wr", "_wrr"]


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One element for each set of groups that is tried for its memory."""
    found: list[int] = []

    def counted(*arguments: Any) -> Any:
        found.append(1)
        return without(*arguments)

    without = apart._without
    monkeypatch.setattr(apart, "_without", counted)
    return found


def test_results_are_unfused_only_if_that_can_lower_the_peak(trials: list[int]) -> None:
    gpt(12)
    assert len(trials) == 0
    compile_file(ROOT / "tests" / "bench" / "models" / "a.wg")
    assert len(trials) == 1


def drawn_lives(count: int, seed: int) -> Iterator[Life]:
    """Lifetimes of all lengths and sizes, the same for each seed."""
    state = seed
    for number in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        start, length, words = state % 61, state // 61 % 37 + 1, state // 3000 % 500 + 1
        yield Life(Value(f"v{number}", TensorType((words,), "f32")), start, start + length)


@pytest.mark.parametrize("seed", range(8))
def test_values_reuse_the_first_gradient_memory_that_fits(seed: int) -> None:
    """The same as found by a search of all places one by one."""
    offsets = [0, 128, 192, 448, 640, 1088, 1600]
    counts = [128, 50, 256, 130, 400, 512, 3]
    times = [40, 90, 70, 95, 30, 60, 80]
    spans = free_spans(
        {t: [Place("grads", o, n)] for t, o, n in zip(times, offsets, counts, strict=True)}
    )
    free = {
        (t, word)
        for piece in spans
        for word in range(piece.start, piece.end)
        for t in range(piece.until)
    }
    lives = list(drawn_lives(40, seed))
    wanted: dict[str, Place] = {}
    for life in lives:
        for at in range(0, 1700, ALIGNMENT):
            moments = range(life.start, life.end + 1)
            if all((t, at + word) in free for t in moments for word in range(life.words)):
                wanted[life.value.name] = life.place("grads", at)
                held = -(-life.words // ALIGNMENT) * ALIGNMENT
                free -= {(t, at + word) for t in moments for word in range(held)}
                break
    assert Arena(spans).take(lives) == wanted
    assert 3 < len(wanted) < len(lives)


def test_a_timeline_knows_what_is_in_use_at_a_time() -> None:
    lives = [(life.start, life.end) for life in drawn_lives(60, 5)]
    timeline = Timeline(100, Bits)
    for number, (start, end) in enumerate(lives):
        timeline.take(start, end, number, number + 1)
    for since in range(0, 99, 7):
        for until in range(since + 1, 100, 9):
            found = {n for bits in timeline.sets_during(since, until) for n in falling(bits.mask)}
            assert found == {n for n, (s, e) in enumerate(lives) if s < until and since < e}


def test_precedence_reaches_through_others() -> None:
    precedence = Precedence()
    precedence.need(2, [1])
    precedence.need(3, [2])
    precedence.need(1, [0])
    assert precedence.needs(3, 0) and precedence.needs(3, 3)
    assert not precedence.needs(1, 2)
    assert list(falling(precedence.of([1]))) == [1, 0]


def test_candidate_groups_reduce_alike_and_share_large_operands() -> None:
    related, rows = Candidates(), reduction_space((4, 8), (1,))
    related.put(0, rows, ["a"], is_full=False)
    related.put(1, rows, ["b"], is_full=True)
    related.put(2, flat_space(32), ["a"], is_full=False)
    related.put(3, flat_space(1), ["a"], is_full=False)
    assert list(falling(related.groups(rows, None, with_full=True))) == [1, 0]
    assert list(falling(related.groups(rows, None, with_full=False))) == [0]
    assert list(falling(related.groups(rows, ["b"], with_full=True))) == [1]
    assert list(falling(related.groups(flat_space(32), ["a"], with_full=True))) == [2]
    assert list(falling(related.groups(flat_space(32), ["b"], with_full=True))) == []
    assert list(falling(related.groups(reduction_space((9,), (0,)), [], with_full=True))) == [3]
    related.put(0, reduction_space((4, 9), (1,)), [], is_full=False)
    assert list(falling(related.groups(rows, None, with_full=True))) == [1]
