"""Products and attention as work of single threads: one result, or one row, after the other.

That is what panels compute, four rows at a time, and what runs where panels do not pay. The pages
of attention have one form: `left_i` and `right_i` of a row and a column it sees are multiplied,
`weigh` makes weights of the products, and `finish_i` takes sums of `factor_i` with these weights.

A `Walk` is an order in which a loop over all threads may run: lanes are neighbouring threads, in
rows of a length that saves divisions, or threads that are apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from wgcc.backends.wasm.kernels.scopes import LANES, Held
from wgcc.ir.index import constant
from wgcc.kernel.build import expression, statements
from wgcc.kernel.parse import parse_module
from wgcc.kernel.rewrite.transform import Body, Filling, fill, substitute_body
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Expr,
    FunctionDef,
    If,
    Literal,
    Loop,
    Module,
    Name,
    Statement,
    Unary,
    expressions_of,
    parts_of,
)
from wgcc.schedule.kernel import AttentionTask, DispatchWork, ProductTask, ThreadTask

_PAGES = Path(__file__).parent / "pages"
# Each thread gets this many iterations at least, and whole vectors of them.
GRAIN = 16
# Columns that are summed at a time, with one sum each: two lines of a cache, half of the registers.
WIDE_BLOCK = 32
MOST_WIDE_SUMS = 2
# The same of bytes, if each row is as long as half a page: few columns of it are not worth reaching
# for a page. The sums are then in memory.
BYTE_BLOCK = 256
LONG_BYTE_ROW = 2048
# So many rows are then added to each sum at a time.
BYTE_STEPS = 4
# With fewer rows than this, columns are shared out.
MIN_ROWS = 8
# Loops with more statements are not run for several vectors at a time: registers are few. Where
# bytes are unpacked, many statements are known before the loop, or never used.
MAX_TOGETHER, MAX_UNPACKING = 10, 20
# Rows of threads that one loop runs: as many sums as registers hold.
MOST_ROWS_TOGETHER = 9
_RESULT = """
    let n = o % COLS;
    let m = o / COLS % ROWS;
    let z = o / (COLS * ROWS);
    var product = 0.0;
    for (var k = 0u; k < DEPTH; k++) {
      product = fma(left(z, m, k), right(z, k, n), product);
    }
    finish(z, m, n, product);
"""
_COLUMN_SUM = """
    if (m == 0u) {
      var total = 0.0;
      for (var k = 0u; k < DEPTH; k++) {
        total += right(z, k, n);
      }
      finish_sum(n, total);
    }
"""
_ROW = """
    let m = o % ROWS;
    let h = o / ROWS % KEY_HEADS;
    let z = o / (ROWS * KEY_HEADS);
    let first = first_seen(m);
    let end = end_seen(m);
    for (var n = first; n < end; n++) { SCORES(); }
    weigh(z, h, m, first, end, 0u, COLUMNS);
    SUMS();
"""
_SCORES = """
    var x_{0} = 0.0;
    for (var k = 0u; k < DEPTH; k++) {{
      x_{0} = fma(left_{0}(z, h, m, k), right_{0}(z, h, k, n), x_{0});
    }}
    scratch[{0}u * COLUMNS + n] = x_{0};
"""
_SUMS = """
    for (var n = 0u; n < WIDTH; n++) {{
      var x = 0.0;
      for (var k = first; k < end; k++) {{
        x = fma(scratch[{0}u * COLUMNS + k], factor_{0}(z, h, k, n), x);
      }}
      finish_{0}(z, h, m, n, x);
    }}
"""


# A row among those of its key head.
_PLACE = "head(h, m), m % ROWS"
_KEEP = f"""
    put_rows(z, {_PLACE}, 0u, top);
    put_rows(z, {_PLACE}, 1u, wg_log(sum));
"""
_LOAD_STATS = f"""
    let peak = stats_at(z, {_PLACE}, 0u);
    let log_sum = stats_at(z, {_PLACE}, 1u);
    let mean = stats_at(z, {_PLACE}, 2u);
"""
_MAKE_STATS = f"""
    let peak = kept_at(z, {_PLACE}, 0u);
    let log_sum = kept_at(z, {_PLACE}, 1u);
    var mean = 0.0;
    for (var d = 0u; d < WIDTH; d++) {{
      mean += y_at(z, {_PLACE}, d) * dy_at(z, {_PLACE}, d);
    }}
    put_stats(z, {_PLACE}, 0u, peak);
    put_stats(z, {_PLACE}, 1u, log_sum);
    put_stats(z, {_PLACE}, 2u, mean);
"""


@dataclass(frozen=True, slots=True)
class PanelSizes:
    """Sizes of attention, by names of constants.

    For each of `rows` it computes products with all `columns`, one for each of `depths`, and from
    those a result for each of `widths`.
    """

    rows: str
    columns: str
    depths: tuple[str, ...]
    widths: tuple[str, ...]


SHAPES = {
    "attention": PanelSizes("TALL", "KEYS", ("INNER",), ("WIDTH",)),
    "attention_grad_q": PanelSizes("TALL", "KEYS", ("INNER", "WIDTH"), ("INNER",)),
    "attention_grad_kv": PanelSizes("KEYS", "TALL", ("INNER", "WIDTH"), ("INNER", "WIDTH")),
}


def by_threads(work: DispatchWork) -> DispatchWork:
    """The same work as a loop over threads."""
    match work.task:
        case ProductTask() as product:
            return _product(work, product)
        case AttentionTask() as attention:
            return _attention(work, attention)
    return work


def _product(work: DispatchWork, product: ProductTask) -> DispatchWork:
    sizes = {"BATCH": product.batch, "ROWS": product.rows, "COLS": product.cols}
    body = statements(_RESULT) + (statements(_COLUMN_SUM) if product.sums else ())
    return replace(
        work,
        constants=(*work.constants, *sizes.items(), ("DEPTH", product.inner)),
        task=ThreadTask("o", product.batch * product.rows * product.cols, body),
    )


def _attention(work: DispatchWork, attention: AttentionTask) -> DispatchWork:
    sizes, shape = dict(work.constants), SHAPES[attention.op]
    page = fill(_page(attention.op), _holes(attention))
    return replace(
        work,
        functions=Module((*work.functions.declarations, *page.declarations)),
        task=ThreadTask("o", sizes["PAIRS"] * sizes[shape.rows], _row(shape)),
    )


@cache
def _page(name: str) -> Module:
    return parse_module((_PAGES / f"{name}.wgsl").read_text(encoding="utf-8"))


def _row(shape: PanelSizes) -> Body:
    columns = shape.columns
    scores = [
        statements(_SCORES.format(number), DEPTH=depth, COLUMNS=columns)
        for number, depth in enumerate(shape.depths)
    ]
    sums = [
        statements(_SUMS.format(number), WIDTH=width, COLUMNS=columns)
        for number, width in enumerate(shape.widths)
    ]
    return statements(
        _ROW, ROWS=shape.rows, COLUMNS=columns, SCORES=sum(scores, ()), SUMS=sum(sums, ())
    )


def _holes(attention: AttentionTask) -> Mapping[str, Filling]:
    options, is_masked = attention.options, "masked" in attention.options
    column, mask = "s", f"mask_at(z, {_PLACE}, s)"
    if attention.op == "attention_grad_kv":
        column, mask = "n", "mask_at(z, head(h, n), n / SHARED, m)"
    product = f"scratch[at + {column}]"
    score = f"fma(SCALE, {product}, mask)" if is_masked else f"SCALE * {product}"
    share, seen = f"exp({score} - peak - log_sum)", "mask > HIDDEN"
    if attention.op == "attention":
        score = f"select(HIDDEN, {score}, {seen})" if is_masked else score
        share, seen = "exp(score - top)", "score > HIDDEN"
    return {
        "ORIGIN": expression("offset()" if "moving" in options else "0i"),
        "MASK": statements(f"let mask = {mask};" if is_masked else ""),
        "SCORE": expression(score),
        "SHARE": expression(f"select(0.0, {share}, {seen})" if is_masked else share),
        "KEEP": statements(_KEEP if "kept" in options else ""),
        "STATS": statements(_MAKE_STATS if "makes_stats" in options else _LOAD_STATS),
    }


# WebAssembly's own min and max keep NaN; one element is computed where a GPU takes four.
PLAIN = {"wg_max": "max", "wg_min": "min", "Values": "f32"}


@dataclass(frozen=True, slots=True)
class ThreadProgram:
    """The work of a kernel: `body` runs for each `variable` below `count`, in any order."""

    variable: str
    count: int
    body: tuple[Statement, ...]
    functions: Mapping[str, FunctionDef]
    constants: Mapping[str, Held]


def program_of(work: DispatchWork) -> ThreadProgram:
    work = by_threads(work)
    assert isinstance(work.task, ThreadTask)
    constants = {name: Held("u32", index=constant(n)) for name, n in work.constants}
    own = fill(work.functions, PLAIN)
    for name, value in own.constants.items():
        constants[name] = _number(value, constants)
    body = substitute_body(work.task.body, PLAIN)
    return ThreadProgram(work.task.index, work.task.count, body, own.functions, constants)


def _number(expr: Expr, known: Mapping[str, Held]) -> Held:
    sign = 1
    if isinstance(expr, Unary) and expr.op == "-":
        expr, sign = expr.operand, -1
    if isinstance(expr, Literal) and expr.kind == "f32":
        return Held("f32", number=sign * expr.value)
    return Held("u32", index=constant(_whole(expr, known)))


def _whole(expr: Expr, known: Mapping[str, Held]) -> int:
    """A whole number that is known when the kernel is written."""
    if isinstance(expr, Literal):
        return int(expr.value)
    if isinstance(expr, Name):
        index = known[expr.name].index
        assert index is not None
        return index.offset
    assert isinstance(expr, Binary) and expr.op == "*"
    return _whole(expr.left, known) * _whole(expr.right, known)


@dataclass(frozen=True, slots=True)
class Walk:
    """The order of threads: lanes along rows of `columns`; none: threads run one by one.

    `together`: so many rows are run in one loop. `stride`: neighbouring lanes are so many threads
    apart, and so are the rows that they make up.
    """

    columns: int | None = None
    together: int = 0
    stride: int = 1


ONE_BY_ONE = Walk()


def walks_in_rows(program: ThreadProgram, lengths: Sequence[int]) -> list[Walk]:
    """Ways to go through all threads in rows of these lengths."""
    walks = []
    for columns in lengths:
        rows = program.count // columns
        group = max(n for n in range(1, MOST_ROWS_TOGETHER + 1) if rows % n == 0)
        if group > 1 and _has_one_loop(program):
            walks.append(Walk(columns, group))
        walks.append(Walk(columns))
    return walks


def strided_walks(program: ThreadProgram) -> list[Walk]:
    """Lanes along an axis of the results that is neither the first nor the last one.

    Long sums may find their operands side by side along such an axis only.
    """
    if not _has_one_loop(program):
        return []
    loop = next(statement for statement in program.body if isinstance(statement, Loop))
    texts = (parts_of(whole) for s in loop.body for whole in expressions_of(s))
    axes = {_axis_of(part, program.variable) for parts in texts for part in parts} - {None}
    return [
        Walk(columns, stride=stride)
        for stride, columns in sorted(axis for axis in axes if axis)
        if columns % LANES == 0 and program.count // columns >= MIN_ROWS
    ]


def _axis_of(part: Expr, name: str) -> tuple[int, int] | None:
    """The stride and the length of the axis that `name / stride % length` is the number of."""
    match part:
        case Binary("%", Binary("/", Name(n), Literal(int(stride))), Literal(int(length))):
            return (stride, length) if n == name else None
    return None


def _has_one_loop(program: ThreadProgram) -> bool:
    """Whether each thread has a single loop, without loops or branches in it."""
    loops = [statement for statement in program.body if isinstance(statement, Loop)]
    return len(loops) == 1 and not any(isinstance(s, Loop | If) for s in loops[0].body)


def block_of(program: ThreadProgram) -> int | None:
    """How many threads run together, if each has a short loop in which neighbours read neighbours.

    One vector of each row would be a small part of what a cache loads.
    """
    loops = [statement for statement in program.body if isinstance(statement, Loop)]
    if program.count < GRAIN or len(loops) != 1 or not _has_one_loop(program):
        return None
    if len(loops[0].body) > (MAX_UNPACKING if _loads_bytes(loops[0]) else MAX_TOGETHER):
        return None
    if sum(isinstance(statement, Assign) for statement in loops[0].body) > MOST_WIDE_SUMS:
        return GRAIN
    if program.count >= LONG_BYTE_ROW and _loads_bytes(loops[0]):
        return BYTE_BLOCK
    return WIDE_BLOCK if program.count >= WIDE_BLOCK else GRAIN


def _loads_bytes(loop: Loop) -> bool:
    """Whether the loop takes numbers out of words."""
    parts = (
        part
        for statement in loop.body
        for whole in expressions_of(statement)
        for part in parts_of(whole)
    )
    return any(isinstance(part, Call) and part.name == "extractBits" for part in parts)
