"""Sizes that have names, wherever they are found in the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wgcc.from_onnx.context import RESHAPE
from wgcc.from_onnx.values import Member

_LIST = re.compile(r"\[([\d, ]+)\]")


@dataclass(frozen=True, slots=True)
class NamedSizes:
    """Names by size. Names of a batch, the first axis of inputs, stay on first axes."""

    names: Mapping[int, str] = field(default_factory=dict)
    leading: frozenset[str] = frozenset()

    def of(self, sizes: Sequence[int]) -> list[str]:
        """A shape as text; no name is used twice in one."""
        found: list[str] = []
        for axis, size in enumerate(sizes):
            name = self.names.get(size, "")
            is_free = name and name not in found and (axis == 0 or name not in self.leading)
            found.append(name if is_free else str(size))
        return found

    def in_reshape(self, text: str) -> str:
        """The template of a `reshape` with names in it."""
        if not RESHAPE.fullmatch(text):
            return text
        return _LIST.sub(lambda list_: f"[{', '.join(self.of(_numbers(list_[1])))}]", text)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def named_sizes(
    sizes: Mapping[str, int], dims: Mapping[str, Mapping[int, str]], members: Iterable[Member]
) -> NamedSizes:
    """Only sizes that mean one thing: no other name has them, nor, but for a batch, parameters."""
    arrays = [array for member in members for array in member.arrays.values()]
    stored = {size for array in arrays for size in array.shape}
    leading = frozenset(axes[0] for axes in dims.values() if 0 in axes)
    counts = Counter(sizes.values())
    names = {
        size: name
        for name, size in sizes.items()
        if size > 1 and counts[size] == 1 and (size not in stored or name in leading)
    }
    return NamedSizes(names, leading)
