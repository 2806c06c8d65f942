"""Loops that do not go round too often: a turn takes several elements where there are very many.

llvmpipe ends the loops of a thread after 65,535 turns, those of all its loops together, and goes on
as if nothing had happened. Kernels for software adapters must stay below.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_TURNS = 65_535
# Leaves room for short loops that nobody counts.
GOOD_TURNS = 60_000
# Longer bodies take too long to compile.
MOST_UNROLLED = 64


def unrolled(turns: int) -> int:
    """How many elements a turn should take in loops that have `turns` elements in all."""
    times = 1
    while turns > times * GOOD_TURNS and times < MOST_UNROLLED:
        times *= 2
    return times


def loop(
    variable: str, start: str, end: str, step: str, lines: Sequence[str], times: int = 1
) -> list[str]:
    """`for (variable = start; variable < end; variable += step)`, `times` elements a turn."""
    if times == 1:
        onward = f"{variable}++" if step == "1u" else f"{variable} += {step}"
        head = f"for (var {variable} = {start}; {variable} < {end}; {onward}) {{"
        return [head, *(f"  {line}" for line in lines), "}"]
    first = f"{variable}_first"
    stride = f"{times}u" if step == "1u" else f"{times}u * {step}"
    body = []
    for i in range(times):
        ahead = f"{i}u" if step == "1u" else f"{i}u * {step}"
        body += [
            f"if ({first} + {ahead} < {end}) {{",
            f"  let {variable} = {first} + {ahead};",
            *(f"  {line}" for line in lines),
            "}",
        ]
    head = f"for (var {first} = {start}; {first} < {end}; {first} += {stride}) {{"
    return [head, *(f"  {line}" for line in body), "}"]
