"""`fft ifft rfft irfft`: discrete Fourier transforms of power-of-two sizes.

There are no complex numbers: the real and the imaginary part are two tensors.
"""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.pooling import new_size
from wgcc.elaborate.builtins.shapes import joined
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor, TupleValue
from wgcc.errors import Span

FORWARD, BACKWARD = -1, 1


def fft(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """Σₙ xₙ exp(-2πi kn / N) along an axis."""
    parts, axis = _parts(tracer, args, at)
    return _pair(_transform(tracer, parts, axis, FORWARD))


def ifft(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The inverse of `fft`, divided by N."""
    parts, axis = _parts(tracer, args, at)
    return _pair(_inverse(tracer, parts, axis))


def rfft(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The first N / 2 + 1 of the `fft` of real numbers; the others are their mirror image."""
    x = expect.tensor(tracer, args, "x", ("f32",))
    axis = expect.axis(tracer, args, x)
    _check_size(tracer, x.dims[axis], at)
    half = new_size(tracer, x.dims[axis].size // 2 + 1)
    both = _transform(tracer, [x], axis, FORWARD)
    return _pair([broadcasting.part(tracer, part, axis, 0, half) for part in both])


def irfft(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The inverse of `rfft`: real numbers."""
    parts, axis = _parts(tracer, args, at, check=False)
    half = parts[0].dims[axis].size
    whole = max(2 * (half - 1), 1)
    _check_size(tracer, Dim.literal(whole), at)
    if whole > 2:
        re, im = (_mirrored(tracer, part, axis) for part in parts)
        conjugate = (re, (-TensorExpr(tracer, im)).tensor)
        parts = [joined(tracer, list(both), axis) for both in zip(parts, conjugate, strict=True)]
    return _inverse(tracer, parts, axis)[0]


def _parts(
    tracer: Tracer, args: BoundArgs, at: Span, check: bool = True
) -> tuple[list[Tensor], int]:
    names = ["re"] if args["im"] is None else ["re", "im"]
    parts = [expect.tensor(tracer, args, name, ("f32",)) for name in names]
    axis = expect.axis(tracer, args, parts[0])
    if len(parts) > 1 and not _same_shape(*parts):
        text = f"real and imaginary parts have one shape, but these are {parts[0]} and {parts[1]}"
        raise Stop(tracer.report.error("WG0419", text, at))
    if check:
        _check_size(tracer, parts[0].dims[axis], at)
    return parts, axis


def _same_shape(re: Tensor, im: Tensor) -> bool:
    same = (compare(a, b) is not DIFF for a, b in zip(re.dims, im.dims, strict=False))
    return re.rank == im.rank and all(same)


def _check_size(tracer: Tracer, dim: Dim, at: Span) -> None:
    if dim.size & (dim.size - 1) and not tracer.generic:
        text = f"Fourier transforms need a power of two, but this axis has {dim.full}"
        longer = 1 << dim.size.bit_length()
        problem = tracer.report.error("WG0417", text, at)
        raise Stop(problem.help(f"pad it with zeros, to {longer}"))


def _transform(tracer: Tracer, parts: list[Tensor], axis: int, sign: int) -> list[Tensor]:
    rank = parts[0].rank
    last = [*(k for k in range(rank) if k != axis), axis]
    moved = [broadcasting.transpose(tracer, part, last) for part in parts]
    outputs = [(moved[0].dims, "f32")] * 2
    found = tracer.emit_many("dft", *moved, outputs=outputs, sign=sign)
    back = [last.index(k) for k in range(rank)]
    return [broadcasting.transpose(tracer, part, back) for part in found]


def _inverse(tracer: Tracer, parts: list[Tensor], axis: int) -> list[Tensor]:
    scale = 1.0 / parts[0].dims[axis].size
    found = _transform(tracer, parts, axis, BACKWARD)
    return [(TensorExpr(tracer, part) * scale).tensor for part in found]


def _mirrored(tracer: Tracer, x: Tensor, axis: int) -> Tensor:
    """All but the first and the last, backwards."""
    inner = broadcasting.part(tracer, x, axis, 1, x.dims[axis] - Dim.literal(2))
    return broadcasting.flip(tracer, inner, [axis])


def _pair(parts: list[Tensor]) -> TupleValue:
    return TupleValue((parts[0], parts[1]))


FUNCTIONS = (
    BuiltinFunction("fft", "re, im=none, axis=-1", fft),
    BuiltinFunction("ifft", "re, im=none, axis=-1", ifft),
    BuiltinFunction("rfft", "x, axis=-1", rfft),
    BuiltinFunction("irfft", "re, im, axis=-1", irfft),
)
