"""Rounds the weights of the trained GPT to bytes, saves them, and measures what that costs.

wgcc build examples/chargpt/model.wg -o bundle
wgcc build examples/chargpt/quantised.wg -o bytes
python examples/chargpt/quantise.py bundle bytes trained.safetensors
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

import wgcc_runtime as wg

FOLDER = Path(__file__).parent
# How much loss on unseen text the rounding may cost.
CLOSE = 0.02
PROMPT = "And God said, "


def main(bundle: str, quantised: str, trained: str, out: str = "bytes.safetensors") -> int:
    full = wg.load(bundle, weights=trained)
    weights = {f"base.{name}": array for name, array in full.params().items()}
    save_file(rounded(weights, wg.load_plan(quantised)), out)
    small = wg.load(quantised, weights=out)
    before, after = measure("f32", full), measure("i8", small)
    print(PROMPT + "".join(wg.write(small, PROMPT, 200, temperature=0.7)))
    return 0 if after < before + CLOSE else 1


def rounded(weights: dict[str, np.ndarray], plan: Any) -> dict[str, np.ndarray]:
    """Those that the model takes as i8 are `w * scale`, with a scale for each column."""
    found = dict(weights)
    for name, tensor in plan.tensors.items():
        if tensor.role == "param" and tensor.dtype == "i8":
            scale = np.abs(weights[name]).max(axis=0) / 127
            found[name] = np.round(weights[name] / scale).astype(np.int8)
            found[f"{name.removesuffix('w')}scale"] = scale
    return found


def measure(kind: str, model: wg.Model) -> float:
    """The loss on the test set, printed with the accuracy of guessing the next letter."""
    letters = load_file(FOLDER / "test.safetensors")["letters"].astype(np.int32)
    scores = model.score(ids=letters[:, :-1])["scores"]
    wanted = letters[:, 1:, None]
    chosen = np.take_along_axis(scores, wanted, axis=-1)
    loss = float(np.mean(np.log(np.exp(scores - chosen).sum(axis=-1))))
    right = float(np.mean(scores.argmax(axis=-1)[..., None] == wanted))
    params = sum(t.bytes for t in model.plan.tensors.values() if t.role == "param")
    print(f"{kind:>3}: {params:>7,} bytes  test loss {loss:.4f}  next letter {right:.2%} right")
    return loss


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
