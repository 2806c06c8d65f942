"""Divisors for the frequencies of rotary positions, for texts that are longer than usual."""

from __future__ import annotations

import math

from wgcc.errors import WgError
from wgcc.from_gguf.architecture import FACTORS, Decoder, RopeScaling
from wgcc.from_gguf.block_types import dequantise
from wgcc.from_gguf.read import TensorSource
from wgcc.lazy_numpy import Array, np


def rope_factors(file: TensorSource, decoder: Decoder, scaling: RopeScaling) -> Array:
    """One number for each pair that turns, in f32."""
    pairs = decoder.rotary // 2
    if scaling.kind == "linear":
        return np.full(pairs, scaling.factor, np.float32)
    if scaling.kind == "llama3":
        return _gradual(decoder, scaling)
    tensor = file.tensors[FACTORS]
    if tensor.shape != (pairs,):
        raise WgError(f"{file.path}: `{FACTORS}` has shape {list(tensor.shape)}, not [{pairs}]")
    return dequantise(tensor.type, file.read(tensor), tensor.shape)


def _gradual(decoder: Decoder, scaling: RopeScaling) -> Array:
    """Frequencies with few turns in the original context are divided, those with many are not."""
    pairs = decoder.rotary // 2
    frequencies = decoder.theta ** (-np.arange(pairs) / pairs)
    turns = scaling.original * frequencies / (2 * math.pi)
    kept = np.clip((turns - scaling.low) / (scaling.high - scaling.low), 0, 1)
    return (1 / (kept + (1 - kept) / scaling.factor)).astype(np.float32)
