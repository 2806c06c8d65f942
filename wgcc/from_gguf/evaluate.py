"""Evaluates the model of a GGUF file in numpy, as what imports are compared with.

It knows nothing of the imported text or of packed parameters: tensors are dequantised as they are
stored, one at a time, and positions rotate as the file's own architecture rotates them.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from wgcc.from_gguf.architecture import POSITIONS, TABLE, Decoder
from wgcc.from_gguf.block_types import dequantise
from wgcc.from_gguf.read import TensorSource
from wgcc.from_gguf.rope_factors import rope_factors
from wgcc.lazy_numpy import np

# Weights that are dequantised at a time: their numbers in f64 stay in a cache, and products are too
# small for BLAS to wake threads, which wait for each other longer than they compute.
PART = 1 << 14

# Arrays of float64, or complex ones on the way.
Array: TypeAlias = Any


def scores(file: TensorSource, decoder: Decoder, ids: list[int]) -> Array:
    """Scores `[tokens, vocabulary]` for the token after each token."""
    return _Evaluation(file, decoder).scores(ids)


class _Evaluation:
    def __init__(self, file: TensorSource, decoder: Decoder) -> None:
        self._file, self._d = file, decoder
        # The bytes of the matrix that was read last.
        self._tables: dict[str, Array] = {}

    def scores(self, ids: list[int]) -> Array:
        x = self._rows(TABLE, ids)
        if self._d.scales_table:
            x = x * math.sqrt(self._d.width)
        if self._d.has_positions:
            x = x + self._rows(POSITIONS, slice(len(ids)))
        for block in range(self._d.blocks):
            name = f"blk.{block}."
            normed = self._norm(name + "attn_norm", x)
            x = x + self._attention(name, normed)
            if not self._d.is_parallel:
                normed = self._norm(name + "ffn_norm", x)
            x = x + self._feed_forward(name, normed)
        x = self._norm("output_norm", x)
        return self._product(x, TABLE) if self._d.is_tied else self._linear("output", x)

    def _attention(self, name: str, x: Array) -> Array:
        d = self._d
        sizes = [d.heads * d.head_size, d.key_heads * d.head_size, d.key_heads * d.head_size]
        if f"{name}attn_qkv.weight" in self._file.tensors:
            fused = self._linear(name + "attn_qkv", x)
            q, k, v = np.split(fused, [sizes[0], sizes[0] + sizes[1]], axis=1)
        else:
            q, k, v = (self._linear(f"{name}attn_{part}", x) for part in "qkv")
        q, k, v = (part.reshape(len(x), -1, d.head_size) for part in (q, k, v))
        if d.has_query_norm:
            q, k = self._norm(name + "attn_q_norm", q), self._norm(name + "attn_k_norm", k)
        if d.is_rotary:
            q, k = self._rotate(q), self._rotate(k)
        repeat = d.heads // d.key_heads
        k, v = np.repeat(k, repeat, axis=1), np.repeat(v, repeat, axis=1)
        weights = np.einsum("ihk,jhk->hij", q, k) / math.sqrt(d.head_size)
        weights = _softmax(np.where(self._mask(len(x)), weights, -np.inf))
        y = np.einsum("hij,jhk->ihk", weights, v).reshape(len(x), -1)
        return self._linear(name + "attn_output", y)

    def _mask(self, length: int) -> Array:
        """Which positions (columns) a position (row) attends to."""
        back = np.arange(length)[:, None] - np.arange(length)
        window = self._d.window or length
        return (back >= 0) & (back < window)

    def _rotate(self, x: Array) -> Array:
        """Turns pairs of numbers by angles that grow with the position."""
        size = self._d.rotary
        half = size // 2
        frequencies = self._d.theta ** (-np.arange(half) / half)
        if self._d.scaling:
            frequencies = frequencies / rope_factors(self._file, self._d, self._d.scaling)
        angles = np.arange(len(x))[:, None] * frequencies
        turn = np.exp(1j * angles)[:, None, :]
        if self._d.rotates_neighbours:
            turned = (x[..., 0:size:2] + 1j * x[..., 1:size:2]) * turn
            pairs = np.stack([turned.real, turned.imag], axis=-1).reshape(*x.shape[:-1], size)
        else:
            turned = (x[..., :half] + 1j * x[..., half:size]) * turn
            pairs = np.concatenate([turned.real, turned.imag], axis=-1)
        return np.concatenate([pairs, x[..., size:]], axis=-1)

    def _feed_forward(self, name: str, x: Array) -> Array:
        if not self._d.is_gated:
            return self._linear(name + "ffn_down", self._activate(self._linear(name + "ffn_up", x)))
        if f"{name}ffn_gate.weight" in self._file.tensors:
            gate, up = self._linear(name + "ffn_gate", x), self._linear(name + "ffn_up", x)
        else:
            gate, up = np.split(self._linear(name + "ffn_up", x), 2, axis=1)
        return self._linear(name + "ffn_down", self._activate(gate) * up)

    def _activate(self, x: Array) -> Array:
        if self._d.activation == "silu":
            return x / (1 + np.exp(-x))
        if self._d.activation == "relu":
            return np.maximum(x, 0)
        if self._d.activation == "gelu":
            return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def _norm(self, name: str, x: Array) -> Array:
        if self._d.norm == "LayerNorm":
            x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self._d.eps)
        return x * self._tensor(f"{name}.weight") + self._bias(name)

    def _linear(self, name: str, x: Array) -> Array:
        return self._product(x, f"{name}.weight") + self._bias(name)

    def _product(self, x: Array, name: str) -> Array:
        outputs, inputs = self._file.tensors[name].shape
        rows = max(1, PART // inputs)
        starts = range(0, outputs, rows)
        parts = [x @ self._rows(name, slice(at, at + rows)).T for at in starts]
        return np.concatenate(parts, axis=1)

    def _rows(self, name: str, rows: list[int] | slice) -> Array:
        tensor = self._file.tensors[name]
        if name not in self._tables:
            self._tables = {name: np.frombuffer(self._file.read(tensor), np.uint8)}
        data = self._tables[name].reshape(tensor.shape[0], -1)[rows]
        numbers = dequantise(tensor.type, data.tobytes(), (len(data), tensor.shape[1]))
        return numbers.astype(np.float64)

    def _bias(self, name: str) -> Array | float:
        return self._tensor(f"{name}.bias") if f"{name}.bias" in self._file.tensors else 0.0

    def _tensor(self, name: str) -> Array:
        """In float64, so that differences are those of the import."""
        tensor = self._file.tensors[name]
        return dequantise(tensor.type, self._file.read(tensor), tensor.shape).astype(np.float64)


def _softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
