"""A pretrained model learns new classes by name, beside those that it knows.

From Python, from the command line and in a page.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from PIL import Image

import wgcc_runtime
from cli_runs import run
from web_stacks import run_job, run_node
from wgcc.lazy_numpy import Array
from wgcc_runtime import read_data
from wgcc_runtime.errors import WgccError

KNOWN, SIZE = 10, 8
NUMBERS = [str(number) for number in range(KNOWN)]
LABELS = [*NUMBERS, "heart", "star"]
HEART = ["01100110", "11111111", "11111111", "11111111", "01111110", "00111100", "00011000", "0"]
STAR = ["00011000", "00011000", "11111111", "01111110", "00111100", "01100110", "11000011", "0"]


def save_classifier(path: Path) -> Path:
    """Ten classes of pictures, with two layers."""
    draw = np.random.default_rng(0)
    held = {
        "w": draw.normal(size=(SIZE * SIZE, 16)).astype(np.float32) / 8,
        "v": draw.normal(size=(16, KNOWN)).astype(np.float32),
        "b": draw.normal(size=KNOWN).astype(np.float32),
    }
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "v", "b"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["batch", 1, SIZE, SIZE])],
        [helper.make_tensor_value_info("scores", 1, ["batch", KNOWN])],
        initializer=[numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def save_pictures(folder: Path, **shapes: list[str]) -> Path:
    """Four of each, as `NAME_1.png`, …: the same shape, a little lighter each time."""
    folder.mkdir(parents=True)
    for name, lines in shapes.items():
        on = np.array([[mark == "1" for mark in line.ljust(SIZE, "0")] for line in lines])
        for number in range(4):
            pixels = np.where(on, 255 - 20 * number, 20 * number).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{name}_{number}.png")
    return folder


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An import with two more classes, with and without names; one without; and pictures."""
    from wgcc.cli import main

    folder = tmp_path_factory.mktemp("known")
    model = str(save_classifier(folder / "model.onnx"))
    for name, options in {
        "more": ["--more-classes", "2"],
        "same": [],
        "new": ["--classes", "2"],
    }.items():
        target = str(folder / name)
        wanted = ["--train", "head", "--set", "batch=4", "--lr", "0.03"]
        assert main(["import", model, "-o", target, *wanted, *options]) == 0
    text, weights = str(folder / "more" / "model.wg"), str(folder / "more" / "weights.safetensors")
    for name, labels in {"named": LABELS, "ten": [f"digit {n}" for n in NUMBERS]}.items():
        given = ["--labels", ",".join(labels), "-o", str(folder / name)]
        assert main(["build", text, "--weights", weights, *given]) == 0
    save_pictures(folder / "shapes", heart=HEART, star=STAR)
    save_pictures(folder / "stars", star=STAR)
    save_pictures(folder / "moons", moon=HEART, star=STAR)
    return folder


def names_of(data: Any) -> list[str]:
    found: list[str] = data.preparation["inputs"]["target"]["classes"]
    return found


def test_python_reads_names_by_what_the_model_knows(work: Path) -> None:
    with wgcc_runtime.load(work / "more" / "bundle", device="wasm") as model:
        assert model.classes is None and model.has_learned
        data = read_data(work / "shapes", model)
        assert data.arrays["target"].tolist() == [10] * 4 + [11] * 4
        assert data.notes == ["2 new classes: `heart` is 10, `star` is 11."]
        assert names_of(data) == LABELS
    with wgcc_runtime.load(work / "named", device="wasm") as model:
        assert model.classes == LABELS
        data = read_data(work / "shapes", model)
        assert (data.arrays["target"].tolist(), data.notes) == ([10] * 4 + [11] * 4, [])
        assert read_data(work / "stars", model).arrays["target"].tolist() == [11] * 4
        with pytest.raises(WgccError, match="is of `moon`, a class that the model does not know"):
            read_data(work / "moons", model)
    with wgcc_runtime.load(work / "ten", device="wasm") as model:
        assert names_of(read_data(work / "shapes", model))[9:] == ["digit 9", "heart", "star"]


def test_a_model_without_free_classes_refuses_names(work: Path) -> None:
    with wgcc_runtime.load(work / "same" / "bundle", device="wasm") as model:
        with pytest.raises(WgccError, match=r"it knows: 0, 1, .*; new are: heart, star\. Name its"):
            read_data(work / "shapes", model)
        numbers = work / "numbers"
        for name in ("3", "7"):
            save_pictures(numbers / name, a=HEART)
        assert read_data(numbers, model).arrays["target"].tolist() == [3] * 4 + [7] * 4
    with wgcc_runtime.load(work / "new" / "bundle", device="wasm") as model:
        data = read_data(work / "shapes", model)
        assert data.arrays["target"].tolist() == [0] * 4 + [1] * 4
        assert names_of(data) == ["heart", "star"]


def scores(model: wgcc_runtime.Model, folder: Path) -> Array:
    found: Array = model.predict(x=read_data(folder, model).arrays["x"])["scores"]
    return found


@pytest.mark.parametrize("bundle", ["more/bundle", "named"])
def test_the_command_line_teaches_new_classes(
    bundle: str, work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained, place = str(tmp_path / "trained.safetensors"), str(work / bundle)
    common = ("--steps", "60", "--device", "wasm", "--out", trained)
    code, _, error = run(capsys, "train", place, str(work / "shapes"), *common)
    assert code == 0, error
    assert ("2 new classes: `heart` is 10, `star` is 11." in error) == (bundle != "named")
    with wgcc_runtime.load(place, device="wasm") as model:
        before = scores(model, work / "shapes")
        assert (before[:, 10] == before[:, 11]).all()
        model.load(trained)
        assert model.classes == LABELS
        after = scores(model, work / "shapes")
        assert after.argmax(axis=1).tolist() == [10] * 4 + [11] * 4
        assert (np.abs(after[:, 10] - after[:, 11]) > 0.3).all()
    code, out, error = run(
        capsys, "run", place, "predict", "-i", str(work / "stars"), "--weights", trained,
        "--device", "wasm",
    )  # fmt: skip
    assert code == 0 and out.count("star") >= 4, out + error
    goes_on(trained, place, work, capsys)


def goes_on(trained: str, place: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a part of the names, with unknown ones, and in a bundle that is built with them."""
    common = ("--steps", "5", "--device", "wasm", "--out", trained)
    stars = str(work / "stars")
    code, _, error = run(capsys, "train", place, stars, "--weights", trained, *common)
    assert code == 0, error
    with wgcc_runtime.load(place, device="wasm", weights=trained) as model:
        assert model.classes == LABELS
        assert scores(model, work / "stars").argmax(axis=1).tolist() == [11] * 4
    moons = str(work / "moons")
    code, _, error = run(capsys, "train", place, moons, "--weights", trained, *common)
    assert code == 1 and "`moon`, a class that the model does not know; it knows: 0, 1" in error
    personal = str(Path(trained).parent / "personal")
    code, _, error = run(
        capsys, "build", str(work / "more" / "model.wg"), "--weights", trained, "-o", personal
    )
    assert code == 0, error
    with wgcc_runtime.load(personal, device="wasm") as model:
        assert model.classes == LABELS
        assert read_data(stars, model).arrays["target"].tolist() == [11] * 4


def test_arrays_keep_the_names(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.zeros((8, 1, SIZE, SIZE), np.float32)
    np.savez(tmp_path / "d.npz", x=x, target=[10, 11] * 4)
    trained = tmp_path / "trained.safetensors"
    common = ("train", str(work / "named"), str(tmp_path / "d.npz"), "--steps", "4")
    more = ("--device", "wasm", "--out", str(trained), "--held-out", "0.5")
    for again in ((), ("--resume",)):
        code, _, error = run(capsys, *common, *more, *again)
        assert code == 0, error
        with wgcc_runtime.load(work / "named", device="wasm", weights=trained) as model:
            assert model.classes == LABELS


def test_labels_that_do_not_fit_are_refused(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, weights = work / "more" / "model.wg", work / "more" / "weights.safetensors"
    common = ("build", str(text), "--weights", str(weights), "-o", str(tmp_path / "b"))
    for labels, message in {
        "a,b": "2 names, but there are 10 classes: 0, 1",
        "a,b,c,d,e,f,g,h,i,j,k,l,m": "13 names, but `target` has 12 classes",
        "a,b,c,d,e,f,g,h,i,j,a": "`a` occurs twice",
        "a,b,c,d,e,f,g,h,i,j,": "name 11 is empty",
    }.items():
        code, _, error = run(capsys, *common, "--labels", labels)
        assert code == 1 and message in error, error


@pytest.mark.parametrize("bundle", ["more/bundle", "named"])
def test_javascript_reads_as_python_does(bundle: str, work: Path) -> None:
    files = [
        {"path": f"shapes/{path.name}", "data": as_text(path)}
        for path in sorted((work / "shapes").iterdir())
    ]
    seen = run_job("chrome", work / bundle, "known_classes", {"files": files})
    for found in (seen["page"], seen["worker"]):
        assert found["ids"] == [10] * 4 + [11] * 4
        assert found["classes"] == found["restored"] == found["arrays"] == LABELS
        assert found["subset"] == [11] * 4
        assert found["best"] == [10] * 4 + [11] * 4
        assert "does not know; it knows: 0, 1" in found["refused"]


def as_text(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.mark.parametrize("bundle", ["more/bundle", "named"])
def test_a_page_teaches_new_classes(bundle: str, work: Path) -> None:
    seen = run_node("known_classes.mjs", str(work / bundle), str(work))
    assert seen["problems"] == []
    assert seen["ids"] == [10] * 4 + [11] * 4
    assert seen["best"] == [10] * 4 + [11] * 4
    assert seen["shown"] == LABELS
    assert "heart" in seen["tried"] and "star" in seen["tried"]
    assert seen["subset"] == [11] * 4
    assert "moon" in seen["refused"] and "--labels" not in seen["refused"]
