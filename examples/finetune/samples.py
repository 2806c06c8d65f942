"""Files of this repository that the example learns from, and others that it is tested with.

A file becomes what magika reads of it: the first and the last 1,024 bytes, without blanks around
them; 256 stands for "no byte".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
# What magika reads: config.min.json of its wheel.
PIECE, BLOCK, PADDING = 1024, 4096, 256

# Kinds that magika does not know come after those it knows, in this order. The last one is for a
# kind of the user's own.
NEW_KINDS = ("wg", "wgsl")
OWN_KIND = "mine"

KNOWN = "examples/finetune/known"
LEARNED: Mapping[str, tuple[str, ...]] = {
    "wg": (
        "examples/cnn/model.wg",
        "examples/digits/model.wg",
        "examples/lora/base.wg",
        "examples/names/model.wg",
        "examples/playground/model.wg",
        "examples/starters/classes/model.wg",
        "grammar/std/losses.wg",
        "grammar/std/recurrent.wg",
    ),
    "wgsl": (
        "tests/golden/attention/kernels/attention.wgsl",
        "tests/golden/memory/kernels/window_update.wgsl",
        "tests/golden/loops/kernels/cell_gates.wgsl",
        "tests/golden/regression/kernels/adam_update.wgsl",
        "tests/golden/regression/kernels/tanh.wgsl",
        "wgcc/ops/wgsl/asin.wgsl",
        "wgcc/ops/wgsl/erf.wgsl",
        "wgcc/ops/wgsl/threefry.wgsl",
    ),
    # So that it goes on knowing these, and others as well.
    "c": (f"{KNOWN}/list.c",),
    "css": ("runtime_js/page/page.css",),
    "html": ("examples/sin/page.html",),
    "javascript": ("examples/sin/page.js",),
    "lisp": (f"{KNOWN}/primes.lisp",),
    "markdown": ("examples/digits/README.md",),
    "python": ("examples/pages.py",),
    "rust": (f"{KNOWN}/words.rs",),
    "swift": (f"{KNOWN}/queue.swift",),
    "typescript": ("runtime_js/bundle/index.d.ts",),
    "zig": (f"{KNOWN}/sum.zig",),
}
HELD_OUT: Mapping[str, tuple[str, ...]] = {
    "wg": (
        "examples/chargpt/model.wg",
        "examples/gqa_decode/model.wg",
        "examples/mamba/mamba2.wg",
        "examples/pictures/model.wg",
        "examples/sin/model.wg",
        "examples/starters/images/model.wg",
        "examples/starters/regression/model.wg",
        "grammar/std/nn.wg",
    ),
    "wgsl": (
        "tests/golden/attention/kernels/d_q.wgsl",
        "tests/golden/halves/kernels/d_l1_add.wgsl",
        "tests/golden/lookups/kernels/argsort.wgsl",
        "tests/golden/loops/kernels/max.wgsl",
        "tests/golden/tokens/kernels/argmax_min.wgsl",
        "wgcc/ops/wgsl/pow.wgsl",
        "wgcc/ops/wgsl/tanh.wgsl",
        "wgcc/ops/wgsl/turn.wgsl",
    ),
    "css": ("runtime_js/page/data_panel.css",),
    "csv": ("examples/starters/classes/iris.csv",),
    "go": (f"{KNOWN}/server.go",),
    "html": ("examples/digits/page.html",),
    "java": (f"{KNOWN}/Account.java",),
    "javascript": ("examples/digits/page.js",),
    "markdown": ("examples/pictures/README.md",),
    "png": ("examples/pages.png",),
    "python": ("examples/digits/train.py",),
    "rust": (f"{KNOWN}/grid.rs",),
    "shell": (f"{KNOWN}/backup.sh",),
    "sql": (f"{KNOWN}/books.sql",),
    "swift": (f"{KNOWN}/shapes.swift",),
    "svg": ("examples/cnn/curve.svg",),
    "toml": ("pyproject.toml",),
    "zig": (f"{KNOWN}/stack.zig",),
}


@dataclass(frozen=True)
class Sample:
    """A file, and the kind that it is of."""

    path: str
    kind: str

    def features(self) -> np.ndarray:
        return features((ROOT / self.path).read_bytes())


def samples(files: Mapping[str, Iterable[str]]) -> list[Sample]:
    return [Sample(path, kind) for kind, paths in files.items() for path in paths]


def features(data: bytes) -> np.ndarray:
    """What magika reads of a file, as `Magika._extract_features_from_seekable` does."""
    begin = data[:BLOCK].lstrip()[:PIECE]
    end = data[-BLOCK:].rstrip()[-PIECE:]
    found = np.full(2 * PIECE, PADDING, np.int32)
    found[: len(begin)] = np.frombuffer(begin, np.uint8)
    found[2 * PIECE - len(end) :] = np.frombuffer(end, np.uint8)
    return found


def arrays(found: Iterable[Sample], kinds: list[str]) -> dict[str, np.ndarray]:
    """As `entry train` takes them: `kinds` are all that the model knows, by their numbers."""
    held = list(found)
    return {
        "bytes": np.stack([sample.features() for sample in held]),
        "target": np.array([kinds.index(sample.kind) for sample in held], np.int32),
    }
