"""A window written over bytes that are packed, four to a word.

A thread owns one word that the window may touch: it keeps the bytes outside the window, so that no
two threads write to one word.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Index, coordinates_of, variable
from wgcc.schedule.codegen.bindings import byte_of
from wgcc.schedule.codegen.emitter import Emitter

FOUR = 4
_ALL = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Rows:
    """The bytes of a tensor as `count` rows of `length`; the window is `part` of each of them.

    It starts at a multiple of `inner`.
    """

    count: int
    length: int
    part: int
    inner: int

    @classmethod
    def of(cls, node: Node) -> Rows:
        base, update, _ = node.inputs
        axis = int(node.attrs["axis"])
        inner = prod(base.shape[axis + 1 :])
        count = prod(base.shape[:axis])
        return cls(count, base.shape[axis] * inner, update.shape[axis] * inner, inner)

    @property
    def share_words(self) -> bool:
        """Whether one row ends, and the next one starts, inside a word."""
        return self.count > 1 and self.length % FOUR != 0

    @property
    def touched(self) -> int:
        """How many words of a row the window may touch."""
        return self.part // FOUR if self.inner % FOUR == 0 else (self.part + 6) // FOUR

    @property
    def threads(self) -> int:
        if self.share_words:
            return -(-self.count * self.length // FOUR)
        return self.count * self.touched


def overwritten_bytes(node: Node, emitter: Emitter, start: Index, fits: str) -> list[str]:
    """The statements of one thread, whose number is `o`."""
    rows, (_, update, _) = Rows.of(node), node.inputs
    own = variable("o", rows.threads)
    word = own if rows.share_words else _word(rows, own, start)
    merged, touched = [], []
    for byte in range(FOUR):
        inside, at = _place(rows, word * FOUR + byte, start, own, emitter)
        inside = emitter.let("inside", f"{fits} && {inside}" if fits else inside, (own,))
        place = emitter.let("at", f"select(0u, {at}, {inside})", (own,))
        here = coordinates_of(variable(place, update.type.size), update.shape)
        merged.append((byte, inside, byte_of(emitter.at(update, here), update.dtype)))
        touched.append(inside)
    return _merge(node.output, emitter, word, merged, " || ".join(touched))


def _word(rows: Rows, own: Index, start: Index) -> Index:
    """The word of a thread: first those that the window touches in the first row."""
    row, number = own // rows.touched, own % rows.touched
    return row * (rows.length // FOUR) + (start * rows.inner) // FOUR + number


def _place(rows: Rows, byte: Index, start: Index, own: Index, emitter: Emitter) -> tuple[str, str]:
    """Whether a byte is inside the window, and its position among the window's elements."""
    if rows.share_words:
        row, column = byte // rows.length, byte % rows.length
    else:
        row = own // rows.touched
        column = byte - row * rows.length
    # Before the window this wraps around to a large number.
    distance = emitter.let("distance", (column - start * rows.inner).wgsl(), (own,))
    inside = f"{distance} < {rows.part}u"
    if rows.share_words:
        inside = f"{byte.wgsl()} < {rows.count * rows.length}u && {inside}"
    return inside, f"{(row * rows.part).wgsl()} + {distance}"


def _merge(
    output: Value, emitter: Emitter, word: Index, bytes_: list[tuple[int, str, str]], touched: str
) -> list[str]:
    """Loads the old word, replaces bytes, stores it if one of them is in the window."""
    lines = [f"let touched = {touched};", f"let word = select(0u, {word.wgsl()}, touched);"]
    lines.append(f"var merged = {emitter.bindings.load_word(output, variable('word', 2**32))};")
    for number, inside, byte in bytes_:
        kept = f"(merged & {_ALL ^ (255 << 8 * number)}u)"
        new = f"(({byte}) << {8 * number}u)" if number else f"({byte})"
        lines.append(f"merged = select(merged, {kept} | {new}, {inside});")
    store = emitter.bindings.store_word(output, word, "merged")
    return [*emitter.outer.lines, *lines, f"if (touched) {{ {store} }}"]
