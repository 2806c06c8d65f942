"""The steps of attention by tiles: which products and sums a family makes, by names for its page.

A thread has four rows (or keys) of `own_tile`, and `lanes` of the other side; each of its results
is four rows of some vectors. Pages repeat lines for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """`result` += `weights`, which all threads share, · rows of `other`; stored times a factor."""

    result: str
    size: str
    weights: str
    other: str
    factor: str = ""


@dataclass(frozen=True, slots=True)
class TileSteps:
    """A family. `own`: the letter of what a workgroup has, rows `m` or keys `s`."""

    own: str
    rows: tuple[str, ...]
    products: tuple[Product, ...]
    sums: tuple[Sum, ...]


_SCALED = "SCALE * "
STEPS = {
    "attention_tiles": TileSteps(
        "m",
        ("query",),
        (Product("x", "INNER", "query", "m_first", "key"),),
        (Sum("y", "WIDTH", "x", "value", "1.0 / sum.{} * "),),
    ),
    "attention_grad_q_tiles": TileSteps(
        "m",
        ("query", "dy"),
        (
            Product("x", "INNER", "query", "m_first", "key"),
            Product("dp", "WIDTH", "dy", "m_first", "value"),
        ),
        (Sum("dq", "INNER", "dp", "key", _SCALED),),
    ),
    "attention_grad_kv_tiles": TileSteps(
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
class TilePlace:
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
    """`has_chunks`: a head is shared by chunks; `along` is how long a chunk is.

    `once`: each thread loads at most one vector of it.
    """

    step: Product
    vectors: str
    chunk: str
    has_chunks: bool
    once: bool
    along: str


@dataclass(frozen=True, slots=True)
class SumPage:
    """`has_parts`: rows are shared by parts, of `rows_each`."""

    step: Sum
    vectors: str
    part: str
    has_parts: bool
    rows_each: str
    once: bool
    row: str
    columns: tuple[TilePlace, ...]
    rows: tuple[TilePlace, ...]

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


def places(name: str, step: str, count: int) -> tuple[TilePlace, ...]:
    """`name`, `name + STEP`, `name + 2u * STEP`, …"""
    texts = (name, f"{name} + {step}", *(f"{name} + {n}u * {step}" for n in range(2, count)))
    return tuple(TilePlace(number, text) for number, text in enumerate(texts[:count]))


def page_of(family: str, constants: Mapping[str, int], makes_stats: bool) -> dict[str, object]:
    """The values that the page of a family names."""
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
    }


def _four(own: str, factor: str = "") -> tuple[TilePlace, ...]:
    """The rows (or keys) of a thread, in the tile."""
    rows = zip(places("down", "DOWN", 4), COMPONENTS, strict=True)
    return tuple(TilePlace(p.number, p.at, c, f"{own}.{c}", factor.format(c)) for p, c in rows)


def _seen(component: str, own_is_row: bool) -> Seen:
    if own_is_row:
        return Seen(f"h.{component}", f"t.{component}", "key", "s")
    return Seen("h", "t", f"key.{component}", f"s.{component}")


def _product(step: Product, constants: Mapping[str, int]) -> ProductPage:
    name, chunk = f"{step.size}_VEC4", constants["CHUNK"]
    vectors = constants[name]
    has_chunks = vectors > chunk
    left = f"min(CHUNK, {name} - chunk)" if vectors % chunk else "CHUNK"
    return ProductPage(
        step,
        name,
        "chunk + " if has_chunks else "",
        has_chunks,
        constants["OWN"] * chunk <= constants["THREADS"],
        left if has_chunks else name,
    )


def _sum(step: Sum, own: str, constants: Mapping[str, int]) -> SumPage:
    part, vectors = f"{step.size}_PART", f"{step.size}_VEC4"
    rows = constants[part]
    has_parts = rows < constants["TILE"]
    return SumPage(
        step,
        vectors,
        "part + " if has_parts else "",
        has_parts,
        part,
        rows * constants[vectors] <= constants["THREADS"],
        "(part + c)" if has_parts else "c",
        places("across", "ACROSS", constants[f"{step.size}_COLUMNS"]),
        _four(own, step.factor),
    )
