"""dft(re[, im]; sign): Σₙ xₙ exp(sign · 2πi kn / N) along the last axis, real and imaginary part.

N is a power of two; without `im` the input is real. Short transforms are one matrix product, longer
ones are divided: N = N₁ N₂, transforms of N₁, twiddle factors, transforms of N₂.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

from wgcc.ir.graph import Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import Expand, Op, Sample, ShapeError, check_dtype

# The longest transform that is one product.
LONGEST = 64

Complex = tuple[Term, Term]


def infer(*parts: TensorType, sign: int) -> tuple[TensorType, TensorType]:
    re = parts[0]
    if len(set(parts)) != 1 or not re.shape:
        raise ShapeError(f"dft: {', '.join(map(str, parts))} do not fit together")
    check_dtype("dft", re, ("f32",))
    if re.shape[-1] & (re.shape[-1] - 1):
        raise ShapeError(f"dft: {re.shape[-1]} is not a power of two")
    return re, re


def reference(*parts: Array, sign: int) -> tuple[Array, Array]:
    x = parts[0] + 1j * parts[1] if len(parts) > 1 else parts[0]
    y = np.fft.fft(x) if sign < 0 else np.fft.ifft(x) * x.shape[-1]
    return y.real.astype(parts[0].dtype), y.imag.astype(parts[0].dtype)


def effort(node: Node) -> int:
    return 20 * node.inputs[0].type.size


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = dft(g; -sign)
    known = next((g for g in gs if g is not None), None)
    if known is None:
        return [None] * len(node.inputs)
    pair = [g or Term(b, known).like(0).value for g in gs]
    return b.apply_many("dft", *pair, sign=-node.attrs["sign"])[: len(node.inputs)]


def expand(b: Builder, node: Node) -> Sequence[Value]:
    shape, sign = node.inputs[0].shape, int(node.attrs["sign"])
    rows = (node.inputs[0].type.size // shape[-1], shape[-1])
    re, *im = (Term(b, value).reshape(rows) for value in node.inputs)
    return [part.reshape(shape).value for part in _transform(re, im[0] if im else None, sign)]


def _transform(re: Term, im: Term | None, sign: int) -> Complex:
    """Transforms each row."""
    rows, n = re.shape
    if n <= LONGEST:
        return _product(re, im, sign)
    first = min(LONGEST, 1 << (n.bit_length() // 2))
    second = n // first

    def columns(x: Term) -> Term:
        apart = x.reshape((rows, first, second)).apply("transpose", perm=(0, 2, 1))
        return apart.reshape((rows * second, first))

    inner = _product(columns(re), None if im is None else columns(im), sign)
    rotated = _with_twiddles([x.reshape((rows, second, first)) for x in inner], n, sign)
    across = [x.apply("transpose", perm=(0, 2, 1)).reshape((rows * first, second)) for x in rotated]
    outer = _transform(across[0], across[1], sign)
    done = [x.reshape((rows, first, second)).apply("transpose", perm=(0, 2, 1)) for x in outer]
    return done[0].reshape((rows, n)), done[1].reshape((rows, n))


def _product(re: Term, im: Term | None, sign: int) -> Complex:
    """The real and the imaginary part side by side, by one product."""
    n = re.shape[1]
    cos, sin = _circle(re.b, (n, n), n, sign)
    matrix = cos.apply("concat", sin, axis=1)
    given = re
    if im is not None:
        matrix = matrix.apply("concat", (-sin).apply("concat", cos, axis=1), axis=0)
        given = re.apply("concat", im, axis=1)
    both = given.apply("matmul", matrix)
    return _columns(both, 0, n), _columns(both, n, n)


def _with_twiddles(parts: list[Term], n: int, sign: int) -> Complex:
    """Element [j, k] of each matrix times exp(sign · 2πi jk / n)."""
    re, im = parts
    cos, sin = (x.broadcast(re.shape) for x in _circle(re.b, re.shape[1:], n, sign))
    return re * cos - im * sin, re * sin + im * cos


def _circle(b: Builder, shape: tuple[int, ...], n: int, sign: int) -> Complex:
    """cos and sin of sign · 2π jk / n, at [j, k]; they become constants."""
    j, k = (Term(b, b.apply("iota", n=size, dtype="i32")) for size in shape)
    turns = j.reshape((shape[0], 1)).broadcast(shape) * k.broadcast(shape)
    turns = turns.apply("mod", turns.like(n)).cast("f32")
    # Constants are f32 and folding computes in f64: the second has the digits the first lacks.
    step = sign * 2 * pi / n
    near = float(np.float32(step))
    angle = turns * near + turns * (step - near)
    return angle.apply("cos"), angle.apply("sin")


def _columns(x: Term, start: int, count: int) -> Term:
    sizes = (x.shape[0], count)
    return x.apply("slice", starts=(0, start), sizes=sizes, steps=(1, 1))


OPS = (
    Op(
        "dft",
        infer,
        reference,
        Expand(expand),
        grad,
        [
            Sample([shape] * parts, {"sign": sign}, -0.3, 0.3)
            for shape, parts, sign in (
                ((1,), 2, -1),
                ((8,), 1, -1),
                ((3, 16), 2, 1),
                ((2, 3, 4), 2, -1),
                ((2, 128), 1, -1),
                ((1, 512), 2, 1),
            )
        ],
        effort=effort,
    ),
)
