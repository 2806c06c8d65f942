"""Fourier transforms of any length: products with matrices of sines and cosines."""

from __future__ import annotations

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, axis_of
from wgcc.from_onnx.rules.shapes import padded
from wgcc.from_onnx.values import Operand, Value
from wgcc.lazy_numpy import Array, np


def waves(length: int, count: int, inverse: bool) -> tuple[Array, Array]:
    """cos and sin of 2π j k / n, [j, k], with the sign and size of the transform."""
    angles = 2 * np.pi * np.outer(np.arange(length), np.arange(count)) / length
    scale = 1 / length if inverse else 1.0
    sign = 1.0 if inverse else -1.0
    return (scale * np.cos(angles)).astype(np.float32), (sign * scale * np.sin(angles)).astype(
        np.float32
    )


def dft(op: Op) -> Operand:
    x = op.plain(0)
    rank = len(x.shape)
    axis = _axis(op, rank)
    if op.attribute("onesided", 0) and op.attribute("inverse", 0):
        return _real_signal(op, x, axis)
    length = int(op.constant(1, "length").reshape(())) if op.has(1) else x.shape[axis]
    if length != x.shape[axis]:
        missing = length - x.shape[axis]
        x = padded(op, x, {axis: (0, missing)})
    count = op.type.shape[axis]
    moved = [a for a in range(rank - 1) if a != axis] + [axis]
    cosines, sines = waves(length, count, bool(op.attribute("inverse", 0)))
    whole = transformed(op, op.transposed(x, [*moved, rank - 1]), cosines, sines)
    back = [moved.index(a) for a in range(rank - 1)]
    return op.transposed(whole, [*back, rank - 1])


def _real_signal(op: Op, x: Operand, axis: int) -> Operand:
    """The inverse of a onesided transform: the other frequencies are conjugates of those here."""
    rank, given = len(x.shape), x.shape[axis]
    if x.shape[-1] != 2:
        raise CannotImport("the inverse of a onesided transform of real numbers")
    length = int(op.constant(1, "length").reshape(())) if op.has(1) else 2 * (given - 1)
    known = length // 2 + 1
    if known > given:
        x = padded(op, x, {axis: (0, known - given)})
    count = max(known, given)
    angles = 2 * np.pi * np.outer(np.arange(count), np.arange(length)) / length
    # Both of a pair of conjugates count, but the first frequency, and the middle one, is alone.
    alone = (np.arange(count) * 2 % length == 0) | (np.arange(count) >= known)
    weights = np.where(np.arange(count) < known, np.where(alone, 1, 2), 0)[:, None] / length
    cosines, sines = (weights * wave(angles) for wave in (np.cos, np.sin))
    moved = [a for a in range(rank - 1) if a != axis] + [axis]
    parts = op.transposed(x, [*moved, rank - 1])
    shape = (*parts.shape[:-2], length)
    real = op.emit(
        "{0}[.., 0] @ {1} - {0}[.., 1] @ {2}", op.tensor(parts),
        op.parameter_of(cosines.astype(np.float32), "cosines"),
        op.parameter_of(sines.astype(np.float32), "sines"), shape=shape, dtype="f32",
    )  # fmt: skip
    back = [moved.index(a) for a in range(rank - 1)]
    return op.transposed(op.reshaped(real, (*shape, 1)), [*back, rank - 1])


def _axis(op: Op, rank: int) -> int:
    if op.opset >= 20:
        found = int(op.constant(2, "axis").reshape(())) if op.has(2) else -2
        return axis_of(found, rank)
    return axis_of(int(op.attribute("axis", 1)), rank)


def transformed(op: Op, x: Operand, cosines: Array, sines: Array) -> Value:
    """Of [.., n, 1] real or [.., n, 2] complex numbers, along the axis before the last."""
    c, s = op.parameter_of(cosines, "cosines"), op.parameter_of(sines, "sines")
    lead, parts = x.shape[:-2], x.shape[-1]
    count = cosines.shape[1]
    shape = (*lead, count)
    if parts == 1:
        texts = ("{0}[.., 0] @ {1}", "{0}[.., 0] @ {2}")
    else:
        texts = (
            "{0}[.., 0] @ {1} - {0}[.., 1] @ {2}",
            "{0}[.., 0] @ {2} + {0}[.., 1] @ {1}",
        )
    flat = op.reshaped(x, (int(np.prod(lead)), *x.shape[-2:]))
    rows = (int(np.prod(lead)), count)
    re, im = (op.emit(text, flat, c, s, shape=rows, dtype="f32") for text in texts)
    both = op.emit("stack([{0}, {1}], axis = 2)", re, im, shape=(*rows, 2), dtype="f32")
    found = op.reshaped(both, (*shape, 2))
    assert isinstance(found, Value)
    return found


def stft(op: Op) -> Operand:
    """Windows of a signal, each transformed."""
    x, step = op.plain(0), int(op.constant(1, "step").reshape(()))
    if len(x.shape) == 2:  # as PyTorch's older exporter writes real signals
        x = op.reshaped(x, (*x.shape, 1))
    batch, size, parts = x.shape
    window = op.operand(2) if op.has(2) else None
    length = window.shape[0] if window is not None else int(op.constant(3, "length").reshape(()))
    frames = (size - length) // step + 1
    count = length // 2 + 1 if op.attribute("onesided", 1) else length
    places = np.arange(frames)[:, None] * step + np.arange(length)
    ids = op.parameter_of(places, "places")
    framed: Operand = op.emit(
        "{0}[:, {1}]", x, ids, shape=(batch, frames, length, parts), dtype="f32", name="frames"
    )
    if window is not None:
        column = op.reshaped(window, (length, 1))
        framed = op.emit("{0} * {1}", framed, op.tensor(column), shape=framed.shape, dtype="f32")
    return transformed(op, framed, *waves(length, count, False))


RULES: dict[str, Rule] = {"DFT": dft, "STFT": stft}
