"""The twin of a bundle: all entries as one WebAssembly module, and where its memory holds what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Twin:
    """`buffers`: the byte of linear memory where each buffer of the schedule starts.

    They end at `bytes`; from there each thread has `scratch` bytes. `memory_flag` is the place in
    `code` of the byte that says whether threads share the memory.
    """

    code: bytes
    memory_flag: int
    buffers: Mapping[str, int]
    bytes: int
    scratch: int
