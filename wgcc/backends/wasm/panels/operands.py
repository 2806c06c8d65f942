"""Along which axis an operand of a product is packed: where its elements are neighbours."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from wgcc.backends.wasm.encoding.encoder import I32
from wgcc.backends.wasm.kernels.body import Body
from wgcc.backends.wasm.kernels.positions import Counter
from wgcc.backends.wasm.kernels.span import LANES
from wgcc.backends.wasm.kernels.things import Env, Unvectorisable
from wgcc.ir.index import variable
from wgcc.kernel.tree import Call, Name

Axes = tuple[tuple[str, int], ...]


def cheapest_axis(
    name: str, axes: Axes, extra: dict[str, float], new_body: Callable[[], Body]
) -> str:
    """The axis along which four elements of an operand take the fewest instructions.

    `axes`: the parameters of function `name` and their extents; `extra`: what else each costs.
    """

    def cost(axis: str) -> float:
        return extra[axis] + _cost(name, axes, axis, new_body())

    return min(extra, key=cost)


def _cost(name: str, axes: Axes, along: str, body: Body) -> float:
    env: Env = {}
    for axis, extent in axes:
        whole = axis == along and extent % LANES == 0
        counter = body.positions.name(axis, Counter(body.f.local(axis, I32), 0))
        index = variable(counter, extent // LANES) * LANES if whole else variable(counter, extent)
        body.bind(env, axis, index)

    def element(inner: Env) -> None:
        body.bind(inner, along, body.index_of(inner, along) + body.index_of(inner, "lane"))
        body.value(Call(name, tuple(Name(axis) for axis, _ in axes)), inner)

    try:
        body.four("lane", element, env)
    except Unvectorisable:
        return inf
    return body.scopes.cost
