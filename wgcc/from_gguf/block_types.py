"""The number formats of GGUF: blocks of 32 or 256 weights, and what their bytes mean.

`q` are small integers, `d` and `m` floats of two bytes. K formats have scales of 6 bits for groups
within a block. Every function takes blocks as bytes `[blocks, bytes]` and gives float32 numbers
`[blocks, elements]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from wgcc.lazy_numpy import Array, np

# Bytes of blocks, and the numbers that they stand for.
Bytes: TypeAlias = Any
Floats: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class BlockType:
    """`bytes` of a block that holds `elements` weights."""

    name: str
    elements: int
    bytes: int
    dequantise: Callable[[Bytes], Floats]


def halves_at(blocks: Bytes, at: int, count: int = 1) -> Floats:
    """Floats of two bytes, beginning at a byte of each block."""
    part = np.ascontiguousarray(blocks[:, at : at + 2 * count])
    return part.view("<f2").astype(np.float32)


def nibbles(packed: Bytes) -> Bytes:
    """The low half of every byte, then the high half of every byte: `[.., n]` → `[.., 2n]`."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _f32(blocks: Bytes) -> Floats:
    return np.ascontiguousarray(blocks).view("<f4").astype(np.float32)


def _bf16(blocks: Bytes) -> Floats:
    words = np.ascontiguousarray(blocks).view("<u2").astype(np.uint32) << 16
    return words.view(np.float32)


def _signed_fours(blocks: Bytes) -> Bytes:
    """The integers of Q4_0, from -8 to 7."""
    return nibbles(blocks[:, 2:]).astype(np.int8) - 8


def _q4_0(blocks: Bytes) -> Floats:
    """d (q - 8)"""
    return halves_at(blocks, 0) * _signed_fours(blocks)


def _q4_1(blocks: Bytes) -> Floats:
    """d q + m"""
    return halves_at(blocks, 0) * nibbles(blocks[:, 4:]) + halves_at(blocks, 2)


def _fifth_bits(blocks: Bytes, at: int) -> Bytes:
    """The upper bits of 32 integers of five bits, as 0 or 16."""
    bits = np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little")
    return bits << 4


def _signed_fives(blocks: Bytes) -> Bytes:
    """The integers of Q5_0, from -16 to 15."""
    q = nibbles(blocks[:, 6:]) | _fifth_bits(blocks, 2)
    return q.astype(np.int8) - 16


def _q5_0(blocks: Bytes) -> Floats:
    """d (q - 16)"""
    return halves_at(blocks, 0) * _signed_fives(blocks)


def _q5_1(blocks: Bytes) -> Floats:
    """d q + m"""
    q = nibbles(blocks[:, 8:]) | _fifth_bits(blocks, 4)
    return halves_at(blocks, 0) * q + halves_at(blocks, 2)


def _q8_0(blocks: Bytes) -> Floats:
    """d q"""
    return halves_at(blocks, 0) * _bytes(blocks)


def _bytes(blocks: Bytes) -> Bytes:
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8)


def group_scales(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Eight scales and eight minima of 6 bits, in 12 bytes.

    The first four of each are the low 6 bits of bytes 0-3 and 4-7; the others have their low 4 bits
    in bytes 8-11 and their high 2 bits above those of the first.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    minima = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=1)
    return scales, minima


def k_groups(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scale and low of the eight groups of 32 in a block of Q4_K or Q5_K: w = scale q + low."""
    scales, minima = group_scales(blocks[:, 4:16])
    return halves_at(blocks, 0) * scales, -halves_at(blocks, 2) * minima


def k_nibbles(blocks: Bytes) -> Bytes:
    """32 bytes hold the low, then the high bits of two groups: `[blocks, 8, 32]`."""
    pairs = blocks[:, -128:].reshape(len(blocks), 4, 1, 32)
    return np.concatenate([pairs & 15, pairs >> 4], axis=2).reshape(len(blocks), 8, 32)


def _q4_k(blocks: Bytes) -> Floats:
    scale, low = k_groups(blocks)
    weights = scale[:, :, None] * k_nibbles(blocks) + low[:, :, None]
    return weights.reshape(len(blocks), 256)


def _q5_k(blocks: Bytes) -> Floats:
    """As Q4_K, with the fifth bits of group j in bit j of 32 bytes."""
    scale, low = k_groups(blocks)
    bits = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q = k_nibbles(blocks) | bits << 4
    return (scale[:, :, None] * q + low[:, :, None]).reshape(len(blocks), 256)


def _six_bits(blocks: Bytes) -> Bytes:
    """The integers of Q6_K, from -32 to 31: four low bits in 128 bytes, two high ones in 64."""
    low = blocks[:, :128].reshape(-1, 2, 1, 64) >> np.array([[0], [4]], np.uint8) & 15
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([[0], [2], [4], [6]], np.uint8) & 3
    q = low.reshape(-1, 2, 4, 32) | high << 4
    return (q.astype(np.int8) - 32).reshape(len(blocks), 256)


def _q6_k(blocks: Bytes) -> Floats:
    """d s (q - 32), with a scale s of 8 bits for 16 weights"""
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    groups = _six_bits(blocks).reshape(-1, 16, 16)
    weights = (halves_at(blocks, 208) * scales)[:, :, None] * groups
    return weights.reshape(len(blocks), 256)


def _q2_k(blocks: Bytes) -> Floats:
    """d s q - dm m, with s and m of 4 bits for 16 weights of 2 bits"""
    scales = blocks[:, :16].astype(np.float32)
    scale, low = np.mod(scales, 16) * halves_at(blocks, 80), np.floor(scales / 16)
    shifts = np.array([[0], [2], [4], [6]], np.uint8)
    q = (blocks[:, 16:80].reshape(-1, 2, 1, 32) >> shifts & 3).reshape(-1, 16, 16)
    weights = scale[:, :, None] * q - (low * halves_at(blocks, 82))[:, :, None]
    return weights.reshape(len(blocks), 256)


def _q3_k(blocks: Bytes) -> Floats:
    """d (s - 32) (q - 4), with s of 6 bits for 16 weights of 3 bits"""
    packed = blocks[:, 96:108]
    low = np.concatenate([packed[:, :8] & 15, packed[:, :8] >> 4], axis=1)
    high = packed[:, None, 8:12] >> np.array([[0], [2], [4], [6]], np.uint8) & 3
    scales = (low | high.reshape(-1, 16) << 4).astype(np.float32) - 32
    shifts = np.array([[0], [2], [4], [6]], np.uint8)
    q = (blocks[:, 32:96].reshape(-1, 2, 1, 32) >> shifts & 3).reshape(-1, 8, 32)
    third = blocks[:, None, :32] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    signed = (q + 4 * third).astype(np.float32) - 4
    weights = (scales * halves_at(blocks, 108))[:, :, None] * signed.reshape(-1, 16, 16)
    return weights.reshape(len(blocks), 256)


F32, F16, BF16 = "F32", "F16", "BF16"
Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q6_K = "Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q6_K"
# The integers of formats that have a scale and no offset.
SMALL_INTEGERS: dict[str, Callable[[Bytes], Bytes]] = {
    Q4_0: _signed_fours,
    Q5_0: _signed_fives,
    Q8_0: _bytes,
    Q6_K: _six_bits,
}
# By the number that a file has for it.
BLOCK_TYPES: dict[int, BlockType] = {
    0: BlockType(F32, 1, 4, _f32),
    1: BlockType(F16, 1, 2, lambda blocks: halves_at(blocks, 0)),
    2: BlockType(Q4_0, 32, 18, _q4_0),
    3: BlockType(Q4_1, 32, 20, _q4_1),
    6: BlockType(Q5_0, 32, 22, _q5_0),
    7: BlockType("Q5_1", 32, 24, _q5_1),
    8: BlockType(Q8_0, 32, 34, _q8_0),
    10: BlockType("Q2_K", 256, 84, _q2_k),
    11: BlockType("Q3_K", 256, 110, _q3_k),
    12: BlockType(Q4_K, 256, 144, _q4_k),
    13: BlockType("Q5_K", 256, 176, _q5_k),
    14: BlockType(Q6_K, 256, 210, _q6_k),
    30: BlockType(BF16, 1, 2, _bf16),
}


def dequantise(type_: BlockType, data: bytes, shape: tuple[int, ...]) -> Array:
    """A tensor as float32. A damaged file may have scales that are not finite."""
    blocks = np.frombuffer(data, np.uint8).reshape(-1, type_.bytes)
    with np.errstate(all="ignore"):
        numbers: Array = type_.dequantise(blocks).reshape(shape)
    return numbers
