"""random(seed, step[, site]; shape, site, kind): counter-based random numbers.

Threefry2x32 with key (seed, site) and counter (step, flat index); `kind` is "uniform" in [0, 1) or
"normal". The same bits in every runtime. A site operand overrides the attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wgcc.ir.graph import Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.registry import FromIndex, Op, Sample, ShapeError, check_scalar, check_sizes

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WORD = 0xFFFFFFFF


def infer(
    seed: TensorType,
    step: TensorType,
    *given: TensorType,
    shape: tuple[int, ...],
    site: int,
    kind: str,
) -> TensorType:
    check_scalar("random", "the seed", seed, ("u32",))
    check_scalar("random", "the step", step, ("u32",))
    for operand in given:
        check_scalar("random", "the site", operand, ("u32",))
    check_sizes("random", shape)
    if kind not in ("uniform", "normal"):
        raise ShapeError(f'random: kind must be "uniform" or "normal", not "{kind}"')
    return TensorType(tuple(shape), "f32")


def reference(
    seed: Array, step: Array, *given: Array, shape: tuple[int, ...], site: int, kind: str
) -> Array:
    draw = uniform_array if kind == "uniform" else normal_array
    where = int(given[0]) if given else site
    return draw(int(seed), where, int(step), prod(shape)).reshape(shape)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    return [None] * len(node.inputs)


def wgsl(node: Node) -> str:
    site = "{2}" if len(node.inputs) > 2 else f"{node.attrs['site']}u"
    return f"wg_{node.attrs['kind']}({{0}}, {site}, {{1}}, {{i}})"


def uniform_array(seed: int, site: int, step: int, count: int) -> Array:
    bits = threefry(seed, site, step, np.arange(count))
    return ((bits >> 8) * 2.0**-24).astype(np.float32)


def normal_array(seed: int, site: int, step: int, count: int) -> Array:
    bits = threefry(seed, site, step, np.arange(count))
    x = ((bits >> 9) + 0.5) * 2.0**-22 - 1
    return (2**0.5 * erfinv_array(x)).astype(np.float32)


def threefry(seed: int, site: int, step: int, indices: Array) -> Array:
    """The first word of each block, in 64 bits so that sums can be masked."""
    keys = (seed, site, seed ^ site ^ _PARITY)
    a: Array = np.full(indices.shape, (step + seed) & _WORD, np.uint64)
    b: Array = (indices.astype(np.uint64) + site) & _WORD
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            a = (a + b) & _WORD
            b = ((b << rotation) | (b >> (32 - rotation))) & _WORD ^ a
        a = (a + keys[(block + 1) % 3]) & _WORD
        b = (b + keys[(block + 2) % 3] + block + 1) & _WORD
    return a


def erfinv_array(x: Array) -> Array:
    """Giles' polynomials, as in `wgsl/erfinv.wgsl`: the meaning is their value, not the inverse."""
    w = -np.log((1 - x) * (1 + x))
    tail = np.polyval(_TAIL, np.sqrt(np.maximum(w, 5)) - 3)
    return x * np.where(w < 5, np.polyval(_MIDDLE, w - 2.5), tail)


_MIDDLE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)
_SEEDS = [TensorType((), "u32")] * 2
_SEEDS_AND_SITE = [TensorType((), "u32")] * 3
_FUNCTIONS = ("threefry", "uniform", "erfinv", "normal")

OPS = (
    Op(
        "random",
        infer,
        reference,
        FromIndex(wgsl, _FUNCTIONS),
        grad,
        [
            Sample(_SEEDS, {"shape": shape, "site": site, "kind": kind}, integers=(0, 2**31))
            for site, shape in enumerate([(), (1,), (65,), (3, 5), (2, 3, 4, 5)])
            for kind in ("uniform", "normal")
        ]
        + [
            Sample(_SEEDS_AND_SITE, {"shape": (9,), "site": 0, "kind": kind}, integers=(0, 2**31))
            for kind in ("uniform", "normal")
        ],
        effort=lambda node: 20 * node.output.type.size,
    ),
)
