"""`wgcc import MODEL.gguf`: every format and architecture, against the `gguf` package and numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from tokenizers import Tokenizer

from gguf_files import write_gguf
from wgcc.cli import main
from wgcc.errors import WgError
from wgcc.from_gguf.architecture import SUPPORTED, describe
from wgcc.from_gguf.block_types import BLOCK_TYPES, dequantise
from wgcc.from_gguf.folder import import_model
from wgcc.from_gguf.pack import (
    EIGHT_BITS,
    BlockRows,
    matrix_layer,
    pack_matrix,
    pack_table,
    table_layer,
)
from wgcc.from_gguf.read import GgufFile
from wgcc.from_gguf.tokenizer import tokenizer_json
from wgcc.from_gguf.weights import Weights
from wgcc.tokens.token_file import Unusable
from wgcc_runtime import generate, load

# Scores are sums of f32 products through two blocks, against f64.
NEAR = 3e-6


@pytest.mark.parametrize("number", BLOCK_TYPES)
def test_every_block_type_is_read_as_by_the_package(number: int) -> None:
    type_ = BLOCK_TYPES[number]
    data = np.random.default_rng(number).integers(0, 256, (50, type_.bytes), dtype=np.uint8)
    numbers = dequantise(type_, data.tobytes(), (50, type_.elements))
    with np.errstate(all="ignore"):
        expected = quants.dequantize(data, GGMLQuantizationType(number))
    assert np.array_equal(numbers, expected, equal_nan=True)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q8_0", "Q6_K"])
def test_packed_parameters_hold_the_very_numbers_of_the_file(name: str) -> None:
    type_ = next(type_ for type_ in BLOCK_TYPES.values() if type_.name == name)
    data = np.random.default_rng(1).integers(0, 200, (6, 512 // type_.elements * type_.bytes))
    rows = BlockRows(type_, data.astype(np.uint8))
    layer = matrix_layer([type_])
    with np.errstate(all="ignore"):
        assert np.array_equal(_unpack(pack_matrix(rows, layer)).T, rows.numbers(), equal_nan=True)
        if name in EIGHT_BITS:
            table = {key: part.T for key, part in pack_table(rows, table_layer(type_)).items()}
            assert np.array_equal(_unpack(table).T, rows.numbers(), equal_nan=True)


def _unpack(parts: dict[str, Any]) -> Any:
    """As `unpack4` and `unpack8` of the language do."""
    scale = np.repeat(parts["scale"], 512 // len(parts["scale"]), axis=0)
    if "low" not in parts:
        return parts["w"] * scale
    groups = parts["w"].reshape(-1, 16, 6)
    q = np.concatenate([groups & 15, groups >> 4], axis=1).reshape(512, 6)
    return q * scale + np.repeat(parts["low"], 32, axis=0)


@pytest.mark.parametrize("architecture", SUPPORTED)
def test_every_architecture_gives_the_scores_of_its_file(architecture: str, tmp_path: Path) -> None:
    sizes = {"key_heads": 4} if architecture in ("gpt2", "gemma", "phi2") else {}
    if architecture in ("gemma", "qwen3"):
        sizes["head_size"] = 32
    types = {"default": "Q4_0" if architecture == "qwen2" else "Q8_0"}
    path = write_gguf(tmp_path / "m.gguf", architecture, types, **sizes)
    imported = import_model(path, {"T": 16, "S": 24, "C": 4})
    assert imported.difference is not None and imported.difference < NEAR
    assert imported.notes == []


def test_tokens_read_one_by_one_give_the_scores_of_the_whole(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", "llama", {"default": "Q4_1", "token_embd": "Q8_0"})
    assert main_code("import", path, "-o", tmp_path / "out", "--set", "T=12", "--set", "C=4") == 0
    ids = np.arange(12, dtype=np.int32)[None] * 5
    with load(tmp_path / "out" / "bundle", device="wasm") as model:
        whole = model.score(ids)["scores"][0]
        for first in (0, 4):
            scores = model.prefill(ids[0, first : first + 4])["scores"]
            assert np.allclose(scores, whole[first + 3], atol=1e-5)
        for position in range(8, 12):
            scores = model.decode(ids[0, position : position + 1])["scores"]
            assert np.allclose(scores, whole[position], atol=1e-5)


def test_mixed_and_other_formats_are_rounded_with_a_word(tmp_path: Path) -> None:
    types = {"default": "Q4_K", "attn_v": "Q6_K", "ffn_down": "Q5_K", "token_embd": "Q6_K"}
    path = write_gguf(tmp_path / "m.gguf", "llama", types, width=256, inner=256, tied=False)
    imported = import_model(path, {"T": 16, "S": 16})
    assert imported.notes == ["ffn_down.weight: Q5_K is rounded to 8 bits"]
    text = bytes(imported.files["model.wg"]).decode()
    assert "wq: Q4Linear[D, H * K]" in text and "Q8Linear[D, KH * K](group = 16)" in text


def test_the_vocabulary_is_that_of_the_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main_code("import", write_gguf(tmp_path / "m.gguf"), "-o", out, "--no-compare") == 0
    theirs = Tokenizer.from_file(str(out / "tokenizer.json"))
    text = "the quick brown fox, 123 häuser\n<|end|> ok"
    with load(out / "bundle", device="wasm") as model:
        ids = model.tokens.encode(text)
        assert list(ids) == theirs.encode(text).ids
        assert model.tokens.decode(ids) == theirs.decode(list(ids))
        assert "".join(generate(model, "the ", steps=5, temperature=0.0))
    assert "message.content" in (out / "chat_template.txt").read_text()


def main_code(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_cut_off_files_are_refused(tmp_path: Path) -> None:
    data = write_gguf(tmp_path / "m.gguf").read_bytes()
    damaged = tmp_path / "d.gguf"
    for length in [0, 3, 4, 8, 15, 24, 100, 1000, 5000, len(data) // 2, len(data) - 1]:
        damaged.write_bytes(data[:length])
        with pytest.raises(WgError, match=r"cut off|no GGUF|damaged"):
            GgufFile(damaged)


def test_damaged_headers_are_refused_or_read(tmp_path: Path) -> None:
    """No other exception, and no memory beyond the file's, whatever bytes change."""
    data = write_gguf(tmp_path / "m.gguf").read_bytes()
    rng, damaged = np.random.default_rng(3), tmp_path / "d.gguf"
    for _ in range(300):
        changed = bytearray(data)
        for place in rng.integers(0, 12_000, rng.integers(1, 6)):
            changed[place] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(256)]))
        damaged.write_bytes(changed)
        try:
            with GgufFile(damaged) as file:
                weights = Weights(file, describe(file))
                assert all(array.size for _, array in weights.checked_parameters())
                tokenizer_json(file.metadata)
        except (WgError, Unusable) as error:
            assert str(error)


@pytest.mark.parametrize(
    ("architecture", "text"),
    [("mamba", "architecture `mamba`"), ("gemma2", "architecture `gemma2`")],
)
def test_unknown_architectures_are_refused_by_name(
    architecture: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_gguf(tmp_path / "m.gguf", architecture)
    assert main_code("import", path, "-o", tmp_path / "out") == 1
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_options_of_other_imports_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    for options in (["--classes", "3"], ["--train", "all"], ["--set", "Q=3"], ["--set", "T=9999"]):
        assert main_code("import", path, "-o", tmp_path / "out", *options) in (1, 2)
        assert options[0] in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
