"""Fine-tunes the GPT of examples/chargpt on sonnets with LoRA, then merges the corrections.

wgcc build examples/lora/model.wg --weights examples/lora/base.safetensors -o bundle
python examples/lora/train.py bundle
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

import wgcc_runtime as wg

FOLDER = Path(__file__).parent
STEPS = 100
# Each of the two is within 1e-5 of exact arithmetic, and merging rounds the weights.
CLOSE = 3e-5
PROMPT = "Shall I compare thee "


def main(bundle: str, steps: int = STEPS) -> int:
    train, test = (load_file(FOLDER / f"{name}.safetensors") for name in ("train", "test"))
    model = wg.load(bundle)
    before, first = base_of(model), float(model.eval(**test)["loss"])
    print(f"on {model.device_name}: test loss {first:.4f} before the first sonnet")
    history = model.fit(
        train, steps=steps, every=5, eval=test, callbacks=[show], log="loss.jsonl",
        checkpoint="corrections.safetensors",
    )  # fmt: skip
    changed = sum(not np.array_equal(base_of(model)[name], w) for name, w in before.items())
    print(f"{changed} of {len(before)} arrays of the base changed in training")

    ids = test["letters"][:1, :-1].astype(np.int32)
    corrected = model.score(ids=ids)["scores"]
    model.merge()
    merged = model.score(ids=ids)["scores"]
    error = float((np.abs(merged - corrected) / (1 + np.abs(corrected))).max())
    print(f"merged or not: scores differ by {error:.1e}")
    # Under their original names: weights for the plain model of examples/chargpt.
    save_file(
        {name.removeprefix("base."): w for name, w in base_of(model).items()}, "merged.safetensors"
    )
    model.forget()
    print(PROMPT + "".join(wg.write(model, PROMPT, 200, temperature=0.7)))
    return 0 if history.reports[-1].eval["loss"] < first and not changed and error < CLOSE else 1


def base_of(model: wg.Model) -> dict[str, np.ndarray]:
    """The parameters of the GPT, without the corrections."""
    return {name: w for name, w in model.params().items() if ".lora_" not in name}


def show(report: wg.Report) -> None:
    print(f"step {report.step:4}  loss {report.loss:.4f}  test loss {report.eval['loss']:.4f}")


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:2] or ["bundle"]), *map(int, sys.argv[2:3])))
