"""`precision = f16`: half the memory for activations, nearly the same training, clear refusals."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from building import build
from deep_models import GPT, MLP, batch_for, write
from tint_compiler import compile_all
from web_stacks import build_web, run_job
from wgcc.cli.commands.verify.stacks import StackError
from wgcc.compiler import compile_file

HALF = "precision = f16"
SELFTEST = "../../runtime_js/stacks/selftest"
MODELS = pytest.mark.parametrize("text", [MLP, GPT], ids=["mlp", "gpt"])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole bundle of the deep MLP in f16."""
    folder = tmp_path_factory.mktemp("f16")
    return build_web(write(folder, MLP, setting=HALF), folder / "bundle")


@pytest.fixture(scope="module", params=[MLP, GPT], ids=["mlp", "gpt"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Path]:
    """The text of a model, and its bundles of depth 1 in f32 and in f16."""
    folder, text = tmp_path_factory.mktemp("pair"), request.param
    sources = (write(folder, text, f"m{at}", HALF * at, depth=1) for at in range(2))
    full, half = (build(source, folder / f"b{source.stem}") for source in sources)
    return text, full, half


@MODELS
def test_activations_take_half_the_memory(text: str, tmp_path: Path) -> None:
    full, half = (
        compile_file(write(tmp_path, text, f"m{at}", setting)).planned.plan
        for at, setting in enumerate(["", HALF])
    )
    # Sums that attention keeps in memory stay f32.
    most = 0.56 if text is MLP else 0.7
    assert half["memory"]["temps"] < most * full["memory"]["temps"]
    assert half["memory"]["params"] == full["memory"]["params"]
    assert (full["requires"]["features"], half["requires"]["features"]) == ([], ["shader-f16"])
    assert {record["dtype"] for record in half["tensors"].values()} <= {"f32", "i32", "u32"}


def losses_of(text: str, bundle: Path, device: str) -> list[float]:
    batch = batch_for(text)
    with wgcc_runtime.load(bundle, device=device) as model:
        return [float(model.train(**batch)["loss"]) for _ in range(25)]


def test_training_is_nearly_the_same(pair: tuple[str, Path, Path]) -> None:
    text, full, half = pair
    wanted, losses = (losses_of(text, bundle, "llvmpipe") for bundle in (full, half))
    assert wanted[-1] < 0.75 * wanted[0]
    # f16 has 11 significant bits; differences of one step accumulate in the next.
    np.testing.assert_allclose(losses, wanted, rtol=2e-2)
    assert losses != wanted


def test_the_twin_computes_in_f32(pair: tuple[str, Path, Path], tmp_path: Path) -> None:
    """It needs no adapter with f16, and takes a checkpoint of one that has it."""
    text, full, half = pair
    wanted, losses = (losses_of(text, bundle, "wasm") for bundle in (full, half))
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    batch = batch_for(text)
    path = tmp_path / "w.safetensors"
    with (
        wgcc_runtime.load(half, device="llvmpipe") as gpu,
        wgcc_runtime.load(half, device="wasm", threads=2) as twin,
    ):
        gpu.train(**batch)
        gpu.save(path)
        twin.load(path)
        np.testing.assert_allclose(
            twin.train(**batch)["loss"], gpu.train(**batch)["loss"], rtol=2e-2
        )
        assert twin.steps_done == 2


def test_small_gradients_do_not_vanish(tmp_path: Path) -> None:
    """Without scaling, most of these would be below the smallest f16 number."""
    bundle = build(write(tmp_path, MLP, setting=HALF, scale="1e-3"), tmp_path / "b")
    model, batch = wgcc_runtime.load(bundle, device="llvmpipe"), batch_for(MLP)
    losses = [1e3 * float(model.train(**batch)["loss"]) for _ in range(25)]
    assert losses[-1] < 0.5 * losses[0]


def test_the_self_test_passes(bundle: Path) -> None:
    results = wgcc_runtime.run_selftest(wgcc_runtime.load(bundle, device="llvmpipe"))
    assert results and all(result.passed for result in results)
    in_js = run_job("deno", bundle, SELFTEST)["outputs"]
    assert len(in_js) == len(results)
    assert all(output["error"] <= output["tolerance"] for output in in_js)


def test_an_adapter_without_f16_gets_a_clear_error(bundle: Path) -> None:
    with pytest.raises(wgcc_runtime.WgccError) as caught:
        wgcc_runtime.load(bundle, device="SwiftShader")
    with pytest.raises(StackError) as in_js:
        run_job("node", bundle, SELFTEST, {})
    assert (caught.value.code, in_js.value.code) == ("feature", "feature")
    for message in (caught.value.message, str(in_js.value)):
        assert "shader-f16" in message and "`precision = f32`" in message


def test_tint_accepts_the_kernels(tmp_path: Path) -> None:
    kernels = [
        path
        for name, text in (("mlp", MLP), ("gpt", GPT))
        for path in build(write(tmp_path, text, name, HALF), tmp_path / name).glob("kernels/*")
    ]
    answers = compile_all(sorted(kernels), halves=True)
    assert not any(answers.values()), answers
    texts = [path.read_text(encoding="utf-8") for path in kernels]
    assert any("enable f16;" in text for text in texts)
    # Products share loads as f16, and accumulate in f32.
    assert any(re.search(r"left_tile: (array<)+(vec4h|f16)", text) for text in texts)
