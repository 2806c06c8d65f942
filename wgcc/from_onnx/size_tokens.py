"""Numbers of a text that follow its sizes, as expressions of these.

A model is written for several sizes; what differs between the texts must be explained by them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

Sizes: TypeAlias = Mapping[str, int]
# Whole numbers that are no part of a name, a float or a place of a template.
NUMBER = re.compile(r"(?<![\w{])(?<!\d\.)(?<!e[-+])\d+(?![\w}]|\.\d)")
LIST = re.compile(r"\b(?:f32|i32|u32|bool)\(\[[^\[\]]*\]\)")
LIST_NAME = re.compile(r"list_(\d{4})_")
COMMENT = re.compile(r"  // .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Expression:
    """`factor` times the product of `names`, plus `offset`."""

    factor: int
    names: tuple[str, ...]
    offset: int = 0

    def at(self, sizes: Sizes) -> int:
        return self.factor * math.prod(sizes[name] for name in self.names) + self.offset

    @property
    def text(self) -> str:
        product = " * ".join([*([] if self.factor == 1 else [str(self.factor)]), *self.names])
        if not self.offset:
            return product
        return f"{product} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"


def tokens(text: str) -> tuple[str, list[int]]:
    """The text with its numbers taken out, without comments, and the numbers."""
    plain = COMMENT.sub("", text)
    return NUMBER.sub("0", plain), [int(number) for number in NUMBER.findall(plain)]


def without_lists(text: str) -> tuple[str, list[str]]:
    """The text with a name in place of each written list, and the lists."""
    lists: list[str] = []

    def name(match: re.Match[str]) -> str:
        lists.append(match[0])
        return f"list_{len(lists) - 1:04}_"

    return LIST.sub(name, text), lists


def with_lists(text: str, lists: Sequence[str]) -> str:
    return LIST_NAME.sub(lambda match: lists[int(match[1])], text)


def numbers_of(text: str) -> list[str]:
    """Of a written list: the type, and the numbers."""
    dtype, _, inner = text.partition("([")
    return [dtype, *inner.removesuffix("])").split(", ")]


def explain(numbers: Sequence[int], sizes: Sequence[Sizes]) -> Expression | int | None:
    """What gives these numbers at these sizes; a number if all are equal, None if nothing does."""
    if len(set(numbers)) == 1:
        return numbers[0]
    names = tuple(sizes[0])
    products = [part for count in range(1, len(names) + 1) for part in combinations(names, count)]
    for part in products:
        for expression in _candidates(part, numbers[0], numbers, sizes):
            if all(expression.at(at) == n for n, at in zip(numbers, sizes, strict=True)):
                return expression
    return None


def _candidates(
    names: tuple[str, ...], first: int, numbers: Sequence[int], sizes: Sequence[Sizes]
) -> list[Expression]:
    """A multiple without an offset comes first: it needs no other explanation."""
    values = [math.prod(at[name] for name in names) for at in sizes]
    found = [Expression(first // values[0], names)] if first % values[0] == 0 and first else []
    for value, number in zip(values[1:], numbers[1:], strict=True):
        step = value - values[0]
        if step and (number - first) % step == 0 and (factor := (number - first) // step) > 0:
            found.append(Expression(factor, names, first - factor * values[0]))
            break
    return found


def fill(text: str, meanings: Sequence[Expression | int]) -> str:
    """The text with expressions in place of its numbers; comments stay as they are."""
    waiting = iter(meanings)
    lines = []
    for line in text.split("\n"):
        code, mark, comment = line.partition("  // ")
        lines.append(_filled_line(code, waiting) + mark + comment)
    return "\n".join(lines)


def _filled_line(code: str, waiting: object) -> str:
    def meaning(match: re.Match[str]) -> str:
        found = next(waiting)  # type: ignore[call-overload]
        if isinstance(found, int):
            return match[0]
        before, after = code[: match.start()].rstrip()[-1:], code[match.end() :].lstrip()[:1]
        alone = before in "[(,:" and after in "]),:"
        return found.text if alone or " " not in found.text else f"({found.text})"

    return NUMBER.sub(meaning, code)
