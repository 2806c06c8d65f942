"""How much longer a text may become while it is encoded or decoded.

Steps of a foreign file may multiply it again and again; those of real ones add a few characters, or
write one as its up to 18 compatible ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn, TypeVar

from wgcc_runtime.errors import WgccError

MOST_TIMES = 64
# Beside that, so that short texts may get long tokens.
FREE = 65_536
MOST_STEPS = 100
T = TypeVar("T")


def longest_from(length: int) -> int:
    return MOST_TIMES * length + FREE


def check_growth(texts: Iterable[str], most: int) -> None:
    if sum(map(len, texts)) > most:
        refuse_growth(most)


def refuse_growth(most: int) -> NoReturn:
    text = f"tokenizer.json would make more than {most} characters of a text that has fewer than"
    raise WgccError("bundle", f"{text} 1/{MOST_TIMES} of that: build the model again", "text")


def checked_steps(steps: Sequence[T]) -> Sequence[T]:
    if len(steps) > MOST_STEPS:
        raise ValueError(f"more than {MOST_STEPS} steps")
    return steps
