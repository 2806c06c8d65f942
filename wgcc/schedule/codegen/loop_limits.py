"""Keeps loops below the driver's limit of 65,535 iterations, by unrolling the longest.

llvmpipe ends the loops of a thread after that many iterations, all its loops taken together, and
reports nothing. Kernels stay below, so that they give the right numbers there, too.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_ITERATIONS = 65_535
# Leaves room for short loops that nobody counts.
GOOD_ITERATIONS = 60_000
# Longer bodies take too long to compile.
MAX_UNROLLED = 64


def unrolled(iterations: int) -> int:
    """How many elements one iteration should take in loops over `iterations` elements in all."""
    times = 1
    while iterations > times * GOOD_ITERATIONS and times < MAX_UNROLLED:
        times *= 2
    return times


def loop(
    variable: str, start: str, end: str, step: str, lines: Sequence[str], times: int = 1
) -> list[str]:
    """`for (variable = start; variable < end; variable += step)`, `times` per iteration."""
    if times == 1:
        onward = f"{variable}++" if step == "1u" else f"{variable} += {step}"
        head = f"for (var {variable} = {start}; {variable} < {end}; {onward}) {{"
        return [head, *(f"  {line}" for line in lines), "}"]
    first = f"{variable}_first"
    stride = f"{times}u" if step == "1u" else f"{times}u * {step}"
    body = []
    for i in range(times):
        offset = f"{i}u" if step == "1u" else f"{i}u * {step}"
        body += [
            f"if ({first} + {offset} < {end}) {{",
            f"  let {variable} = {first} + {offset};",
            *(f"  {line}" for line in lines),
            "}",
        ]
    head = f"for (var {first} = {start}; {first} < {end}; {first} += {stride}) {{"
    return [head, *(f"  {line}" for line in body), "}"]
