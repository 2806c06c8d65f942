"""A window written over bytes that are packed, four to a word.

A thread owns one word that the window may touch: it keeps the bytes outside the window, so that no
two threads write to one word.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Index, coordinates_of, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import all_of, in_parens, select, statements, u32
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Assign, Binary, Expr, Name, Statement
from wgcc.schedule.codegen.bindings import byte_of
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.terms import expr_of

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
            return ceil_div(self.count * self.length, FOUR)
        return self.count * self.touched


def overwritten_bytes(node: Node, emitter: Emitter, start: Index, fits: Expr | None) -> Body:
    """The statements of one thread, whose number is `o`."""
    rows, (_, update, _) = Rows.of(node), node.inputs
    own = variable("o", rows.threads)
    word = own if rows.share_words else _word(rows, own, start)
    merged = []
    for byte in range(FOUR):
        conditions, at = _place(rows, word * FOUR + byte, start, own, emitter)
        condition = all_of((fits, *conditions))
        assert condition is not None
        inside = emitter.let("inside", condition, (own,))
        place = emitter.let("at", select(u32(0), at, inside), (own,))
        here = coordinates_of(variable(place.name, update.type.size), update.shape)
        merged.append((byte, inside, byte_of(emitter.at(update, here), update.dtype)))
    return _merge(node.output, emitter, word, merged)


def _word(rows: Rows, own: Index, start: Index) -> Index:
    """The word of a thread: first those that the window touches in the first row."""
    row, number = own // rows.touched, own % rows.touched
    return row * (rows.length // FOUR) + (start * rows.inner) // FOUR + number


def _place(
    rows: Rows, byte: Index, start: Index, own: Index, emitter: Emitter
) -> tuple[list[Expr], Expr]:
    """When a byte is inside the window, and its position among the window's elements."""
    if rows.share_words:
        row, column = byte // rows.length, byte % rows.length
    else:
        row = own // rows.touched
        column = byte - row * rows.length
    # Before the window this wraps around to a large number.
    distance = emitter.let("distance", expr_of(column - start * rows.inner), (own,))
    inside: list[Expr] = [Binary("<", distance, u32(rows.part))]
    if rows.share_words:
        inside.insert(0, Binary("<", expr_of(byte), u32(rows.count * rows.length)))
    return inside, Binary("+", expr_of(row * rows.part), distance)


def _merge(
    output: Value, emitter: Emitter, word: Index, bytes_: list[tuple[int, Name, Expr]]
) -> Body:
    """Loads the old word, replaces bytes, stores it if one of them is in the window."""
    touched: Expr = bytes_[0][1]
    changes: list[Statement] = []
    for number, inside, byte in bytes_:
        touched = Binary("||", touched, inside) if number else touched
        mask, shift = u32(_ALL ^ (255 << 8 * number)), u32(8 * number)
        kept = Binary("&", Name("merged"), mask, parens=True)
        byte = in_parens(byte)
        new = Binary("<<", byte, shift, parens=True) if number else byte
        merged = select(Name("merged"), Binary("|", kept, new), inside)
        changes.append(Assign(Name("merged"), merged))
    return statements(
        """
        BEFORE();
        let touched = TOUCHED;
        let word = select(0u, WORD, touched);
        var merged = OLD;
        CHANGES();
        if (touched) { STORE(); }
        """,
        BEFORE=tuple(emitter.outer.body),
        TOUCHED=touched,
        WORD=expr_of(word),
        OLD=emitter.bindings.load_word(output, variable("word", 2**32)),
        CHANGES=tuple(changes),
        STORE=(emitter.bindings.store_word(output, word, Name("merged")),),
    )
