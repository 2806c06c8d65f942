"""examples/smollm: a language model from the visitor's own file chats and learns in a page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import wgcc_runtime
from adapters import ROOT
from gguf_files import write_gguf
from web_stacks import run_node
from wgcc.cli import main
from wgcc.cli.commands.verify.stacks import _program
from wgcc.from_gguf.adapter_file import read_adapter
from wgcc.from_gguf.lora import LoraOptions, prepare_lora

EXAMPLE = ROOT / "examples" / "smollm"
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}"
)
SIZES = ("--set", "T=16", "--set", "S=160", "--set", "C=8")
TYPES = {"default": "Q4_1", "token_embd": "Q8_0", "ffn_down": "Q8_0"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page for a tiny model, and files that do and do not fit it."""
    target = tmp_path_factory.mktemp("smollm")
    made: dict[str, Any] = {"types": TYPES, "template": CHATML, "context": 200}
    file = write_gguf(target / "m.gguf", "llama", **made)
    write_gguf(target / "other.gguf", "qwen2", **made)
    write_gguf(target / "wide.gguf", "llama", **made, inner=128)
    (target / "cut.gguf").write_bytes(file.read_bytes()[:-100])
    (target / "words.gguf").write_bytes(file.read_bytes().replace(b"<|end|>", b"<|eng|>"))
    saved = target / "saved"
    arguments = ["import", str(file), "-o", str(saved), "--no-compare", *SIZES]
    assert main(arguments) == 0
    command = [
        sys.executable,
        str(EXAMPLE / "build_page.py"),
        str(saved),
        "-o",
        str(target / "page"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return target


def test_page(folder: Path) -> None:
    seen = run_node("smollm.mjs", str(folder))
    story, gpu = seen["story"], seen["gpu"]
    assert story["problems"] == [] and gpu["problems"] == []
    other, wide, cut, words, plan = story["refused"]
    assert "architecture qwen2, this page is for llama" in other
    assert "blk.0.ffn_gate.weight is [128, 64], in this page's model [96, 64]" in wide
    assert "is cut off" in cut and "is no GGUF file" in plan
    assert "another vocabulary, of 320 tokens" in words
    assert "2 threads" in story["device"], story["device"]
    # Each step has another row.
    losses = story["losses"]
    assert len(losses) > 30 and np.mean(losses[-15:]) < np.mean(losses[:15])
    before, after = story["sides"]
    assert before != after and story["first"] and story["after"]
    assert story["again"] == story["later"] == [before, after]
    assert story["forgotten"] == [before, "Nothing was learned yet."]
    assert not story["wide"]
    assert gpu["before"] == before and len(gpu["losses"]) >= 2
    assert np.isclose(gpu["losses"][0], story["losses"][0], rtol=1e-3)
    names = ("light", "dark", "phone", "large")
    assert all((folder / f"{name}.png").stat().st_size > 10_000 for name in names)
    # What the page saved is read elsewhere, and is small.
    with wgcc_runtime.load(folder / "saved" / "lora", device="wasm") as model:
        kinds = [read_adapter(path, 16) for path in (folder / "adapter.gguf", folder)]
        for name, one in kinds[0].layers.items():
            two = kinds[1].layers[name]
            assert np.allclose(one.scale * (one.a @ one.b), two.scale * (two.a @ two.b), atol=1e-6)
        model.load_adapter(kinds[0])
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["target_modules"] == ["q_proj", "v_proj"]


def test_page_in_firefox(folder: Path) -> None:
    seen = run_node("smollm_firefox.mjs", str(folder), _program("firefox"))
    assert "WebAssembly" in seen["status"] and seen["said"] and seen["loss"] > 0


MIXED = {
    "attn_q": "Q4_0", "attn_k": "Q4_1", "attn_v": "Q8_0", "attn_output": "Q5_0",
    "ffn_gate": "Q4_K", "ffn_up": "Q6_K", "ffn_down": "F16", "token_embd": "Q6_K",
}  # fmt: skip


@pytest.mark.parametrize("embedded", ["Q6_K", "Q4_0", "F32"])
def test_blocks_are_read_as_the_import_reads_them(tmp_path: Path, embedded: str) -> None:
    """Every type that the page takes, to the bit."""
    types = {**MIXED, "token_embd": embedded}
    sizes = {"width": 256, "inner": 256, "heads": 4, "key_heads": 2}
    file = write_gguf(tmp_path / "m.gguf", "llama", types, template=CHATML, context=200, **sizes)
    saved = tmp_path / "saved"
    assert main(["import", str(file), "-o", str(saved), "--no-compare", *SIZES]) == 0
    sys.path.insert(0, str(EXAMPLE))
    try:
        from build_page import digest_of_tokens  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(EXAMPLE))
    facts, out = tmp_path / "facts.json", tmp_path / "out.safetensors"
    tokens = digest_of_tokens(saved / "tokenizer.json")
    facts.write_text(json.dumps({"architecture": "llama", "tokens": tokens}))
    prepare_lora(saved, LoraOptions())
    plan = saved / "lora" / "plan.json"
    seen = run_node("gguf_weights.mjs", str(file), str(plan), str(facts), str(out))
    assert seen["error"] == ""
    given, wanted = load_file(out), load_file(saved / "weights.safetensors")
    assert given.keys() == {f"base.{name}" for name in wanted}
    for name, array in wanted.items():
        assert np.array_equal(given[f"base.{name}"], array.astype(given[f"base.{name}"].dtype)), (
            name
        )


def test_a_file_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    command = [sys.executable, str(EXAMPLE / "build_page.py"), str(tmp_path / "x.gguf")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "is cut off" in done.stderr
    assert "Traceback" not in done.stderr and list(tmp_path.iterdir()) == [tmp_path / "x.gguf"]
