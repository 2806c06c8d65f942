"""`wgcc import FOLDER` of Hugging Face's transformers, against scores that the library recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from safetensors.numpy import save_file

from hf_folders import IDS, write_folder
from wgcc.cli import main
from wgcc.errors import WgError
from wgcc.from_gguf.architecture import describe
from wgcc.from_gguf.block_types import dequantise
from wgcc.from_gguf.evaluate import scores
from wgcc.from_gguf.folder import import_model, open_model
from wgcc.from_gguf.quantise import KINDS, QuantisedFile
from wgcc.from_gguf.weights import Weights
from wgcc_runtime import load

RECORDED = json.loads(Path(__file__).with_name("huggingface.json").read_text())
# Biases and norms of the library are f32, though it computes in f64.
NEAR = 3e-6


def folder(path: Path, name: str, shards: int = 1, **settings: Any) -> Path:
    case = RECORDED[name]
    return write_folder(path, {**case["config"], **settings}, case["shapes"], shards)


@pytest.mark.parametrize("name", RECORDED)
def test_every_type_gives_the_scores_of_transformers(name: str, tmp_path: Path) -> None:
    with open_model(folder(tmp_path / "m", name, shards=2)) as file:
        given = scores(file, describe(file), IDS)[:, ::16]
    assert np.abs(given - RECORDED[name]["scores"]).max() < NEAR


@pytest.mark.parametrize("name", ["llama long", "phi"])
def test_bundles_give_them_too(name: str, tmp_path: Path) -> None:
    """Scaled and partial rotary positions, parallel blocks: these no GGUF file of our tests has."""
    path, out = folder(tmp_path / "m", name), tmp_path / "out"
    assert (
        main_code("import", path, "-o", out, "--set", "T=12", "--set", "C=4", "--set", "S=16") == 0
    )
    with load(out / "bundle", device="wasm") as model:
        whole = model.score(np.array([IDS], np.int32))["scores"][0]
        assert np.abs(whole[:, ::16] - RECORDED[name]["scores"]).max() < 1e-4
        for first in (0, 4):
            read = model.prefill(np.array(IDS[first : first + 4], np.int32))["scores"]
            assert np.allclose(read, whole[first + 3], atol=1e-4)


def test_quantised_layers_are_packed_and_the_loss_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against the same model with its weights rounded by the `gguf` package."""
    path, out = folder(tmp_path / "m", "mistral"), tmp_path / "out"
    rules = [("q8", "tok"), ("q8", "head"), ("q8", "*.attn.*"), ("q4", "blocks.*.attn.w[qkv]")]
    options = [word for rule in rules for word in ("--quantise", *rule)]
    (path / "chat_template.jinja").write_text("{{ messages }}")
    assert main_code("import", path, "-o", out, "--set", "T=12", *options) == 0
    said = capsys.readouterr()
    assert "q4: attn_q.weight is rounded; weights differ by" in said.out + said.err
    assert "the best token is the same" in (out / "README.md").read_text()
    text = (out / "model.wg").read_text()
    assert "wq: Q4Linear[D, H * K]" in text and "tok: Q8Table[V, D]" in text
    assert "head: Q8Linear[D, V]" in text and "wo: Q8Linear" in text
    assert (out / "chat_template.txt").read_text() == "{{ messages }}"


def main_code(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_rounded_no_worse_than_by_the_package(kind: str, tmp_path: Path) -> None:
    path = folder(tmp_path / "m", "llama")
    with open_model(path) as file:
        rounded = QuantisedFile(file, describe(file), [(kind, "blocks.*.mlp.gate")])
        name = "blk.1.ffn_gate.weight"
        source, tensor = file.tensors[name], rounded.tensors[name]
        weights = dequantise(source.type, file.read(source), source.shape)
        blocks = np.frombuffer(rounded.read(tensor), np.uint8).reshape(len(weights), -1)
    type_ = GGMLQuantizationType[tensor.type.name]
    theirs = quants.dequantize(quants.quantize(weights, type_), type_)
    ours = quants.dequantize(blocks, type_)
    errors = [np.square(part - weights).sum() for part in (ours, theirs)]
    assert errors[0] <= errors[1] * (1.0001 if kind == "q8" else 0.95)
    assert np.array_equal(ours, dequantise(tensor.type, blocks.tobytes(), weights.shape))


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([("q8", "block.*")], "no layer of weights is called `block.*`"),
        ([("q8", "*.0.attn.*")], "`*.0.attn.*` leaves `blocks.1.attn.wq` out"),
        ([("q4", "*.mlp.*")], "`blocks.0.mlp.down` has 48 inputs, not a multiple of 32"),
    ],
)
def test_rules_that_cannot_be_are_refused(
    rules: list[tuple[str, str]], text: str, tmp_path: Path
) -> None:
    with pytest.raises(WgError, match=re.escape(text)):
        import_model(folder(tmp_path / "m", "llama"), {}, False, rules)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"model_type": "mamba"}, "type `mamba`, which is not supported"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "'yarn'"),
        ({"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4}, "differ"),
        ({"quantization_config": {"bits": 4}}, "`quantization_config`"),
        ({"num_hidden_layers": 1}, "`blk.1."),
        ({"num_attention_heads": "4"}, "not a count"),
        ({"hidden_act": "xielu"}, "activation 'xielu'"),
        ({"intermediate_size": 64}, "has shape"),
    ],
)
def test_other_models_are_refused_by_name(
    settings: dict[str, Any], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path / "m", "llama", **settings)
    assert main_code("import", path, "-o", tmp_path / "out") == 1
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_damaged_folders_are_refused_or_read(tmp_path: Path) -> None:
    """No other exception, whatever bytes of a header, an index or the configuration change."""
    path = folder(tmp_path / "m", "llama", shards=2)
    files = sorted(path.iterdir())
    originals = [file.read_bytes() for file in files]
    rng = np.random.default_rng(5)
    for _ in range(150):
        at = int(rng.integers(len(files)))
        changed = bytearray(originals[at])
        for place in rng.integers(0, min(len(changed), 1500), rng.integers(1, 4)):
            changed[place] = int(rng.choice([0, 34, 44, 48, 125, 255, rng.integers(256)]))
        cut = len(changed) if rng.random() < 0.7 else int(rng.integers(len(changed)))
        files[at].write_bytes(changed[:cut])
        try:
            with open_model(path) as file:
                assert all(a.size for _, a in Weights(file, describe(file)).checked_parameters())
        except WgError as error:
            assert str(error)
        files[at].write_bytes(originals[at])


def test_hostile_places_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", "llama", shards=2)
    index = path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../secret.safetensors"}}))
    (tmp_path / "secret.safetensors").write_bytes(b"")
    with pytest.raises(
        WgError, match=r"names `\.\./secret\.safetensors`, which is not in the folder"
    ):
        open_model(path)
    index.unlink()
    with pytest.raises(WgError, match=r"has neither model\.safetensors nor"):
        open_model(path)
    save_file({"x": np.zeros(2, np.int32)}, path / "model.safetensors")
    with pytest.raises(WgError, match="of type 'I32'; read are F32, F16, BF16"):
        open_model(path)
