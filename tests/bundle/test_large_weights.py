"""Many weights: where a bundle holds them, how files of them are read and written."""

from __future__ import annotations

import os
import tracemalloc
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save, save_file

import wgcc.bundle.content as files
import wgcc.bundle.emit as emit
import wgcc.bundle.page as pages
import wgcc.bundle.selftest as selftest
import wgcc_runtime
import wgcc_runtime.drawn
import wgcc_runtime.weights as weights
from building import TWIN
from web_stacks import build_web, run_node
from wgcc.bundle.emit import InitialValues, read_weights
from wgcc.bundle.folder import write_files
from wgcc.cli import main
from wgcc.cli.progress import Loading
from wgcc.compiler import compile_file
from wgcc_runtime.errors import WgccError
from wgcc_runtime.runner import _watched_regions
from wgcc_runtime.weights import file_pieces

MODEL = """
model Large {
  seed = 11
  param w: f32[300, 500] ~ normal(0.0, 0.5)
  optimizer opt: adam { lr = 0.1 }
  entry train(x: f32[2, 300]) -> (loss: f32) {
    loss = mean((x @ w) ** 2)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[2, 300]) -> (y: f32[2, 500]) = x @ w
}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "model.wg"
    path.write_text(MODEL, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def drawn(model: Path) -> Path:
    """A bundle without a file of weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emit, "MOST_STORED", 1000)
        return build_web(model, model.parent / "drawn")


@pytest.fixture(scope="module")
def beside(model: Path) -> Path:
    """A bundle whose page does not hold the weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "MOST_INSIDE", 1000)
        patch.setattr(files, "LARGE_BYTES", 1000)
        return build_web(model, model.parent / "beside")


def test_values_that_weights_replace_are_not_drawn(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file({"w": np.ones((300, 500), np.float32)}, tmp_path / "w.safetensors")
    drawn: list[str] = []
    draw = wgcc_runtime.drawn.initial_values

    def counted(init: Any, shape: Any, seed: int, name: str, dtype: str) -> Any:
        drawn.append(name)
        return draw(init, shape, seed, name, dtype)

    monkeypatch.setattr(wgcc_runtime.drawn, "initial_values", counted)
    program = compile_file(model).program
    values = InitialValues(program, read_weights(tmp_path / "w.safetensors", program))
    assert list(values) == ["w"]
    assert (values["w"] == 1).all()
    assert not drawn


def test_a_build_holds_given_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the bundle is written from the arrays that were read."""
    monkeypatch.setattr(selftest, "MOST_WORK", 0)
    monkeypatch.setattr(weights, "LARGE_BYTES", 1 << 20)
    (tmp_path / "model.wg").write_text(MODEL.replace("300", "3000").replace("500", "1500"))
    given = tmp_path / "w.safetensors"
    save_file({"w": np.full((3000, 1500), 0.1, np.float32)}, given)
    compiled = compile_file(tmp_path / "model.wg", twin=False)
    tracemalloc.start()
    files = compiled.files(read_weights(given, compiled.program))
    compiled_bytes = sum(len(data) for name, data in files.items() if name != emit.WEIGHTS)
    write_files(files, tmp_path / "bundle")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(files[emit.WEIGHTS]) > 18_000_000
    assert peak < 1.3 * len(files[emit.WEIGHTS]) + 5 * compiled_bytes
    assert (load_file(tmp_path / "bundle" / "weights.safetensors")["w"] == np.float32(0.1)).all()
    written = (tmp_path / "bundle" / "weights.safetensors").stat().st_ino
    write_files(files, tmp_path / "bundle")
    assert (tmp_path / "bundle" / "weights.safetensors").stat().st_ino == written


class CountingReader(BufferedReader):
    """A file that adds up how many bytes were read from it."""

    total = 0

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer)
        CountingReader.total += count
        return count


def test_a_build_reads_and_hashes_given_weights_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these takes a tenth of the time of a build with 540 MB of weights, or more."""
    monkeypatch.setattr(selftest, "MOST_WORK", 0)
    monkeypatch.setattr(weights, "LARGE_BYTES", 1 << 20)
    monkeypatch.setattr(files, "LARGE_BYTES", 1 << 20)
    monkeypatch.setattr(weights, "open_regular", lambda path: CountingReader(FileIO(path)))
    monkeypatch.setattr(CountingReader, "total", 0)
    passes: dict[str, int] = {"crc": 0, "digest": 0}
    crc, digest = weights._crc, emit.digest_of

    def counted_crc(tensors: Any) -> int:
        passes["crc"] += sum(array.nbytes for array in tensors.values())
        return crc(tensors)

    def counted_digest(content: Any) -> str:
        passes["digest"] += len(content)
        return digest(content)

    monkeypatch.setattr(weights, "_crc", counted_crc)
    monkeypatch.setattr(emit, "digest_of", counted_digest)
    (tmp_path / "model.wg").write_text(MODEL.replace("300", "1000"), encoding="utf-8")
    given = tmp_path / "w.safetensors"
    save_file({"w": np.full((1000, 500), 0.1, np.float32)}, given)
    bundle = tmp_path / "b"
    command = ["build", str(tmp_path / "model.wg"), "-o", str(bundle), "--weights", str(given)]
    assert main([*command, "--no-twin"]) == 0
    assert CountingReader.total == passes["crc"] == 2_000_000
    assert passes["digest"] == (bundle / "weights.safetensors").stat().st_size > 2_000_000


def test_a_model_that_overflows_in_f32_is_built_without_a_self_test(tmp_path: Path) -> None:
    """float64 holds its numbers, so that only a run shows it."""
    text = MODEL.replace("(x @ w) ** 2", "(x @ w * 1e25) ** 2")
    (tmp_path / "model.wg").write_text(text, encoding="utf-8")
    entries = compile_file(tmp_path / "model.wg").plan()["selftest"]["entries"]
    assert list(entries) == ["predict"]


def test_drawn_values_are_not_stored(model: Path, drawn: Path) -> None:
    wanted = dict(InitialValues(compile_file(model).program))
    assert not (drawn / "weights.safetensors").exists()
    with wgcc_runtime.load(drawn, device=TWIN) as loaded:
        assert loaded.plan.weights == {"seed": 11}
        np.testing.assert_array_equal(loaded.params()["w"], wanted["w"])
        assert wgcc_runtime.run_selftest(loaded)
        loaded.train(x=np.ones((2, 300), np.float32))
        loaded.save(drawn / "weights.safetensors", optimizer=False)
        trained = loaded.params()["w"]
    # Trained weights take their place; the self-test still is about what was built.
    with wgcc_runtime.load(drawn, device=TWIN) as loaded:
        np.testing.assert_array_equal(loaded.params()["w"], trained)
        assert all(result.passed for result in wgcc_runtime.run_selftest(loaded))
    (drawn / "weights.safetensors").unlink()


def test_trained_weights_are_kept_by_the_next_build(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emit, "MOST_STORED", 1000)
    compile_file(model).write(tmp_path / "b")
    save_file({"w": np.ones((300, 500), np.float32)}, tmp_path / "b" / "weights.safetensors")
    compile_file(model, seed=12).write(tmp_path / "b")
    assert (tmp_path / "b" / "weights.trained.safetensors").exists()
    assert not (tmp_path / "b" / "weights.safetensors").exists()


def test_pages_without_weights_inside(model: Path, drawn: Path, beside: Path) -> None:
    assert (beside / "index.html").stat().st_size < 1_500_000
    seen = run_node("large_weights.mjs", str(model.parent))
    assert seen["problems"] == []
    first = InitialValues(compile_file(model).program)["w"].ravel()[:4]
    for where in ("disk", "served", "apart", "drawn"):
        np.testing.assert_array_equal(np.float32(seen[where]["first"]), first, where)
    assert "weights.safetensors (0.6 MB), which is beside this page" in seen["card"]
    # Another file was chosen first, then the right one dropped.
    assert "is not a safetensors file" in seen["again"] and "Choose or drop" in seen["again"]
    assert seen["isCardGone"]
    assert any(line.endswith(" of 0.6 MB") for line in seen["served"]["said"])


MIXED = {
    "b/z": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.float32(2.5),
    "é": np.arange(3, dtype=np.int64),
    "flags": np.array([True, False]),
    "half": np.ones(3, np.float16),
    "bytes": np.arange(5, dtype=np.uint8),
    "none": np.zeros((0, 4), np.float64),
    "counts": np.arange(2, dtype=np.uint32),
}


@pytest.mark.parametrize("metadata", [{}, {"wgcc": '{"é": "\\"x\\""}'}])
def test_files_are_those_of_the_library(metadata: dict[str, str]) -> None:
    arrays = {name: np.asarray(array) for name, array in MIXED.items()}
    assert b"".join(file_pieces(arrays, metadata)) == save(arrays, metadata or None)


def test_a_large_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.safetensors"
    arrays = {"w": np.random.default_rng(1).normal(size=(2000, 1000)).astype(np.float32)}
    facts: dict[str, Any] = {"model": "M"}
    weights.save_weights(path, arrays, facts)
    monkeypatch.setattr(weights, "LARGE_BYTES", 1000)
    tracemalloc.start()
    found, read = weights.load_weights(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < arrays["w"].nbytes * 1.25
    assert read["model"] == "M"
    np.testing.assert_array_equal(found["w"], arrays["w"])
    np.testing.assert_array_equal(load_file(path)["w"], arrays["w"])
    data = path.read_bytes()
    for broken, words in (
        (data[:-4], "is not a safetensors file"),
        (data[:-4] + b"\x00\x00\x80\x7f", "is damaged"),
        (b"\xff" * 8 + data[8:], "is not a safetensors file"),
        # Lengths of the header that no file, or not this one, can have.
        ((1 << 44).to_bytes(8, "little") + data[8:], "header cannot have 17592186044416 bytes"),
        (len(data).to_bytes(8, "little") + data[8:], f"header cannot have {len(data)} bytes"),
        (bytes(2000), "is not a safetensors file"),
        (b"PK\x03\x04" * 500, "is not a safetensors file"),
    ):
        path.write_bytes(broken)
        with pytest.raises(WgccError, match=words):
            weights.load_weights(path)


def test_a_large_file_has_every_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {name: np.asarray(array) for name, array in MIXED.items()}
    save_file(arrays, tmp_path / "mixed.safetensors")
    monkeypatch.setattr(weights, "LARGE_BYTES", 0)
    found, _ = weights.load_weights(tmp_path / "mixed.safetensors")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, name, strict=True)


def test_a_bundles_own_large_file_is_read_once(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = np.random.default_rng(9).normal(size=(300, 500)).astype(np.float32)
    compile_file(model).write(tmp_path / "b", {"w": given})
    monkeypatch.setattr(weights, "LARGE_BYTES", 1000)
    # The library gives copies of parts of bytes that are in memory already.
    monkeypatch.setattr(weights.safetensors, "deserialize", None)
    with wgcc_runtime.load(tmp_path / "b", device=TWIN) as loaded:
        np.testing.assert_array_equal(loaded.params()["w"], given)
    path = tmp_path / "b" / "weights.safetensors"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WgccError, match="is a symbolic link"):
        wgcc_runtime.load(tmp_path / "b", device=TWIN)


@pytest.mark.parametrize("later", ["overwritten", "truncated", "deleted"])
def test_resets_do_not_need_the_file_of_weights(
    later: str, drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "given.safetensors"
    given = np.random.default_rng(2).normal(size=(300, 500)).astype(np.float32)
    save_file({"w": given}, path)
    monkeypatch.setattr(weights, "LARGE_BYTES", 1000)
    with wgcc_runtime.load(drawn, weights=path, device=TWIN) as loaded:
        if later == "overwritten":
            # In place: a new file would leave the old one to those who have it open.
            data = path.read_bytes()
            with open(path, "r+b") as file:
                file.write(data[: -given.nbytes] + bytes(given.nbytes))
        elif later == "truncated":
            os.truncate(path, 10)
        else:
            path.unlink()
        for again in (loaded.reset, loaded.recover):
            loaded.load_params({"w": np.zeros_like(given)})
            again()
            np.testing.assert_array_equal(loaded.params()["w"], given)


def test_saving_takes_no_second_copy(tmp_path: Path) -> None:
    arrays = {"w": np.zeros((2000, 1000), np.float32)}
    tracemalloc.start()
    weights.save_weights(tmp_path / "w.safetensors", arrays, {"model": "M"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < arrays["w"].nbytes / 4


def test_progress_is_reported_in_bytes(drawn: Path) -> None:
    heard: list[tuple[int, int]] = []
    with wgcc_runtime.load(drawn, device=TWIN, on_bytes=lambda *counts: heard.append(counts)):
        pass
    # The weights, two moments of each, and the count of steps.
    assert heard[-1] == (1_800_004, 1_800_004)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_commands_say_how_much_is_loaded(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    small, large = Loading(), Loading()
    for part in range(1, 101):
        small(part, 100)
        large(part * 5_000_000, 500_000_000)
    said = capsys.readouterr().err
    assert said.endswith("values: 500 of 500 MB\n")
    assert said.count("values:") == (100 if is_terminal else 10)


def test_the_planned_memory_has_what_a_guard_copies(drawn: Path) -> None:
    with wgcc_runtime.load(drawn, device=TWIN) as loaded:
        copied = sum(
            size for _, _, size in _watched_regions(loaded._machine, loaded.entry("train"))
        )
        assert loaded.plan.memory["guard"] == copied > 1_800_000


def test_a_model_without_self_test_is_compared_with_numpy(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(selftest, "MOST_WORK", 1000)
    compile_file(model).write(tmp_path / "b")
    plan = wgcc_runtime.load_plan(tmp_path / "b")
    assert plan.selftest["entries"] == {}
    assert main(["verify", str(tmp_path / "b"), "--on", "wasm"]) == 0
    assert "ok  1 outputs, worst predict.y" in capsys.readouterr().err
    # Weights that were given are in the bundle's file.
    given = np.random.default_rng(8).normal(size=(300, 500)).astype(np.float32)
    compile_file(model).write(tmp_path / "given", {"w": given})
    assert main(["verify", str(tmp_path / "given"), "--on", "wasm"]) == 0
    assert "ok  1 outputs, worst predict.y" in capsys.readouterr().err
    save_file({"w": given + 1}, tmp_path / "given" / "weights.safetensors")
    assert main(["verify", str(tmp_path / "given"), "--on", "wasm"]) != 0
    assert "weights.safetensors was replaced" in capsys.readouterr().err
    made = selftest.make_large_selftest

    def changed(*given: Any) -> Any:
        found = made(*given)
        found["entries"]["predict"]["outputs"][0]["y"]["first"][2] += 0.01
        return found

    monkeypatch.setattr(selftest, "make_large_selftest", changed)
    assert main(["verify", str(tmp_path / "b"), "--on", "wasm"]) == 3
    # A source that does not make this bundle: the bundle is as good as before.
    (tmp_path / "b" / "model.wg").write_text(MODEL.replace("300", "200"), encoding="utf-8")
    assert main(["verify", str(tmp_path / "b"), "--on", "wasm"]) == 0
    assert "none can be computed: compiling" in capsys.readouterr().err
