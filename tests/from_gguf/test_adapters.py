"""Adapters travel: PEFT's files and llama.cpp's, in and out, in both languages and a shell."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from adapters import ROOT
from gguf_files import write_gguf
from lora_case import rows_of, start_values
from test_lora import CHATML
from web_stacks import run_node
from wgcc.cli import main
from wgcc.from_gguf.adapter_file import gguf_adapter, read_adapter
from wgcc.from_gguf.architecture import describe
from wgcc.from_gguf.evaluate import scores
from wgcc.from_gguf.lora import LoraOptions, prepare_lora
from wgcc.from_gguf.read import GgufFile
from wgcc_runtime import Adapter, Model, WgccError, load

RECORDED = ROOT / "tests" / "recorded" / "peft"
RANK, HEAD = 4, 16
# As PEFT's scores and ours may differ: sums in f32.
NEAR = 1e-4


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    types = {"default": "Q4_1", "token_embd": "Q8_0"}
    file = write_gguf(folder / "m.gguf", "llama", types, template=CHATML, context=200)
    sizes = ["--set", "T=16", "--set", "S=120", "--set", "C=4"]
    assert run("import", file, "-o", folder / "model", "--no-compare", *sizes) == 0
    prepare_lora(folder / "model", LoraOptions(rank=RANK))
    return folder / "model"


@pytest.fixture
def model(imported: Path) -> Any:
    with load(imported / "lora", device="wasm", threads=1) as model:
        yield model


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def decoded(model: Model) -> Any:
    """Scores after every fifth token of the case's first row."""
    model.forget()
    ids = rows_of(0)[0][0]
    return np.stack([model.decode(ids[i : i + 1])["scores"] for i in range(len(ids))])[::5]


def learned(model: Model) -> Model:
    model.load_params(start_values(), strict=False)
    return model


def test_an_adapter_of_peft_gives_its_scores(model: Model) -> None:
    """Its rank is 3, in one layer 2; the model has room for 4."""
    before = decoded(model)
    recorded = np.array(json.loads((RECORDED / "scores.json").read_text()))
    model.load_adapter(RECORDED)
    assert np.abs(decoded(model) - recorded).max() < NEAR < 0.1 < np.abs(before - recorded).max()
    model.load_adapter(None)
    assert np.array_equal(decoded(model), before)
    model.load_adapter(RECORDED / "adapter_model.safetensors")
    assert np.abs(decoded(model) - recorded).max() < NEAR
    # What is not used of a rank can learn.
    ids, targets = rows_of(1)
    first = float(model.train(ids=ids, targets=targets)["loss"])
    rest = [float(model.train(ids=ids, targets=targets)["loss"]) for _ in range(20)]
    assert rest[-1] < first


def test_our_files_are_as_peft_writes_them(model: Model, tmp_path: Path) -> None:
    wanted = load_file(RECORDED / "adapter_model.safetensors")
    learned(model).adapter().save(tmp_path / "peft", base="some/model")
    given = load_file(tmp_path / "peft" / "adapter_model.safetensors")
    assert given.keys() == wanted.keys()
    for name, array in given.items():
        axis = 0 if "lora_A" in name else 1
        other = 1 - axis
        assert (array.shape[axis], array.shape[other]) == (RANK, wanted[name].shape[other]), name
    config = json.loads((tmp_path / "peft" / "adapter_config.json").read_text())
    assert config.keys() <= json.loads((RECORDED / "adapter_config.json").read_text()).keys()
    assert (config["r"], config["lora_alpha"]) == (RANK, 2 * RANK)
    before = decoded(model)
    model.load_adapter(tmp_path / "peft")
    assert np.array_equal(decoded(model), before)


def test_llama_cpp_finds_what_it_expects(model: Model, imported: Path, tmp_path: Path) -> None:
    """Names, shapes, alpha; and the file's own rows, corrected in numpy, give our scores."""
    saved, path = tmp_path / "a.safetensors", tmp_path / "a.gguf"
    learned(model).save(saved, optimizer=False)
    assert run("export", imported / "lora", "--weights", saved, "--to", "gguf", "-o", path) == 0
    reader = gguf.GGUFReader(path)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    assert facts["general.type"] == "adapter" and facts["adapter.type"] == "lora"
    assert facts["general.architecture"] == "llama" and facts["adapter.lora.alpha"] == 2 * RANK
    pairs = {tensor.name: tensor for tensor in reader.tensors}
    assert len(pairs) == 8 and pairs["blk.1.attn_v.weight.lora_b"].shape.tolist() == [RANK, 32]
    assert pairs["blk.0.attn_q.weight.lora_a"].shape.tolist() == [64, RANK]
    with GgufFile(imported.parent / "m.gguf") as file:
        corrected = Corrected(file, {name: np.array(t.data) for name, t in pairs.items()})
        ids = rows_of(0)[0][0].tolist()
        wanted = scores(corrected, describe(file), ids)[::5]  # type: ignore[arg-type]
    assert np.abs(decoded(model) - wanted).max() < NEAR
    before = decoded(model)
    model.load_adapter(None)
    model.load_adapter(read_adapter(path, HEAD))
    assert np.array_equal(decoded(model), before)


class Corrected:
    """A GGUF file whose matrices have an adapter added to them, as llama.cpp does."""

    def __init__(self, file: GgufFile, factors: dict[str, Any]) -> None:
        self.path, self.metadata, self._file, self._factors = (
            file.path,
            file.metadata,
            file,
            factors,
        )
        self.tensors = {name: self._plain(name) for name in file.tensors}

    def _plain(self, name: str) -> Any:
        from dataclasses import replace

        from wgcc.from_gguf.block_types import BLOCK_TYPES

        tensor = self._file.tensors[name]
        return replace(tensor, type=BLOCK_TYPES[0]) if f"{name}.lora_a" in self._factors else tensor

    def read(self, tensor: Any) -> bytes:
        from wgcc.from_gguf.block_types import dequantise

        stored = self._file.tensors[tensor.name]
        data = self._file.read(stored)
        if stored.type is tensor.type:
            return data
        a, b = (self._factors[f"{tensor.name}.lora_{part}"] for part in "ab")
        whole = dequantise(stored.type, data, stored.shape) + 2.0 * (b @ a)
        return whole.astype(np.float32).tobytes()


def test_adapters_add_up_and_scale(model: Model) -> None:
    peft = Adapter.read(RECORDED)
    half = Adapter({n: f for n, f in (peft * 0.5).layers.items()}, "half")
    with pytest.raises(WgccError, match=r"has rank 6, the model room for 4: .*--rank 6"):
        model.load_adapter(half + half)
    model.load_adapter(peft * 0.25)
    small = decoded(model)
    a = {n: type(f)(f.a[:, :2], f.b[:2], f.scale) for n, f in peft.layers.items()}
    rest = {n: type(f)(f.a[:, 2:], f.b[2:], f.scale) for n, f in peft.layers.items()}
    model.load_adapter((Adapter(a) + Adapter(rest)) * 0.25)
    assert np.abs(decoded(model) - small).max() < 1e-5


def test_corrections_merge_into_plain_weights(model: Model, tmp_path: Path) -> None:
    with pytest.raises(WgccError, match=r"packed weights.*keep the adapter beside them"):
        model.merge_adapter()
    file = write_gguf(tmp_path / "f.gguf", "llama", {"default": "F32"})
    sizes = ["--set", "T=16", "--set", "S=40", "--set", "C=4"]
    assert run("import", file, "-o", tmp_path / "model", "--no-compare", *sizes) == 0
    with load(prepare_lora(tmp_path / "model", LoraOptions(rank=RANK))[0], device="wasm") as plain:
        plain.load_adapter(RECORDED)
        wanted = decoded(plain)
        plain.merge_adapter()
        assert np.abs(decoded(plain) - wanted).max() < 1e-5
        assert not any(factors.b.any() for factors in plain.adapter().layers.values())


def test_javascript_does_the_same(model: Model, imported: Path, tmp_path: Path) -> None:
    ids = rows_of(0)[0][0].tolist()
    peft = Adapter.read(RECORDED)
    (tmp_path / "a.gguf").write_bytes(gguf_adapter(peft, "llama", HEAD))
    damaged = []
    for damage, _ in HOSTILE:
        folder = copied(tmp_path / f"peft{len(damaged)}")
        damage(folder)
        config = folder / "adapter_config.json"
        weights = base64.b64encode((folder / "adapter_model.safetensors").read_bytes()).decode()
        damaged.append([config.read_text() if config.exists() else "", weights])
    data = {"ids": ids, "damaged": damaged}
    seen = run_node(
        "adapters.mjs", str(imported / "lora"), str(RECORDED), str(tmp_path / "a.gguf"), data=data
    )
    before, wanted = decoded(model), np.array(json.loads((RECORDED / "scores.json").read_text()))
    assert np.array_equal(seen["before"], before) and seen["none"] == seen["before"]
    assert np.abs(np.array(seen["peftScores"]) - wanted).max() < NEAR
    assert [t for t in seen["refused"] if not re.match("weights|shape|not-finite", t)] == []
    assert all(
        "is not a function" not in text and "undefined" not in text for text in seen["refused"]
    )
    assert seen["afterRefusals"] == seen["peftScores"]
    for form, rows in seen["again"].items():
        assert np.abs(np.array(rows) - seen["peftScores"]).max() < 1e-5, form
    assert "rank 6, the model room for 4" in seen["tooMany"]
    assert np.abs(np.array(seen["half"]) - seen["added"]).max() < 1e-5
    model.load_adapter(peft * 0.5)
    assert np.abs(decoded(model) - np.array(seen["half"])).max() < 1e-5
    # Its files are read here.
    for name, text in seen["files"].items():
        (tmp_path / "js").mkdir(exist_ok=True)
        (tmp_path / "js" / name).write_bytes(base64.b64decode(text))
    for path in (tmp_path / "js", tmp_path / "js" / "adapter.gguf"):
        model.load_adapter(read_adapter(path, HEAD))
        assert np.abs(decoded(model) - np.array(seen["peftScores"])).max() < 1e-5, path


def copied(target: Path) -> Path:
    shutil.copytree(RECORDED, target)
    return target


def edit_config(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


def edit_tensors(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "adapter_model.safetensors"
        save_file(change(load_file(path)), path)

    return edit


def cut(folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


def foreign(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: np.pad(array, ((0, 8), (0, 8))) for name, array in arrays.items()}


def without(part: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda arrays: {name: array for name, array in arrays.items() if part not in name}


def renamed(old: str, new: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda arrays: {name.replace(old, new): array for name, array in arrays.items()}


HOSTILE = [
    (edit_config(r=5), "has factors of rank 3 and 3, not 5"),
    (edit_config(r=0), "`r` is 0, not a number above 0"),
    (edit_config(r="x" * 9999), "`r` is 'x"),
    (edit_config(peft_type="IA3"), "type 'IA3', not LORA"),
    (edit_config(use_dora=True), "`use_dora`, which is not supported"),
    (edit_config(bias="all"), "trains biases"),
    (edit_config(lora_alpha=float("inf")), "`lora_alpha` is inf"),
    (edit_config(rank_pattern=[1]), "`rank_pattern`"),
    (lambda folder: (folder / "adapter_config.json").write_text("["), "is no JSON"),
    (lambda folder: (folder / "adapter_config.json").write_text("[" * 99_999), "is no JSON"),
    (lambda folder: (folder / "adapter_config.json").unlink(), "cannot read"),
    (cut, "not a safetensors file"),
    (edit_tensors(without("layers.1.self_attn.q_proj")), "no factors for `blocks.1.attn.wq`"),
    (edit_tensors(without("lora_B")), "lacks lora_B"),
    (edit_tensors(without("")), "holds no factors"),
    (edit_tensors(renamed("layers.0", "layers.7")), r"corrects block 7; the model has 2 blocks"),
    (edit_tensors(renamed("q_proj", "k_proj")), r"corrects attn.wk layers, the model only attn.wq"),
    (edit_tensors(renamed("self_attn.q_proj", "mlp.c_fc")), r"a tensor .*c_fc"),
    (edit_tensors(lambda a: {n: v[None] for n, v in a.items()}), "is no matrix"),
    (edit_tensors(lambda a: {n: v * np.float32(np.nan) for n, v in a.items()}), "not finite"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "text"), HOSTILE)
def test_hostile_adapters_change_nothing(
    damage: Callable[[Path], Any], text: str, model: Model, tmp_path: Path
) -> None:
    before = {name: np.array(learned(model).parameters[name]) for name in start_values()}
    damage(copied(tmp_path / "peft"))
    with pytest.raises(WgccError, match=text) as problem:
        model.load_adapter(tmp_path / "peft")
    assert len(problem.value.message) < 400
    assert all(np.array_equal(model.parameters[name], value) for name, value in before.items())


def test_hostile_gguf_adapters_are_refused(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = gguf_adapter(Adapter.read(RECORDED), "llama", HEAD)
    alpha = good.index(b"adapter.lora.alpha") + 22
    cases = {
        "is cut off": good[:-40],
        "not a number above 0": good[:alpha] + struct.pack("<f", -1.0) + good[alpha + 4 :],
        "not an adapter": (imported.parent / "m.gguf").read_bytes(),
        "a tensor `blk.0.attn_x": good.replace(b"blk.0.attn_q", b"blk.0.attn_x"),
        "lacks the matrix": good.replace(b"0.attn_q.weight.lora_b", b"2.attn_q.weight.lora_b"),
        "corrects block 9": good.replace(b"blk.1.", b"blk.9."),
    }  # fmt: skip
    for text, data in cases.items():
        (tmp_path / "a.gguf").write_bytes(data)
        arguments = ["run", imported / "lora", "decode", "-i", "id=1", "--device", "wasm"]
        assert run(*arguments, "--weights", tmp_path / "a.gguf") == 1
        error = capsys.readouterr().err
        assert text in error and "Traceback" not in error, (text, error)


def test_adapters_are_taken_where_weights_are(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """`train --weights`, `export --weights`, `chat --adapter` and its command `/adapter`."""
    notes, out = tmp_path / "notes.txt", tmp_path / "more.safetensors"
    notes.write_text("the quick brown fox\n" * 8)
    more = ["--device", "wasm", "--out", out, "--weights", RECORDED, "--steps", 2]
    assert run("train", imported, notes, "--lora", *more) == 0
    same = tmp_path / "same"
    assert run("export", imported / "lora", "--weights", RECORDED, "--to", "peft", "-o", same) == 0
    assert run("export", imported / "lora", "--weights", same, "--to", "gguf", "-o", same) == 2
    asked = ["chat", imported, "--device", "wasm", "--temperature", 0, "-n", 4, "--adapter"]
    capsys.readouterr()
    answers = []
    for adapter in (RECORDED, same, out):
        assert run(*asked, adapter, "the fox") == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    lines = ["the fox", f"/adapter {RECORDED}", "/reset", "the fox", "/adapter /nowhere"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    assert run(*asked, out) == 0
    shown = capsys.readouterr()
    assert shown.out == answers[2] + answers[0] and "/nowhere" in shown.err
