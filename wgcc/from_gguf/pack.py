"""Blocks of a GGUF file as the parameters of `Q4Linear`, `Q8Linear` and `Q8Table`.

A file stores matrices as `[outputs, inputs]` in blocks along the inputs; ours are `[inputs,
outputs]`, so that a product reads its columns side by side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wgcc.errors import WgError
from wgcc.from_gguf.block_types import (
    Q4_0,
    Q4_1,
    Q4_K,
    Q5_0,
    Q6_K,
    Q8_0,
    SMALL_INTEGERS,
    BlockType,
    dequantise,
    halves_at,
    k_groups,
    k_nibbles,
)
from wgcc.lazy_numpy import Array, np

FOUR_BITS = (Q4_0, Q4_1, Q4_K)
# Formats of at most 8 bits without an offset, and how many weights have one scale.
EIGHT_BITS = {Q8_0: 32, Q6_K: 16, Q4_0: 32, Q5_0: 32}
FLOATS = ("F32", "F16", "BF16")
GROUP = 32
LARGEST = 127


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Rows of a matrix as the bytes of their blocks, `[outputs, bytes]`; each stands alone."""

    type: BlockType
    data: Array

    @property
    def inputs(self) -> int:
        return int(self.data.shape[1]) // self.type.bytes * self.type.elements

    def numbers(self) -> Array:
        """The matrix as float32."""
        shape = (len(self.data), self.inputs)
        return dequantise(self.type, self.data.tobytes(), shape)

    def blocks(self) -> Array:
        return np.ascontiguousarray(self.data).reshape(-1, self.type.bytes)


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """A layer of the language. `group`: weights to a scale, for those of 8 bits."""

    name: str
    group: int = 0

    def __str__(self) -> str:
        return f"{self.name}(group = {self.group})" if self.group not in (0, GROUP) else self.name


def matrix_layer(types: Iterable[BlockType]) -> PackedLayer:
    """The layer for matrices that stand in one list of layers, so that all have the same."""
    names = {type_.name for type_ in types}
    if names <= set(FLOATS):
        return PackedLayer("Linear")
    if names <= set(FOUR_BITS):
        return PackedLayer("Q4Linear")
    return PackedLayer("Q8Linear", min(EIGHT_BITS.get(name, GROUP) for name in names))


def table_layer(type_: BlockType) -> PackedLayer:
    if type_.name in FLOATS:
        return PackedLayer("Embedding")
    return PackedLayer("Q8Table", EIGHT_BITS.get(type_.name, GROUP))


def is_exact(type_: BlockType, layer: PackedLayer) -> bool:
    """Whether a layer holds the very numbers of the file."""
    return layer.group == 0 or type_.name in EIGHT_BITS


def pack_matrix(rows: BlockRows, layer: PackedLayer) -> dict[str, Array]:
    """The parameters of a linear map."""
    if layer.name == "Linear":
        return {"w": np.ascontiguousarray(rows.numbers().T)}
    parts = _four_bits(rows) if layer.name == "Q4Linear" else _eight_bits(rows, layer.group)
    return {name: np.ascontiguousarray(part.T) for name, part in parts.items()}


def pack_table(rows: BlockRows, layer: PackedLayer) -> dict[str, Array]:
    """The parameters of a table of rows."""
    if layer.name == "Embedding":
        return {"w": rows.numbers()}
    return _eight_bits(rows, layer.group)


def _four_bits(rows: BlockRows) -> dict[str, Array]:
    blocks, kind = rows.blocks(), rows.type.name
    if kind == Q4_K:
        q = k_nibbles(blocks)
        packed = q[..., :16] | q[..., 16:] << 4
        scale, low = k_groups(blocks)
    else:
        packed = blocks[:, -16:]
        scale = halves_at(blocks, 0)
        low = halves_at(blocks, 2) if kind == Q4_1 else -8 * scale
    parts = {"w": packed, "scale": scale, "low": low}
    return {name: part.reshape(len(rows.data), -1) for name, part in parts.items()}


def _eight_bits(rows: BlockRows, group: int) -> dict[str, Array]:
    """Integers `[outputs, inputs]`, and scales for groups of inputs."""
    blocks, kind = rows.blocks(), rows.type.name
    if kind not in EIGHT_BITS:
        return round_to_eight_bits(rows.numbers(), group)
    q = SMALL_INTEGERS[kind](blocks)
    if kind == Q6_K:
        scale = halves_at(blocks, 208) * np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    else:
        scale = np.repeat(halves_at(blocks, 0), GROUP // group, axis=1)
    outputs = len(rows.data)
    return {"w": q.reshape(outputs, -1), "scale": scale.reshape(outputs, -1)}


def round_to_eight_bits(weights: Array, group: int = GROUP) -> dict[str, Array]:
    """The nearest integers, with a scale for each group of a row."""
    if not np.isfinite(weights).all():
        raise WgError("it holds numbers that are not finite")
    groups = weights.reshape(len(weights), -1, group)
    scale = (np.abs(groups).max(axis=-1) / LARGEST).astype(np.float32)
    q = np.round(groups / np.where(scale == 0, 1, scale)[..., None])
    return {"w": q.astype(np.int8).reshape(weights.shape), "scale": scale}
