"""Writing a window of a tensor at a place found at run time: over the old one, or into a copy.

A window that does not fit is not written.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Index, coordinates_of, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import all_of, expression, in_parens, select, statements, u32, when
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Assign, Binary, Expr, Name, Statement
from wgcc.ops.registry import wgsl_type
from wgcc.schedule.codegen.bindings import byte_of, clamp_index, expr_of
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernels.context import GroupCode, GroupContext

WORKGROUP = 64


def window_update_code(group: Group, context: GroupContext) -> GroupCode:
    """One kernel for all nodes, which have equal types: each thread does the same for each."""
    first, emitter = group.roots[0], Emitter(context.inlined, context.bindings())
    base, update, _ = first.inputs
    write, threads = _merge, base.type.size
    if all(context.is_at_same_place(node.inputs[0], node.output) for node in group.roots):
        write, threads = _overwrite, update.type.size
        if context.place(first.output).in_bytes:
            write, threads = _overwrite_bytes, ByteRows.of(first).threads
    starts: dict[str, _Start] = {}
    for node in group.roots:
        if node.inputs[2].name not in starts:
            starts[node.inputs[2].name] = _start(node, emitter, context)
    windows = (write(node, starts[node.inputs[2].name], emitter) for node in group.roots)
    stores = [statement for window in windows for statement in window]
    body = (*emitter.outer.body, *stores)
    return context.code(context.launch_threads(emitter, body, threads, WORKGROUP))


# Where a window starts, and the condition that it fits, if it may not.
_Start = tuple[Index, Expr | None]


def _overwrite(node: Node, at: _Start, emitter: Emitter) -> Body:
    """One thread per element of the window."""
    _, update, _ = node.inputs
    start, fits = at
    axis = int(node.attrs["axis"])
    here = coordinates_of(variable("o", update.type.size), update.shape)
    there = (*here[:axis], here[axis] + start, *here[axis + 1 :])
    store = emitter.store(node.output, there, emitter.at(update, here))
    return when(fits, (store,))


def _merge(node: Node, at: _Start, emitter: Emitter) -> Body:
    """One thread per element of the whole."""
    base, update, _ = node.inputs
    start, fits = at
    axis = int(node.attrs["axis"])
    size = update.shape[axis]
    here = coordinates_of(variable("o", base.type.size), base.shape)
    old = emitter.at(base, here)
    place, first = expr_of(here[axis]), expr_of(start)
    behind = Binary(">=", place, first)
    before = Binary("<", Binary("-", place, first), u32(size))
    condition = all_of((fits, behind, before))
    assert condition is not None
    inside = emitter.let("inside", condition, here)
    inner = emitter.let("at", select(u32(0), Binary("-", place, first), inside), here)
    there = (*here[:axis], variable(inner.name, size), *here[axis + 1 :])
    new = emitter.at(update, there)
    return (emitter.store(node.output, here, select(old, new, inside)),)


def _start(node: Node, emitter: Emitter, context: GroupContext) -> _Start:
    """The start is clamped all the same, because addresses must be valid whether or not it fits."""
    base, update, at = node.inputs
    axis = int(node.attrs["axis"])
    limit = base.shape[axis] - update.shape[axis]
    raw = emitter.at(at, ())
    start = emitter.let("start", clamp_index(raw, limit, at.dtype), ())
    index = variable(start.name, limit + 1)
    made = context.inlined.get(at.name)
    if made is not None and made.op == "const":
        return index, None
    if wgsl_type(at.dtype) == "u32":
        fits: Expr = Binary("<=", raw, u32(limit))
    else:
        fits = expression(f"RAW >= 0 && RAW <= {limit}", RAW=raw)
    return index, emitter.let("fits", fits, ())


FOUR = 4
_ALL = 2**32 - 1


@dataclass(frozen=True, slots=True)
class ByteRows:
    """The bytes of a tensor as `count` rows of `length`; the window is `part` of each of them.

    It starts at a multiple of `inner`.
    """

    count: int
    length: int
    part: int
    inner: int

    @classmethod
    def of(cls, node: Node) -> ByteRows:
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
    def window_words(self) -> int:
        """How many words of a row the window may touch."""
        return self.part // FOUR if self.inner % FOUR == 0 else (self.part + 6) // FOUR

    @property
    def threads(self) -> int:
        if self.share_words:
            return ceil_div(self.count * self.length, FOUR)
        return self.count * self.window_words


def _overwrite_bytes(node: Node, at: _Start, emitter: Emitter) -> Body:
    """One thread per word that the window may touch."""
    rows, (_, update, _), (start, fits) = ByteRows.of(node), node.inputs, at
    own = variable("o", rows.threads)
    word = own if rows.share_words else _word(rows, own, start)
    merged = []
    for byte in range(FOUR):
        conditions, element = _place(rows, word * FOUR + byte, start, own, emitter)
        condition = all_of((fits, *conditions))
        assert condition is not None
        inside = emitter.let("inside", condition, (own,))
        place = emitter.let("at", select(u32(0), element, inside), (own,))
        here = coordinates_of(variable(place.name, update.type.size), update.shape)
        merged.append((byte, inside, byte_of(emitter.at(update, here), update.dtype)))
    return _merge_bytes(node.output, emitter, word, merged)


def _word(rows: ByteRows, own: Index, start: Index) -> Index:
    """The word of a thread: first those that the window touches in the first row."""
    row, number = own // rows.window_words, own % rows.window_words
    return row * (rows.length // FOUR) + (start * rows.inner) // FOUR + number


def _place(
    rows: ByteRows, byte: Index, start: Index, own: Index, emitter: Emitter
) -> tuple[list[Expr], Expr]:
    """When a byte is inside the window, and its position among the window's elements."""
    if rows.share_words:
        row, column = byte // rows.length, byte % rows.length
    else:
        row = own // rows.window_words
        column = byte - row * rows.length
    # Before the window this wraps around to a large number.
    distance = emitter.let("distance", expr_of(column - start * rows.inner), (own,))
    inside: list[Expr] = [Binary("<", distance, u32(rows.part))]
    if rows.share_words:
        inside.insert(0, Binary("<", expr_of(byte), u32(rows.count * rows.length)))
    return inside, Binary("+", expr_of(row * rows.part), distance)


def _merge_bytes(
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
        let touched = TOUCHED;
        let word = select(0u, WORD, touched);
        var merged = OLD;
        CHANGES();
        if (touched) { STORE(); }
        """,
        TOUCHED=touched,
        WORD=expr_of(word),
        OLD=emitter.bindings.load_word(output, variable("word", 2**32)),
        CHANGES=tuple(changes),
        STORE=(emitter.bindings.store_word(output, word, Name("merged")),),
    )
