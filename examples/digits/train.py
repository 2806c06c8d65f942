"""Trains the digit classifier from Python and reports its accuracy on images it has not seen.

wgcc build examples/digits/model.wg -o bundle
python examples/digits/train.py bundle
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import wgcc_runtime as wg

FOLDER = Path(__file__).parent
STEPS = 500
GOOD_ENOUGH = 0.95
INK = " .:+#"


def main(bundle: str) -> int:
    train, test = (load_file(FOLDER / f"{name}.safetensors") for name in ("train", "test"))
    model = wg.load(bundle)
    print(f"on {model.device_name}: {len(train['label'])} images, {len(test['label'])} for testing")
    history = model.fit(train, steps=STEPS, every=STEPS // 10, eval=test, callbacks=[show])

    probabilities = model.predict(image=test["image"][:1])["probs"]
    draw(test["image"][0])
    guess = int(probabilities.argmax())
    print(f"this is a {test['label'][0]}; the model says {guess} ({probabilities[guess]:.1%})")
    return 0 if history.reports[-1].eval["acc"] >= GOOD_ENOUGH else 1


def show(report: wg.Report) -> None:
    accuracy = report.eval["acc"]
    bar = "█" * round(40 * accuracy)
    print(f"step {report.step:4}  loss {report.loss:.4f}  test accuracy {accuracy:.3f} {bar}")


def draw(image: np.ndarray) -> None:
    for row in image:
        print("  " + "".join(2 * INK[int(pixel) // 4] for pixel in row))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "bundle"))
