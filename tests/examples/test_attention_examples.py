"""chargpt, gqa_decode and lora learn; decoding with and without cache agrees; READMEs are true."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import wgcc_runtime
from adapters import ROOT, environment
from building import build
from wgcc.compiler import compile_file

EXAMPLES = ROOT / "examples"
NAMES = ("chargpt", "gqa_decode", "lora")
MINUTE = 60
CLOSE = 1e-5
# Two runs, each within 1e-5 of exact arithmetic, the second with rounded weights.
MERGED_CLOSE = 3e-5
# Enough for the GPT to know letters and short words; its promise of 400 steps takes minutes.
FEW_STEPS = 40


def run_script(folder: Path, *command: str) -> str:
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    env = {**os.environ, **environment("lavapipe"), "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, *command],
        env=env, cwd=folder, capture_output=True, encoding="utf-8", timeout=9 * MINUTE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_chargpt_learns_and_writes(tmp_path: Path) -> None:
    folder = EXAMPLES / "chargpt"
    build(folder / "model.wg", tmp_path / "bundle")
    output = run_script(tmp_path, str(folder / "train.py"), "bundle", str(FEW_STEPS))
    losses = [float(loss) for loss in re.findall(r"test loss (\d+\.\d+)", output)]
    assert losses[-1] < 2.45 < losses[0], output
    assert differences(output) <= CLOSE
    # More than the ring buffer of the cache holds.
    options = ["--weights", "trained.safetensors", "--prompt", "In the", "-n", "90"]
    written = run_script(tmp_path, "-m", "wgcc", "run", "bundle", "decode", *options)
    assert written.startswith("In the")
    assert len(written) == len("In the") + 90 + 1
    assert written.count(" ") > 8


def test_gqa_decode_repeats_what_it_was_shown(tmp_path: Path) -> None:
    folder = EXAMPLES / "gqa_decode"
    build(folder / "model.wg", tmp_path / "bundle")
    output = run_script(tmp_path, str(folder / "train.py"), "bundle")
    assert differences(output) <= CLOSE
    assert "100.0% of 128 symbols" in output


def test_a_look_inside_changes_nothing(tmp_path: Path) -> None:
    gpt, base = EXAMPLES / "chargpt", load_file(EXAMPLES / "lora" / "base.safetensors")
    build(gpt / "model.wg", tmp_path / "plain")
    build(gpt / "inside.wg", tmp_path / "inside")
    plain = wgcc_runtime.load(tmp_path / "plain", device="wasm")
    inside = wgcc_runtime.load(tmp_path / "inside", device="wasm")
    inside.load_params(base)
    plain.load_params({name.removeprefix("base."): array for name, array in base.items()})
    for seen, letter in enumerate("And God said, Let there be light: and there was light. " * 2):
        scores = plain.read(id=plain.plan.vocab.index(letter))["scores"]
        found = inside.look(id=inside.plan.vocab.index(letter))
        likely = np.exp(scores - scores.max())
        np.testing.assert_allclose(found["probs"], likely / likely.sum(), atol=CLOSE)
        np.testing.assert_allclose(found["attention"].sum(-1), 1, atol=CLOSE)
        assert np.count_nonzero(found["attention"].sum((0, 1))) <= seen + 1


def test_lora_learns_another_style_and_merges(tmp_path: Path) -> None:
    folder, gpt = EXAMPLES / "lora", EXAMPLES / "chargpt"
    weights = ["--weights", str(folder / "base.safetensors"), "-o", "bundle"]
    run_script(tmp_path, "-m", "wgcc", "build", str(folder / "model.wg"), *weights)
    # It exits with 1 if the loss did not fall, the base changed or merging changes a score.
    output = run_script(tmp_path, str(folder / "train.py"), "bundle", "15")
    losses = [float(loss) for loss in re.findall(r"test loss (\d+\.\d+)", output)]
    assert losses[-1] < losses[0] - 0.15, output
    assert "0 of 16 arrays of the base changed" in output
    assert differences(output) <= MERGED_CLOSE

    # The plain GPT loads the merged weights, and gives the same results as the corrected one.
    build(gpt / "model.wg", tmp_path / "gpt")
    merged = wgcc_runtime.load(tmp_path / "gpt", weights=tmp_path / "merged.safetensors")
    tuned = wgcc_runtime.load(tmp_path / "bundle", weights=tmp_path / "corrections.safetensors")
    ids = load_file(folder / "test.safetensors")["letters"][1:2, :-1].astype(np.int32)
    theirs, ours = (model.score(ids=ids)["scores"] for model in (tuned, merged))
    assert (np.abs(ours - theirs) / (1 + np.abs(theirs))).max() <= MERGED_CLOSE
    before = load_file(folder / "base.safetensors")
    assert all(np.array_equal(tuned.params()[name], array) for name, array in before.items())
    assert not np.array_equal(
        merged.params()["blocks.0.attn.qkv.w"], before["base.blocks.0.attn.qkv.w"]
    )


def test_the_base_of_lora_is_chargpt() -> None:
    base, gpt = EXAMPLES / "lora" / "base.wg", EXAMPLES / "chargpt" / "model.wg"
    assert base.read_bytes() == gpt.read_bytes()


def test_data_is_made_from_the_texts(tmp_path: Path) -> None:
    """The files in the repository are what the script makes."""
    for example in ("texts", "chargpt", "lora"):
        (tmp_path / example).mkdir()
    for file in (EXAMPLES / "texts").iterdir():
        shutil.copy(file, tmp_path / "texts")
    run_script(tmp_path, str(tmp_path / "texts" / "make_data.py"))
    for name in ("chargpt/train", "chargpt/test", "lora/train", "lora/test"):
        made = load_file(tmp_path / f"{name}.safetensors")["letters"]
        assert np.array_equal(made, load_file(EXAMPLES / f"{name}.safetensors")["letters"]), name


def differences(output: str) -> float:
    (found,) = re.findall(r"scores differ by (\S+)", output)
    return float(found)


@pytest.mark.parametrize("name", NAMES)
def test_readme_is_true(name: str) -> None:
    compiled = compile_file(EXAMPLES / name / "model.wg")
    readme = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    parameters = sum(tensor.type.size for tensor in compiled.program.params.values())
    assert f"{parameters:,}" in readme


@pytest.mark.parametrize("name", NAMES)
def test_curve_is_a_picture(name: str) -> None:
    root = ElementTree.fromstring((EXAMPLES / name / "curve.svg").read_text(encoding="utf-8"))
    assert [child for child in root if child.tag.endswith("polyline")]
