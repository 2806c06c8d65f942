"""Products and attention as work of single threads: one result, or one row, after the other.

That is what panels compute, four rows at a time, and what runs where panels do not pay. The pages
of attention have one form: `left_i` and `right_i` of a row and a column it sees are multiplied,
`weigh` makes weights of the products, and `finish_i` takes sums of `factor_i` with these weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from wgcc.backends.wasm.kernels.scopes import Held
from wgcc.ir.index import constant
from wgcc.kernel.build import expression, statements
from wgcc.kernel.parse import parse_module
from wgcc.kernel.rewrite.transform import Body, Filling, fill, substitute_body
from wgcc.kernel.tree import (
    Binary,
    Expr,
    FunctionDef,
    Literal,
    Module,
    Name,
    Statement,
    Unary,
)
from wgcc.schedule.kernel import AttentionTask, DispatchWork, ProductTask, ThreadTask

_PAGES = Path(__file__).parent / "pages"
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
