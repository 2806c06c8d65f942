"""The steps of attention by tiles: which products and sums a family makes, by names for its page.

A thread has four rows (or keys) of `own_tile`, and `lanes` of the other side; each of its results
is four rows of some vectors. Pages repeat lines for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.ir.places import ceil_div
from wgcc.schedule.codegen.emitter import COMPONENTS
from wgcc.schedule.kernels.copies_of_body import Body, Copy, each


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
    """`result` += `weights`, which all threads share, · rows of `other`; stored times a factor."""

    result: str
    size: str
    weights: str
    other: str
    factor: str = ""


@dataclass(frozen=True, slots=True)
class Steps:
    """A family. `own`: the letter of what a workgroup has, rows `m` or keys `s`."""

    own: str
    rows: tuple[str, ...]
    products: tuple[Product, ...]
    sums: tuple[Sum, ...]


_SCALED = "SCALE * "
STEPS = {
    "attention_tiles": Steps(
        "m",
        ("query",),
        (Product("x", "INNER", "query", "m_first", "key"),),
        (Sum("y", "WIDTH", "x", "value", "1.0 / sum.{} * "),),
    ),
    "attention_grad_q_tiles": Steps(
        "m",
        ("query", "dy"),
        (
            Product("x", "INNER", "query", "m_first", "key"),
            Product("dp", "WIDTH", "dy", "m_first", "value"),
        ),
        (Sum("dq", "INNER", "dp", "key", _SCALED),),
    ),
    "attention_grad_kv_tiles": Steps(
        "s",
        ("query", "dy"),
        (
            Product("x", "INNER", "key", "s_first", "query"),
            Product("dp", "WIDTH", "value", "s_first", "dy"),
        ),
        (Sum("dv", "WIDTH", "x", "dy"), Sum("dk", "INNER", "dp", "query", _SCALED)),
    ),
}


@dataclass(frozen=True, slots=True)
class Place:
    """One of a thread's rows, lanes or columns: where it is.

    Rows also have a component, the name of what they are of all (`own`), and a factor.
    """

    number: int
    at: str
    component: str = ""
    own: str = ""
    factor: str = ""


@dataclass(frozen=True, slots=True)
class ProductPage:
    """`chunks` is around all where a head is shared by chunks; `along` goes along a chunk."""

    step: Product
    vectors: str
    chunk: str
    chunks: Copy
    units: Body
    along: Body


@dataclass(frozen=True, slots=True)
class SumPage:
    """`parts` is around all where the rows are shared by parts; `along` goes along their rows."""

    step: Sum
    vectors: str
    part: str
    parts: Copy
    row: str
    units: Body
    along: Body
    columns: tuple[Place, ...]
    rows: tuple[Place, ...]

    @property
    def name(self) -> str:
        return self.step.result


@dataclass(frozen=True, slots=True)
class Seen:
    """A row and a key of the four, in `scores`: one of both is a vector."""

    h: str
    t: str
    key: str
    s: str


_NOTHING = Copy("", "")


def places(name: str, step: str, count: int) -> tuple[Place, ...]:
    """`name`, `name + STEP`, `name + 2u * STEP`, …"""
    texts = (name, f"{name} + {step}", *(f"{name} + {n}u * {step}" for n in range(2, count)))
    return tuple(Place(number, text) for number, text in enumerate(texts[:count]))


def page_of(family: str, constants: Mapping[str, int], makes_stats: bool) -> dict[str, object]:
    """What the page of a family names."""
    steps, own_is_row = STEPS[family], STEPS[family].own == "m"
    sums = tuple(_sum(step, steps.own, constants) for step in steps.sums)
    return {
        "rows_kind": "vec4u" if own_is_row else "u32",
        "keys_kind": "u32" if own_is_row else "vec4u",
        "seen": tuple(_seen(c, own_is_row) for c in COMPONENTS),
        "own_is_row": own_is_row,
        "own": steps.own,
        "row_operands": (*steps.rows, "y") if makes_stats else steps.rows,
        "products": tuple(_product(step, constants) for step in steps.products),
        "sums": sums,
        "results": tuple(sorted(sums, key=lambda page: page.name)),
        "lanes": places("across", "ACROSS", constants["EACH"]),
        "four": _four(steps.own),
        "each_across": each("i", "ACROSS", constants["UNROLLED"]),
    }


def _four(own: str, factor: str = "") -> tuple[Place, ...]:
    """The rows (or keys) of a thread, in the tile."""
    rows = zip(places("down", "DOWN", 4), COMPONENTS, strict=True)
    return tuple(Place(p.number, p.at, c, f"{own}.{c}", factor.format(c)) for p, c in rows)


def _seen(component: str, own_is_row: bool) -> Seen:
    if own_is_row:
        return Seen(f"h.{component}", f"t.{component}", "key", "s")
    return Seen("h", "t", f"key.{component}", f"s.{component}")


def _product(step: Product, constants: Mapping[str, int]) -> ProductPage:
    vectors, chunk = constants[f"{step.size}_VEC4"], constants["CHUNK"]
    name = f"{step.size}_VEC4"
    has_chunks = vectors > chunk
    head = f"for (var chunk = 0u; chunk < {name}; chunk += CHUNK) {{"
    left = f"min(CHUNK, {name} - chunk)" if vectors % chunk else "CHUNK"
    return ProductPage(
        step,
        name,
        "chunk + " if has_chunks else "",
        Copy(head, "}") if has_chunks else _NOTHING,
        _each_unit("OWN * CHUNK", constants["OWN"] * chunk, constants),
        each("c", left if has_chunks else name, constants["UNROLLED"]),
    )


def _sum(step: Sum, own: str, constants: Mapping[str, int]) -> SumPage:
    size, part = step.size, f"{step.size}_PART"
    rows, vectors = constants[part], constants[f"{size}_VEC4"]
    has_parts = rows < constants["TILE"]
    head = f"for (var part = 0u; part < min(TILE, end - tile); part += {part}) {{"
    return SumPage(
        step,
        f"{size}_VEC4",
        "part + " if has_parts else "",
        Copy(head, "}") if has_parts else _NOTHING,
        "(part + c)" if has_parts else "c",
        _each_unit(f"{part} * {size}_VEC4", rows * vectors, constants),
        each("c", part, constants["UNROLLED"]),
        places("across", "ACROSS", constants[f"{size}_COLUMNS"]),
        _four(own, step.factor),
    )


def _each_unit(text: str, count: int, constants: Mapping[str, int]) -> Body:
    """The threads of a workgroup share `count` units: number `i` is one of this thread."""
    if count <= constants["THREADS"]:
        return Body(f"if (slot < {text}) {{\nlet i = slot;", (_NOTHING,), "}")
    if constants["UNROLLED"] == 1:
        return Body(f"for (var i = slot; i < {text}; i += THREADS) {{", (_NOTHING,), "}")
    rounds = ceil_div(count, constants["THREADS"])
    body = each("unit", f"{rounds}u", constants["UNROLLED"])
    inside = f"let i = unit * THREADS + slot;\nif (i < {text}) {{"
    copies = (Copy(f"{copy.opening}\n{inside}", f"}}\n{copy.closing}") for copy in body.copies)
    return Body(body.begin, tuple(copies), body.end)
