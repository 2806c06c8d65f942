"""Bundles with a kernel that spoils a gradient, and tensors of a model that NaN can get into."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from wgcc_runtime import Model
from wgcc_runtime.bundle_files import code_digest

BAD = (np.nan, np.inf, -np.inf)
POISON = """
@group(0) @binding(0) var<storage, read_write> gradient: array<u32>;

@compute @workgroup_size(1)
fn main() {
  gradient[0] = WORDu;
}
"""


def floats(model: Model) -> list[Any]:
    written = model.entry("train").writes
    return [t for n, t in model.plan.persistent().items() if t.is_float and n in written]


def poisoned(bundle: Path, folder: Path, name: str, word: int) -> Path:
    """The bundle with a kernel that spoils the gradient of a parameter just before its update."""
    plan = json.loads((bundle / "plan.json").read_text())
    text = POISON.replace("WORD", str(word))
    kernel = {
        "name": "poison", "file": "poison.wgsl", "entry": "main", "workgroup": [1, 1, 1],
        "access": ["read_write"], "sha256": code_digest(text),
    }  # fmt: skip
    grads = next(i for i, b in enumerate(plan["buffers"]) if b["role"] == "grads")
    place = {"buffer": grads, "offset": plan["tensors"][name]["offset"], "size": 4}
    dispatches = plan["entries"]["train"]["dispatches"]
    at = next(
        i
        for i, d in enumerate(dispatches)
        if plan["kernels"][d["kernel"]]["name"].startswith("adam")
    )
    dispatches.insert(at, {
        "kernel": len(plan["kernels"]), "bindings": [place], "grid": [1, 1, 1],
        "at": "here", "label": f"d.{name}",
    })  # fmt: skip
    plan["kernels"].append(kernel)
    shutil.copytree(bundle, folder)
    (folder / "kernels" / "poison.wgsl").write_text(text)
    plan.pop("sha256", None)
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder
