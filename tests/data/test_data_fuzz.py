"""Random and damaged files: both languages read the same, and no error is unexpected."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from random_tables import random_case
from test_data_cases import CASES, EXPECTED, reading
from web_stacks import run_node
from wgcc_runtime.weights import save_arrays

COUNT = int(os.environ.get("WGCC_TABLES", "400"))
DAMAGES = 3


def test_random_tables_are_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, notes and messages, in Python and in JavaScript; WGCC_TABLES=9000 takes a minute."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CASES / "models", "models")
    asked, wanted = [], []
    for seed in range(COUNT):
        name, data, model, options = random_case(seed)
        Path(name).write_bytes(data)
        asked.append({"source": name, "model": f"models/{model}.json", "options": options})
        form = json.loads(Path(f"models/{model}.json").read_text(encoding="utf-8"))
        wanted.append(reading(name, form, options))
    assert sum("error" not in found for found in wanted) > COUNT / 5
    seen = run_node("data_cases.mjs", str(tmp_path), data=asked)
    for question, python, javascript in zip(asked, wanted, seen, strict=True):
        assert json.loads(json.dumps(python)) == javascript, question


def test_damaged_files_are_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A WgccError with the code `data`, or a reading, whatever the bytes are."""
    monkeypatch.chdir(tmp_path)
    np.savez("arrays.npz", x=np.zeros((4, 2), np.float32), y=np.zeros(4, np.int32))
    np.save("x.npy", np.zeros((4, 2), np.float32))
    save_arrays("arrays.safetensors", {"x": np.zeros((4, 2)), "y": np.zeros(4, np.int32)})
    form = json.loads((CASES / "models" / "class3.json").read_text(encoding="utf-8"))
    pictures = json.loads((CASES / "models" / "pictures.json").read_text(encoding="utf-8"))
    sources = [json.loads(path.read_text(encoding="utf-8"))["source"] for path in EXPECTED]
    files = [CASES / source for source in sources if (CASES / source).is_file()]
    files += [Path("arrays.npz"), Path("x.npy"), Path("arrays.safetensors")]
    files.append(CASES / "picture_folders" / "cat" / "a.png")
    draw = random.Random(0)
    for file in files:
        for number in range(DAMAGES):
            damaged = Path(f"damaged{number}{file.suffix}")
            damaged.write_bytes(damage(draw, file.read_bytes()))
            reading(str(damaged), pictures if file.suffix == ".png" else form, {})


def damage(draw: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(draw.choice((1, 2, 8))):
        at = draw.randrange(len(found) + 1)
        found[at : at + draw.choice((0, 1, 4))] = draw.randbytes(draw.choice((0, 1, 3)))
    return bytes(found[: draw.choice((len(found), len(found), len(found) // 2))])
