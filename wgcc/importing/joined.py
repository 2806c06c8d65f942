"""Queries, keys and values that a file stores one by one, for models that have them joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from wgcc.importing.names import in_order, last_word, read_name, worth_reading
from wgcc.importing.origin import Origin, Weights
from wgcc.importing.propose import ROPE_ASSUMED
from wgcc.importing.transforms import Shape, Transform
from wgcc.lazy_numpy import Array, np

_PARTS = ("q", "k", "v")


def join_attention(weights: Weights, targets: Mapping[str, Shape]) -> Weights:
    """`attn.q.weight`, `attn.k.weight` and `attn.v.weight` become `attn.qkv.weight`."""
    words = [read_name(name, shape).words for name, shape in targets.items()]
    if not any("qkv" in found for found in words) or any("q" in found for found in words):
        return weights
    arrays, notes = dict(weights.arrays), []
    inputs_first = set(weights.origin.inputs_first)
    for parts in _triples(weights.arrays):
        axes = {_axis(part, weights.arrays[part], weights.origin) for part in parts}
        axis = min(axes)
        heads = [weights.origin.rope.get(part, 0) for part in parts]
        held = [_with_halves(arrays[p], axis, count) for p, count in zip(parts, heads, strict=True)]
        name = _joined_name(*parts)
        if name in arrays or len(axes) > 1 or not _fit(held, axis):
            continue
        inputs_first |= {name} if inputs_first.intersection(parts) else set()
        arrays = {other: array for other, array in arrays.items() if other not in parts}
        arrays[name] = np.concatenate(held, axis)
        assumed = f"; assumed: {ROPE_ASSUMED}" if any(heads) else ""
        notes.append(f"{name} is {parts[0]}, {parts[1]} and {parts[2]} side by side{assumed}")
    origin = replace(
        weights.origin,
        notes=(*weights.origin.notes, *notes[:1], *_more(notes)),
        inputs_first=frozenset(inputs_first),
    )
    return Weights(arrays, origin)


def _triples(arrays: Mapping[str, Array]) -> Iterable[tuple[str, ...]]:
    """Names that differ in nothing but being queries, keys or values."""
    found: dict[object, dict[str, str]] = {}
    for name in sorted(worth_reading(arrays), key=in_order):
        read = read_name(name, arrays[name].shape)
        own = [word for word in read.words if word in _PARTS]
        if len(own) == 1:
            key = tuple("" if word in _PARTS else word for word in read.words), read.numbers
            found.setdefault((*key, read.kind), {})[own[0]] = name
    return [tuple(parts[p] for p in _PARTS) for parts in found.values() if len(parts) == 3]


def _axis(name: str, array: Array, origin: Origin) -> int:
    """The outputs are last in files of Keras, Flax and wgcc, first in those of PyTorch.

    In ONNX files, the nodes show which it is.
    """
    outputs_last = (
        origin.keras
        or origin.own
        or name in origin.inputs_first
        or last_word(name) in ("kernel", "w")
    )
    return array.ndim - 1 if outputs_last else 0


def _with_halves(array: Array, axis: int, heads: int) -> Array:
    """Queries and keys whose rotary positions turn neighbours, for `rope`, which turns halves."""
    change = Transform(rope=heads)
    outputs = array.shape[axis] if array.ndim else 0
    if not heads or outputs % (2 * heads):
        return array
    return np.moveaxis(change.in_order(np.moveaxis(array, axis, -1)), -1, axis)


def _fit(arrays: list[Array], axis: int) -> bool:
    return len({(a.ndim, a.shape[:axis], a.shape[axis + 1 :]) for a in arrays}) == 1


def _joined_name(query: str, key: str, value: str) -> str:
    columns = zip(*(name.split(".") for name in (query, key, value)), strict=False)
    return ".".join("qkv" if len(set(words)) > 1 else words[0] for words in columns)


def _more(notes: list[str]) -> list[str]:
    return [f"and so on, {len(notes)} in all"] if len(notes) > 1 else []
