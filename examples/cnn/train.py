"""Trains the convolutional classifier of digits, and shows which pixels matter.

wgcc build examples/cnn/model.wg -o bundle
python examples/cnn/train.py bundle
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import wgcc_runtime as wg

# The images are those of the example without convolutions.
DATA = Path(__file__).parent.parent / "digits"
STEPS = 200
GOOD_ENOUGH = 0.97
INK = " .:+#"


def main(bundle: str) -> int:
    train, test = (load_file(DATA / f"{name}.safetensors") for name in ("train", "test"))
    model = wg.load(bundle)
    print(f"on {model.device_name}: {len(train['label'])} images, {len(test['label'])} for testing")
    history = model.fit(
        train, steps=STEPS, every=STEPS // 40, eval=test, eval_every=STEPS // 10,
        callbacks=[show], log="loss.jsonl",
    )  # fmt: skip
    image = test["image"][:1]
    guess = int(model.predict(image=image)["probs"].argmax())
    print(
        f"this is a {test['label'][0]}, the model says {guess}; on the right, which pixels matter"
    )
    draw(image[0] / 16, model.looks(image=image.astype(np.float32))["map"])
    return 0 if history.reports[-1].eval["acc"] >= GOOD_ENOUGH else 1


def show(report: wg.Report) -> None:
    if report.eval:
        accuracy = report.eval["acc"]
        bar = "█" * round(40 * accuracy)
        print(f"step {report.step:4}  loss {report.loss:.4f}  test accuracy {accuracy:.3f} {bar}")


def draw(*pictures: np.ndarray) -> None:
    """Pictures side by side, each scaled to its darkest pixel."""
    shades = [np.round((len(INK) - 1) * picture / picture.max()) for picture in pictures]
    for rows in zip(*shades, strict=True):
        print("    ".join("".join(2 * INK[int(shade)] for shade in row) for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "bundle"))
