"""Many weights in JavaScript: they are loaded and saved in pieces, and damage is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save

import wgcc.bundle.content as files
import wgcc_runtime
from building import TWIN
from web_stacks import build_web, run_job, to_base64
from wgcc.cli.commands.verify.stacks import StackError
from wgcc.compiler import compile_file
from wgcc_runtime.errors import WgccError

MODEL = """
model Streamed {
  param w: f32[300, 500] ~ normal(0.0, 0.5)
  optimizer opt: adam { lr = 0.1 }
  entry train(x: f32[2, 300]) -> (loss: f32) {
    loss = mean((x @ w) ** 2)
    minimize loss with opt
    return loss
  }
}
"""

LARGE = """
model Large {
  param w: f32[24, 1000, 1000] ~ external
  entry predict(x: f32[1, 1000]) -> (y: f32[1, 1000]) = x @ w[23]
}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streamed")
    (folder / "model.wg").write_text(MODEL, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "LARGE_BYTES", 1000)
        return build_web(folder / "model.wg", folder / "bundle")


@pytest.mark.parametrize("stack", ["node", "deno", "chrome"])
def test_files_come_in_pieces(stack: str, bundle: Path) -> None:
    halves = np.random.default_rng(5).normal(size=(300, 500)).astype(np.float16)
    given = {"device": "wasm", "halves": to_base64(save({"w": halves}))}
    seen = run_job(stack, bundle, "streamed", given)
    wanted = load_file(bundle / "weights.safetensors")["w"]
    np.testing.assert_array_equal(np.float32(seen["own"]), wanted.ravel())
    np.testing.assert_array_equal(np.float32(seen["halves"]), halves.astype(np.float32).ravel())
    assert seen["loaded"] == {"bytes": True, "blob": True, "answer": True}
    assert [seen[f"is{what}"] for what in ("Same", "Untouched", "Restored", "Reset")] == [True] * 4
    size = (bundle / "weights.safetensors").stat().st_size
    assert seen["heard"][-1] == [size, size]
    texts = {
        "flipped": "weights: weights: `weights` is damaged",
        "restored": "weights: weights: `checkpoint` is damaged",
        "longer": "its length is wrong",
        "shorter": "it ends too early",
        "short": "it ends too early",
        "header": "its header has 1099511",
        "broken": "the line broke",
        "full": "memory: memory: the browser has no room for a file of 1800",
    }
    for name, text in texts.items():
        assert text in seen["refused"][name], seen["refused"][name]


def test_damage_of_a_bundles_own_weights_is_found(bundle: Path) -> None:
    path = bundle / "weights.safetensors"
    sound = path.read_bytes()
    try:
        path.write_bytes(sound[:-8] + bytes(8))
        with pytest.raises(WgccError, match="is damaged"):
            wgcc_runtime.load(bundle, device=TWIN)
        for stack in ("node", "deno"):
            with pytest.raises(StackError, match=r"`weights\.safetensors` is damaged"):
                run_job(stack, bundle, "streamed", {"device": "wasm"})
    finally:
        path.write_bytes(sound)


def test_loading_and_saving_take_no_second_copy(tmp_path: Path) -> None:
    (tmp_path / "model.wg").write_text(LARGE, encoding="utf-8")
    wanted = np.random.default_rng(6).random((24, 1000, 1000), np.float32)
    compile_file(tmp_path / "model.wg").write(tmp_path / "b", {"w": wanted})
    saved = tmp_path / "saved"
    found = run_job("node", tmp_path / "b", "peak", {"path": str(saved), "device": "wasm"})
    np.testing.assert_array_equal(load_file(saved)["w"], wanted)
    # The memory of the twin, and what `reset` and `recover` need; Node has blobs in memory, too.
    assert found["loading"] < 3.25 * wanted.nbytes
    assert found["saving"] < 2 * wanted.nbytes
    # Nothing is drawn.
    assert found["stages"] == ["weights", "kernels"]
    run_job("node", tmp_path / "b", "peak", {"path": str(saved)})
    np.testing.assert_array_equal(load_file(saved)["w"], wanted)


def test_a_large_file_holds_in_two_bytes_what_they_can_hold(tmp_path: Path) -> None:
    """And no values that are one number, such as an empty cache. Python and JavaScript read it."""
    cache = "  state cache: f32[1000, 3000] = 0.5\n  entry"
    text = LARGE.replace("  entry", cache, 1).replace("24, 1000", "3, 1000").replace("23]", "2]")
    (tmp_path / "model.wg").write_text(text.replace("x @ w[2]", "x @ w[2] + cache[0, :1000]"))
    wanted = np.random.default_rng(7).random((3, 1000, 1000), np.float32).astype(np.float16)
    wanted[0, 0, :4] = [6e-8, -0.0, 65504, 1e-5]
    compile_file(tmp_path / "model.wg").write(tmp_path / "b", {"w": wanted.astype(np.float32)})
    assert (tmp_path / "b" / "weights.safetensors").stat().st_size < 6_010_000
    saved = tmp_path / "saved"
    run_job("node", tmp_path / "b", "peak", {"path": str(saved), "device": "wasm"})
    with wgcc_runtime.load(tmp_path / "b", device=TWIN) as model:
        model.save(tmp_path / "own")
    for path in (saved, tmp_path / "own"):
        arrays = load_file(path)
        assert arrays["w"].tobytes() == wanted.astype(np.float32).tobytes()
        assert (arrays["cache"] == 0.5).all()
