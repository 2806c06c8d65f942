"""Rounds matrices of a file to 8 or 4 bits: the file as if they were stored so.

Blocks are GGUF's Q8_0 and Q4_1, with scales of two bytes. Each tensor is rounded when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from wgcc.errors import WgError
from wgcc.from_gguf.architecture import OUTPUT, TABLE, Decoder
from wgcc.from_gguf.block_types import BLOCK_TYPES, Q4_1, Q8_0, dequantise
from wgcc.from_gguf.read import StoredTensor, TensorSource
from wgcc.from_gguf.tokenizer import Json
from wgcc.from_gguf.weights import PLACES, matrix_parts
from wgcc.lazy_numpy import Array, np
from wgcc.spelling import did_you_mean

TYPES = {type_.name: type_ for type_ in BLOCK_TYPES.values()}
KINDS = {"q8": TYPES[Q8_0], "q4": TYPES[Q4_1]}
GROUP = 32
# Rows of a matrix that are rounded at a time.
ROWS = 4096

# A kind, and a pattern of layers such as `blocks.*.mlp.up`; later rules win.
Rules = Sequence[tuple[str, str]]


class QuantisedFile:
    """`losses`: for each rounded role, the error of the weights read so far, relative to them."""

    def __init__(self, file: TensorSource, decoder: Decoder, rules: Rules) -> None:
        self._file = file
        self.path, self.metadata = file.path, file.metadata
        self.stores_halves = file.stores_halves
        self._kinds = _kinds(file, decoder, rules)
        self.tensors: Mapping[str, StoredTensor] = dict(file.tensors) | {
            name: replace(file.tensors[name], type=KINDS[kind])
            for name, kind in self._kinds.items()
        }
        self._errors: dict[str, tuple[float, float]] = {}

    @property
    def losses(self) -> Iterator[str]:
        sums: dict[str, Array] = {}
        for name, error in self._errors.items():
            kind = self._kinds[name]
            role = f"{kind}: {_role(name)}"
            sums[role] = sums.get(role, 0) + np.array(error)
        for role, (error, size) in sums.items():
            share = (error / size) ** 0.5 if size else 0.0
            yield f"{role} is rounded; weights differ by {share:.2%} (root mean square)"

    def read(self, tensor: StoredTensor) -> bytes:
        if tensor.name not in self._kinds:
            return self._file.read(tensor)
        source = self._file.tensors[tensor.name]
        weights = dequantise(source.type, self._file.read(source), source.shape)
        if not np.isfinite(weights).all():
            raise WgError(f"{self.path}: `{tensor.name}` holds numbers that are not finite")
        rounder = _eight_bits if tensor.type.name == Q8_0 else _four_bits
        parts, error, size = [], 0.0, 0.0
        for first in range(0, len(weights), ROWS):
            part = weights[first : first + ROWS]
            parts.append(rounder(part).tobytes())
            rounded = dequantise(tensor.type, parts[-1], part.shape)
            error += float(np.square(part - rounded, dtype=np.float64).sum())
            size += float(np.square(part, dtype=np.float64).sum())
        self._errors[tensor.name] = (error, size)
        return b"".join(parts)

    def vocabulary(self) -> tuple[Json | None, str]:
        return self._file.vocabulary()

    def chat_template(self) -> str | None:
        return self._file.chat_template()


def _kinds(file: TensorSource, decoder: Decoder, rules: Rules) -> dict[str, str]:
    """The kind of each tensor that is rounded."""
    places = dict(_places(file, decoder))
    kinds: dict[str, str] = {}
    for kind, pattern in rules:
        matches = {
            name: [fnmatchcase(place, pattern) for place in layers]
            for name, layers in places.items()
        }
        if not any(any(match) for match in matches.values()):
            raise _no_layer(pattern, [place for layers in places.values() for place in layers])
        roles = {_role(name) for name, match in matches.items() if any(match)}
        for name in (name for name in places if _role(name) in roles):
            _check(file.tensors[name], places[name][0], pattern, all(matches[name]))
            # Rows of tables are looked up one by one, in 8 bits.
            kinds[name] = "q8" if name == TABLE else kind
    return kinds


def _no_layer(pattern: str, known: Sequence[str]) -> WgError:
    near = did_you_mean(pattern, known)
    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known[:4])}, …"
    return WgError(f"--quantise: no layer of weights is called `{pattern}`; {advice}")


def _check(tensor: StoredTensor, layer: str, pattern: str, is_whole: bool) -> None:
    if not is_whole:
        text = f"--quantise: `{pattern}` leaves `{layer}` out, but the same layer of all blocks,"
        raise WgError(f"{text} and all that are one matrix in the file, have one form")
    if tensor.shape[-1] % GROUP:
        text = f"--quantise: `{layer}` has {tensor.shape[-1]} inputs"
        raise WgError(f"{text}, not a multiple of {GROUP}, which is a group")


def _places(file: TensorSource, decoder: Decoder) -> Iterator[tuple[str, list[str]]]:
    """The layers that read each matrix."""
    yield TABLE, ["tok"]
    if not decoder.is_tied:
        yield OUTPUT, ["head"]
    for block in range(decoder.blocks):
        tensors: dict[str, list[str]] = {}
        for role, part in matrix_parts(file, decoder).items():
            name = f"blk.{block}.{part.tensor}.weight"
            tensors.setdefault(name, []).append(f"blocks.{block}.{PLACES[role]}")
        yield from ((name, layers) for name, layers in tensors.items() if name in file.tensors)


def _role(name: str) -> str:
    return name.split(".", 2)[2] if name.startswith("blk.") else name


def _eight_bits(weights: Array) -> Array:
    """d q, where q reaches 127 for the largest weight of a group."""
    groups = weights.reshape(-1, GROUP)
    d = np.abs(groups).max(axis=1, keepdims=True) / np.float32(127)
    inverse = np.divide(1, d, out=np.zeros_like(d), where=d > 0)
    q = np.round(groups * inverse).astype(np.int8)
    return np.concatenate([_halves(d), q.view(np.uint8)], axis=1)


def _four_bits(weights: Array) -> Array:
    """d q + m, with q from 0 to 15; d and m are those that fit the rounded q best."""
    groups = weights.reshape(-1, GROUP)
    low = groups.min(axis=1, keepdims=True)
    d = (groups.max(axis=1, keepdims=True) - low) / np.float32(15)
    q = _nearest(groups, d, low)
    mean_q, mean = q.mean(axis=1, keepdims=True), groups.mean(axis=1, keepdims=True)
    spread = np.square(q - mean_q).sum(axis=1, keepdims=True)
    slope = ((q - mean_q) * (groups - mean)).sum(axis=1, keepdims=True)
    d = np.divide(slope, spread, out=np.zeros_like(d), where=spread > 0)
    d, low = (part.astype(np.float16).astype(np.float32) for part in (d, mean - d * mean_q))
    q = _nearest(groups, d, low).astype(np.uint8)
    packed = q[:, : GROUP // 2] | q[:, GROUP // 2 :] << 4
    return np.concatenate([_halves(d), _halves(low), packed], axis=1)


def _nearest(groups: Array, d: Array, low: Array) -> Array:
    inverse = np.divide(1, d, out=np.zeros_like(d), where=d != 0)
    return np.clip(np.round((groups - low) * inverse), 0, 15)


def _halves(numbers: Array) -> Array:
    with np.errstate(over="ignore"):
        halves = np.ascontiguousarray(numbers.astype("<f2"))
    if not np.isfinite(halves).all():
        raise WgError("--quantise: some weights are above 65,504, the largest scale")
    return halves.view(np.uint8)
