"""Trains the GPT on passages of Genesis, compares scores with and without cache, and writes.

wgcc build examples/chargpt/model.wg -o bundle
python examples/chargpt/train.py bundle
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import wgcc_runtime as wg

FOLDER = Path(__file__).parent
STEPS = 400
# The loss of guessing by frequency alone is 3.0.
GOOD_ENOUGH = 1.6


def main(bundle: str, steps: int = STEPS) -> int:
    train, test = (load_file(FOLDER / f"{name}.safetensors") for name in ("train", "test"))
    model = wg.load(bundle)
    print(f"on {model.device_name}: {len(train['letters'])} stretches of text")
    history = model.fit(
        train, steps=steps, every=20, eval=test, callbacks=[show], log="loss.jsonl",
        checkpoint="trained.safetensors",
    )  # fmt: skip
    print(
        f"with the cache or without: scores differ by {difference(model, test['letters'][0]):.1e}"
    )
    model.forget()
    prompt = "And God said, "
    print(prompt + "".join(wg.write(model, prompt, 300, temperature=0.7)))
    return 0 if steps < STEPS or history.reports[-1].eval["loss"] < GOOD_ENOUGH else 1


def show(report: wg.Report) -> None:
    print(f"step {report.step:4}  loss {report.loss:.4f}  test loss {report.eval['loss']:.4f}")


def difference(model: wg.Model, letters: np.ndarray) -> float:
    """The largest difference between scores of a sequence at once and of its letters one by one."""
    ids = letters[:-1].astype(np.int32)
    at_once = model.score(ids=ids[None])["scores"][0]
    model.forget()
    one_by_one = np.stack([model.read(id=letter)["scores"] for letter in ids])
    return float((np.abs(one_by_one - at_once) / (1 + np.abs(at_once))).max())


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:2] or ["bundle"]), *map(int, sys.argv[2:3])))
