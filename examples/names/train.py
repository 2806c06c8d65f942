"""Trains the model for some seconds, then makes names and reports how many follow the rules.

wgcc build examples/names/model.wg -o bundle
python examples/names/train.py bundle
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from language import is_name
from safetensors.numpy import load_file

import wgcc_runtime as wg

FOLDER = Path(__file__).parent
STEPS = 500
LONGEST = 14
# Of words of random letters, about one in a thousand follows the rules.
GOOD_ENOUGH = 0.7


def main(bundle: str) -> int:
    train, test = (load_file(FOLDER / f"{name}.safetensors") for name in ("train", "test"))
    model = wg.load(bundle)
    print(f"on {model.device_name}: {len(train['letters'])} letters")
    model.fit(train, steps=STEPS, every=STEPS // 20, eval=test, callbacks=[show], log="loss.jsonl")
    names = [name for _ in range(8) for name in spell(model, temperature=0.8)]
    print(" ".join(names[:16]))
    valid = sum(map(is_name, names)) / len(names)
    known = known_names(train["letters"])
    new = sum(name not in known for name in names) / len(names)
    print(f"{valid:.0%} of {len(names)} names follow the rules, {new:.0%} were not in the data")
    return 0 if valid >= GOOD_ENOUGH else 1


def show(report: wg.Report) -> None:
    print(f"step {report.step:5}  loss {report.loss:.4f}  test loss {report.eval['loss']:.4f}")


def spell(model: wg.Model, temperature: float) -> list[str]:
    model.begin()
    columns = [model.spell(temperature=temperature)["letters"] for _ in range(LONGEST)]
    return [text(row) for row in np.stack(columns, axis=1)]


def text(ids: np.ndarray) -> str:
    """Letters up to the first 0."""
    end = next((at for at, number in enumerate(ids) if number == 0), len(ids))
    return "".join(chr(ord("a") + int(number) - 1) for number in ids[:end])


def known_names(letters: np.ndarray) -> set[str]:
    """The names of the data: a row that ends with 0 holds the last letters of one."""
    names, current = set(), ""
    for row in letters:
        if row[-1] == 0:
            names.add(current)
            current = ""
        else:
            current += chr(ord("a") + int(row[-1]) - 1)
    return names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "bundle"))
