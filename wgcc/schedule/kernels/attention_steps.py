"""The steps of attention by tiles: which products and sums a family makes, as statements.

A thread has four rows `r` (or keys) of `own_tile`, and EACH lanes `j` of the other side; each of
its results is four rows of some columns `n`. Loops over these are written out, so that all of it is
in registers (`rewrite/unroll.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.kernel.build import counted_loop, expression, let, statements, u32
from wgcc.kernel.parse import long_type
from wgcc.kernel.rewrite.transform import Body, Filling
from wgcc.kernel.tree import Expr, If, Name
from wgcc.schedule.codegen.emitter import COMPONENTS


@dataclass(frozen=True, slots=True)
class Product:
    """`result` += products of rows of `own`, from `first` on, with rows of `other`."""

    result: str
    size: str
    own: str
    first: str
    other: str


@dataclass(frozen=True, slots=True)
class Sum:
    """`result` += `weights`, which all threads share, · rows of `other`."""

    result: str
    size: str
    weights: str
    other: str

    @property
    def vectors(self) -> str:
        """The constant that says how many vectors a row has."""
        return f"{self.size}_VEC4"


@dataclass(frozen=True, slots=True)
class TileSteps:
    """A family. `own`: the letter of what a workgroup has, rows `m` or keys `s`."""

    own: str
    rows: tuple[str, ...]
    products: tuple[Product, ...]
    sums: tuple[Sum, ...]


STEPS = {
    "attention_tiles": TileSteps(
        "m",
        ("query",),
        (Product("x", "INNER", "query", "m_first", "key"),),
        (Sum("y", "WIDTH", "x", "value"),),
    ),
    "attention_grad_q_tiles": TileSteps(
        "m",
        ("query", "dy"),
        (
            Product("x", "INNER", "query", "m_first", "key"),
            Product("dp", "WIDTH", "dy", "m_first", "value"),
        ),
        (Sum("dq", "INNER", "dp", "key"),),
    ),
    "attention_grad_kv_tiles": TileSteps(
        "s",
        ("query", "dy"),
        (
            Product("x", "INNER", "key", "s_first", "query"),
            Product("dp", "WIDTH", "value", "s_first", "dy"),
        ),
        (Sum("dv", "WIDTH", "x", "dy"), Sum("dk", "INNER", "dp", "query")),
    ),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A row and a key of the four, in `scores`: one of both is a vector."""

    h: str
    t: str
    key: str
    s: str


def words_of_page(family: str, makes_stats: bool) -> dict[str, object]:
    """The names that the page of a family and its functions differ by."""
    steps, own_is_row = STEPS[family], STEPS[family].own == "m"
    return {
        "rows_kind": "vec4u" if own_is_row else "u32",
        "keys_kind": "u32" if own_is_row else "vec4u",
        "seen": tuple(_seen(c, own_is_row) for c in COMPONENTS),
        "own_is_row": own_is_row,
        "own": steps.own,
        "row_operands": (*steps.rows, "y") if makes_stats else steps.rows,
        "sums": sorted(steps.sums, key=lambda step: step.result),
    }


def _seen(component: str, own_is_row: bool) -> Seen:
    if own_is_row:
        return Seen(f"h.{component}", f"t.{component}", "key", "s")
    return Seen("h", "t", f"key.{component}", f"s.{component}")


def steps_of(family: str, constants: Mapping[str, int], element: str) -> dict[str, Filling]:
    """The products and sums of a family; tiles hold elements of a type."""
    steps, kind = STEPS[family], long_type(element)
    products = (_product(step, constants, kind) for step in steps.products)
    sums = (_sum(step, constants, kind) for step in steps.sums)
    return {
        "PRODUCTS": tuple(statement for body in products for statement in body),
        "SUMS": tuple(statement for body in sums for statement in body),
    }


_PRODUCT = """
    SHARE();
    workgroupBarrier();
    for (var c = 0u; c < LENGTH; c++) {
      for (var r = 0u; r < 4u; r++) { let own = vec4f(own_tile[(down + r * DOWN) * STRIDE + c]); }
      for (var j = 0u; j < EACH; j++) {
        let other = vec4f(other_tile[(across + j * ACROSS) * STRIDE + c]);
        TERMS();
      }
    }
    workgroupBarrier();
"""
# Four multiply-adds for each pair of vectors; `dot` and a sum would take five instructions.
_TERM = """
    RESULT[j] = fma(vec4f(own[0].X, own[1].X, own[2].X, own[3].X), vec4f(other[j].X), RESULT[j]);
"""


def _product(step: Product, constants: Mapping[str, int], kind: str) -> Body:
    """A head is shared by chunks, if it is longer than one."""
    name, chunk = f"{step.size}_VEC4", constants["CHUNK"]
    has_chunks = constants[name] > chunk
    left = f"min(CHUNK, {name} - chunk)" if constants[name] % chunk else "CHUNK"
    load = statements(
        """
        let c = min(AT, VECTORS - 1u);
        let at = i / CHUNK * STRIDE + i % CHUNK;
        own_tile[at] = KIND(OWN_ROW(z, h_key, FIRST + i / CHUNK, c));
        other_tile[at] = KIND(OTHER_ROW(z, h_key, tile + i / CHUNK, c));
        """,
        AT=expression("chunk + i % CHUNK" if has_chunks else "i % CHUNK"),
        VECTORS=name,
        KIND=kind,
        OWN_ROW=f"{step.own}_row",
        OTHER_ROW=f"{step.other}_row",
        FIRST=step.first,
    )
    is_once = constants["OWN"] * chunk <= constants["THREADS"]
    terms = (statements(_TERM.replace("X", x), RESULT=step.result) for x in COMPONENTS)
    body = statements(
        _PRODUCT,
        SHARE=_share(expression("OWN * CHUNK"), load, is_once),
        TERMS=tuple(term for body in terms for term in body),
        LENGTH=expression(left if has_chunks else name),
    )
    loop = counted_loop("chunk", u32(0), Name(name), body, Name("CHUNK"))
    return (loop,) if has_chunks else body


_WEIGHTS = """
    for (var j = 0u; j < EACH; j++) {
      own_tile[(across + j * ACROSS) * WEIGHTS_STRIDE + down] = KIND(WEIGHT[j]);
    }
"""
_SUM = """
    SHARE();
    workgroupBarrier();
    for (var c = 0u; c < ROWS_EACH; c++) {
      let weights = vec4f(own_tile[ROW * WEIGHTS_STRIDE + down]);
      for (var n = 0u; n < COLUMNS; n++) {
        let other = vec4f(other_tile[c * VECTORS + across + n * ACROSS]);
        for (var r = 0u; r < 4u; r++) { RESULT[r][n] += weights[r] * other[n]; }
      }
    }
    workgroupBarrier();
"""


def _sum(step: Sum, constants: Mapping[str, int], kind: str) -> Body:
    """Rows are shared by parts, if not all of them fit."""
    part, vectors = f"{step.size}_PART", step.vectors
    has_parts = constants[part] < constants["TILE"]
    load = statements(
        """
        other_tile[i] = KIND(OTHER_ROW(
          z, h_key, FIRST + i / VECTORS, i % VECTORS));
        """,
        KIND=kind,
        OTHER_ROW=f"{step.other}_row",
        FIRST=expression("tile + part" if has_parts else "tile"),
        VECTORS=vectors,
    )
    is_once = constants[part] * constants[vectors] <= constants["THREADS"]
    body = statements(
        _SUM,
        SHARE=_share(expression(f"{part} * {vectors}"), load, is_once),
        ROWS_EACH=part,
        ROW=expression("(part + c)" if has_parts else "c"),
        COLUMNS=f"{step.size}_COLUMNS",
        VECTORS=vectors,
        RESULT=step.result,
    )
    end = expression("min(TILE, end - tile)")
    loop = counted_loop("part", u32(0), end, body, Name(part))
    weights = statements(_WEIGHTS, KIND=kind, WEIGHT=step.weights)
    return (*weights, *((loop,) if has_parts else body))


def _share(count: Expr, load: Body, is_once: bool) -> Body:
    """Threads load so many vectors, each of them at most one, if there are enough threads."""
    if is_once:
        return (If(expression("slot < COUNT", COUNT=count), (let("i", Name("slot")), *load)),)
    return (counted_loop("i", Name("slot"), count, load, Name("THREADS")),)
