"""The texts that are damaged: every program of the repository, and random models."""

from __future__ import annotations

import functools
import random
import re

from adapters import ROOT
from fuzzing import mutate
from fuzzing.derive import derive
from random_models.generate import generate
from wgcc.files import data_dir

# Long texts take long to check and find little more.
LONGEST = 6_000
RANDOM_MODELS = 60
ITEM = re.compile(r"^(?=(?:layer|model|fn|test|dim|const|import)\b)", re.MULTILINE)


@functools.cache
def programs() -> list[str]:
    found = [
        *sorted((ROOT / "examples").rglob("*.wg")),
        *sorted((ROOT / "tests" / "filetests").rglob("*.wg")),
        *sorted((ROOT / "tests" / "golden").glob("*.wg")),
        *sorted((ROOT / "tests" / "cases").glob("*.wg")),
        data_dir("grammar") / "std" / "nn.wg",
    ]
    texts = [path.read_bytes().decode("utf-8", "surrogateescape") for path in found]
    texts += [generate(seed).text() for seed in range(RANDOM_MODELS)]
    return [text for text in texts if len(text) <= LONGEST]


@functools.cache
def items() -> list[str]:
    """The layers, models, functions and other items of all programs, one by one."""
    parts = [part for text in programs() for part in ITEM.split(text)]
    return sorted({part for part in parts if part.strip()})


def make_text(seed: int) -> str:
    """The text of a seed, the same on every run."""
    chance = random.Random(f"wgcc {seed}")
    kind = seed % 8
    if kind == 0:
        return derive(chance)
    # Single items are fast to check, so there can be many; whole programs reach later stages.
    text = chance.choice(programs() if seed % 3 == 0 else items())
    if kind == 1:
        text = mutate.words(derive(chance), programs(), chance)
    elif kind == 2:
        text = mutate.raw_bytes(text, programs(), chance)
    elif kind == 3:
        text = mutate.lines(text, programs(), chance)
    elif kind == 4:
        text = mutate.words(text, programs(), chance)
    else:
        text = mutate.gently(text, programs(), chance)
    return text
