"""Arrays in workgroup memory as parts of one array of vectors, which another kernel uses as well.

left_tile[1][k][lane]    becomes    pool[144u + k * 9u + lane]
added[i]                 becomes    pool[288u + i / 4u][i % 4u]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from wgcc.ir.places import ceil_div
from wgcc.kernel.build import in_parens, u32
from wgcc.kernel.rewrite.transform import (
    map_functions,
    map_statements,
    with_children,
    with_expressions,
)
from wgcc.kernel.tree import Binary, Element, Expr, Literal, Module, Name, Statement
from wgcc.schedule.kernel import VECTOR, Kernel, WorkgroupVariable

# The array, the constant of its length, and elements of arrays that may be parts of it.
POOL, LENGTH, POOLED = "pool", "POOL", ("f32", "vec4f")


def in_pool(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels with their arrays of floats in one that is long enough for each of them."""
    arrays = [pool_arrays(kernel) for kernel in kernels]
    vectors = max(sum(array.vectors for array in own.values()) for own in arrays)
    pool = WorkgroupVariable(POOL, "vec4f", (LENGTH,))
    return [
        replace(
            kernel,
            constants=(*kernel.constants, (LENGTH, vectors)),
            body=with_pool(kernel.body, own),
            shared=(*(each for each in kernel.shared if each.name not in own), pool),
        )
        for kernel, own in zip(kernels, arrays, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class PooledArray:
    """An array whose first element is in vector number `first` of an array of vectors."""

    first: int
    lengths: tuple[int, ...]
    element: str
    name: str = POOL

    @property
    def vectors(self) -> int:
        return ceil_div(prod(self.lengths), 1 if self.element == "vec4f" else VECTOR)

    def at(self, indices: Sequence[Expr]) -> Expr:
        """The element with one index along each axis."""
        place: Expr = u32(0)
        stride = 1
        for index, length in zip(reversed(indices), reversed(self.lengths), strict=True):
            place = _add(_times(index, stride), place)
            stride *= length
        if self.element == "vec4f":
            return Element(Name(self.name), _add(u32(self.first), place))
        number, component = _by("/", place), _by("%", place)
        return Element(Element(Name(self.name), _add(u32(self.first), number)), component)


def pool_arrays(kernel: Kernel) -> dict[str, PooledArray]:
    """The arrays of floats of a kernel, one after the other."""
    arrays, first, constants = dict[str, PooledArray](), 0, dict(kernel.constants)
    for variable in kernel.shared:
        if variable.element in POOLED and variable.length:
            lengths = tuple(constants[name] for name in variable.length)
            lengths = lengths if variable.is_nested else (prod(lengths),)
            arrays[variable.name] = PooledArray(first, lengths, variable.element)
            first += arrays[variable.name].vectors
    return arrays


def with_pool(module: Module, arrays: Mapping[str, PooledArray]) -> Module:
    """The functions of a kernel, which find its arrays in the pool."""

    if not arrays:
        return module

    def change(expr: Expr) -> Expr:
        root, indices = expr, list[Expr]()
        while isinstance(root, Element):
            indices.append(root.index)
            root = root.whole
        if not isinstance(root, Name) or root.name not in arrays:
            return with_children(expr, change)
        array = arrays[root.name]
        count = len(array.lengths)
        own = [change(index) for index in reversed(indices)]
        place = array.at(own[:count])
        for component in own[count:]:
            place = Element(place, component)
        return place

    def statement(own: Statement) -> tuple[Statement, ...]:
        return (with_expressions(own, change),)

    return map_functions(module, lambda body: map_statements(body, statement))


def with_vectors(module: Module, names: Iterable[str]) -> Module:
    """The functions of a kernel, which find the numbers of some bindings in vectors."""
    return with_pool(module, {name: PooledArray(0, (0,), "f32", name) for name in names})


def _times(index: Expr, stride: int) -> Expr:
    if isinstance(index, Literal):
        return u32(int(index.value) * stride)
    return index if stride == 1 else Binary("*", in_parens(index), u32(stride))


def _add(left: Expr, right: Expr) -> Expr:
    if isinstance(left, Literal) and isinstance(right, Literal):
        return u32(int(left.value) + int(right.value))
    if isinstance(left, Literal) and left.value == 0:
        return right
    if isinstance(right, Literal) and right.value == 0:
        return left
    return Binary("+", left, right)


def _by(op: str, place: Expr) -> Expr:
    """The place divided by the elements of a vector, or what is left."""
    if isinstance(place, Literal):
        number = int(place.value)
        return u32(number // VECTOR if op == "/" else number % VECTOR)
    return Binary(op, in_parens(place), u32(VECTOR))
