"""The test for NaN that runs after training steps: a kernel that looks at every float they write.

It looks at parameters and state because comparisons hide NaN from the loss while the parameters are
already lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wgcc.ir.places import MAX_BINDING, SCALARS, ceil_div
from wgcc.kernel.build import functions, statements
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Module
from wgcc.schedule.kernel import (
    ALIGNMENT,
    MAX_BINDINGS,
    WORD,
    Binding,
    Buffer,
    Dispatch,
    DispatchWork,
    Kernel,
    Launch,
    Place,
    ThreadTask,
)

# Entries do not run at the same time, so one word serves all of them. Buffers of inputs and outputs
# are called ENTRY/NAME, those of optimizers opt/…, so none of them has this name.
FLAG_BUFFER = Buffer("guard", 1, "output")
FLAG = Place(FLAG_BUFFER.name, 0, 1)
FLAG_BINDING = Binding("flag", "atomic<u32>", FLAG.count, written=True)
WORKGROUP = 64
WORDS_PER_GROUP = 64 * WORKGROUP
MOST_GROUPS = 1024
# What fits beside the flag: all tensors of an optimizer take one dispatch.
MOST_RANGES = MAX_BINDINGS - 1
LONGEST = MAX_BINDING // WORD

PAGE = """
// The bits are tested, because WGSL compilers may assume that NaN does not occur.
fn is_bad(word: u32) -> bool {
  return (word & 0x7f800000u) == 0x7f800000u;
}

// One thread looks at every STRIDE-th word of each range, from its FIRST on.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  var bad = false;
  LOOKS();
  if (bad) {
    atomicOr(&flag[0], 1u);
  }
}
"""
# What it does with each of them.
LOOKS = """
for (var i = FIRST_{0} + id.x; i < COUNT_{0}; i += STRIDE) {{
  bad = bad || is_bad(x{0}[i]);
}}
"""


def guard(written: Mapping[str, Place]) -> tuple[Dispatch, ...]:
    """Dispatches that set the flag where a float of these tensors is NaN or infinite."""
    runs = _runs(written)
    return tuple(_dispatch(runs[i : i + MOST_RANGES]) for i in range(0, len(runs), MOST_RANGES))


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring tensors, which are looked at as one range: words `start` to `end` (without)."""

    buffer: str
    start: int
    end: int
    names: tuple[str, ...]

    @property
    def groups(self) -> int:
        return min(MOST_GROUPS, ceil_div(self.end - self.start, WORDS_PER_GROUP))

    @property
    def words_before(self) -> int:
        """Words before the run, because a binding starts on a boundary."""
        return self.start % ALIGNMENT

    @property
    def region(self) -> Place:
        first = self.start - self.words_before
        return Place(self.buffer, first, self.end - first)

    @property
    def label(self) -> str:
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]} to {self.names[-1]}"


def _runs(written: Mapping[str, Place]) -> list[_Run]:
    ordered = sorted(written.items(), key=lambda item: (item[1].buffer, item[1].offset))
    runs: list[_Run] = []
    for name, place in ordered:
        end = place.offset + place.count
        if runs and _continues(runs[-1], place):
            last = runs.pop()
            runs.append(_Run(last.buffer, last.start, end, (*last.names, name)))
        else:
            runs.append(_Run(place.buffer, place.offset, end, (name,)))
    return runs


def _continues(run: _Run, place: Place) -> bool:
    """Whether nothing but padding is between the two, and a binding can hold both.

    Scalars are packed: what is between two of them is other data. Elsewhere each tensor has its
    own boundary, and padding is never written, so zero.
    """
    gap = place.offset - run.end
    near = gap == 0 or (gap < ALIGNMENT and place.buffer != SCALARS)
    fits = place.offset + place.count - run.start + ALIGNMENT <= LONGEST
    return run.buffer == place.buffer and near and fits


def _dispatch(runs: Sequence[_Run]) -> Dispatch:
    groups = max(run.groups for run in runs)
    regions = [run.region for run in runs]
    constants = {"RANGES": len(runs), "STRIDE": groups * WORKGROUP, "WORKGROUP": WORKGROUP}
    constants |= {f"FIRST_{i}": run.words_before for i, run in enumerate(runs)}
    constants |= {f"COUNT_{i}": region.count for i, region in enumerate(regions)}
    ranges = [
        Binding(f"x{i}", "u32", region.count, written=False) for i, region in enumerate(regions)
    ]
    bindings = (*ranges, FLAG_BINDING)
    kernel = Kernel(
        "finite",
        bindings,
        tuple(constants.items()),
        _page(len(runs)),
        functions=(),
        workgroup=(WORKGROUP, 1, 1),
    )
    places = (*regions, FLAG)
    return Dispatch(
        "finite",
        places,
        {"gpu": Launch(kernel, (groups, 1, 1))},
        (*(run.label for run in runs), "1 if a word is NaN or infinite"),
        ((_work(bindings, regions, constants), places),),
    )


def _page(ranges: int) -> Module:
    looks = [statement for n in range(ranges) for statement in statements(LOOKS.format(n))]
    return Module(functions(PAGE, LOOKS=tuple(looks)))


def _work(
    bindings: tuple[Binding, ...], regions: Sequence[Place], constants: Mapping[str, int]
) -> DispatchWork:
    """One thread looks at some words of each range that are side by side."""
    looks = [_look(f"x{n}", f"FIRST_{n}", f"COUNT_{n}") for n in range(len(regions))]
    body = statements(
        "var highest = 0u; LOOK(); if (highest == 0x7f800000u) { flag[0] = 1u; }",
        LOOK=tuple(statement for look in looks for statement in look),
    )
    threads = ceil_div(max(region.count for region in regions), WORDS_PER_GROUP)
    own = {**constants, "WORDS": WORDS_PER_GROUP}
    return DispatchWork(bindings, tuple(own.items()), Module(()), ThreadTask("o", threads, body))


def _look(words: str, first: str, count: str) -> Body:
    """NaN and infinity have the highest exponent, whose bits are all 1."""
    return statements(
        """
        for (var i = FIRST + o * WORDS; i < min(COUNT, FIRST + o * WORDS + WORDS); i++) {
          highest = max(highest, RANGE[i] & 0x7f800000u);
        }
        """,
        RANGE=words,
        FIRST=first,
        COUNT=count,
    )
