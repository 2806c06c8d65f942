"""The card of the data in a bundle's page, in headless Chromium, used as a person would use it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters import ROOT
from web_stacks import build_web, run_job, run_node
from wgcc.cli import main
from wgcc_runtime.data.problems import fill_words, problems

CASES = ROOT / "tests" / "data_cases"

# Models with the inputs of tests/data_cases/models.
CLASSES = """
/// Three classes from two numbers.
dim B = 2
model Classes {
  l: Linear[2, 3]
  fn forward[N](x: f32[N, 2]) -> f32[N, 3] = l(x)
  optimizer opt: adam { lr = 2e-2 }
  entry train(x: f32[B, 2], y: i32[B]) -> (loss: f32) {
    loss = cross_entropy(forward(x), y)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[B, 2]) -> (p: f32[B, 3]) = softmax(forward(x))
  entry eval(x: f32[B, 2], y: i32[B]) -> (loss: f32) = cross_entropy(forward(x), y)
}
"""
PRICE = """
dim B = 2
model Price {
  l: Linear[3, 1]
  optimizer opt: adam { lr = 2e-2 }
  entry train(x: f32[B, 3], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(l(x), y)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[B, 3]) -> (price: f32[B, 1]) = l(x)
  /// Mixes rows: the error without its mean.
  entry eval(x: f32[B, 3], y: f32[B, 1]) -> (loss: f32) {
    error = l(x) - y
    return mean((error - mean(error)) ** 2)
  }
}
"""
PICTURES = """
dim B = 2
model Pictures {
  l: Linear[4, 3]
  fn forward[N](image: f32[N, 1, 2, 2]) -> f32[N, 3] = l(reshape(image, [N, 4]))
  optimizer opt: adam { lr = 2e-2 }
  entry train(image: f32[B, 1, 2, 2], label: i32[B]) -> (loss: f32) {
    loss = cross_entropy(forward(image), label)
    minimize loss with opt
    return loss
  }
  entry predict(image: f32[B, 1, 2, 2]) -> (p: f32[B, 3]) = softmax(forward(image))
}
"""
LETTERS = """
dim B = 2, T = 4
model Letters {
  vocab = "\\n abc"
  embedding: Embedding[5, 8]
  l: Linear[8, 5]
  fn forward[N](ids: i32[N, T]) -> f32[N, T, 5] = ids |> embedding |> l
  optimizer opt: adam { lr = 2e-2 }
  entry train(ids: i32[B, T], targets: i32[B, T]) -> (loss: f32) {
    loss = cross_entropy(reshape(forward(ids), [B * T, 5]), reshape(targets, [B * T]))
    minimize loss with opt
    return loss
  }
  entry predict(ids: i32[B, T]) -> (p: f32[B, T, 5]) = softmax(forward(ids))
}
"""
MODELS = {"class3": CLASSES, "price": PRICE, "pictures": PICTURES, "letters": LETTERS}
LARGE_ROWS = 300_000


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name, text in MODELS.items():
        source = folder / f"{name}.wg"
        source.write_text(text, encoding="utf-8")
        build_web(source, folder / name, twin=False)
    rows = [f"{60 + i}.5,{i % 4},{'uvw'[i % 3]}" for i in range(20)]
    (folder / "flowers.csv").write_text("a,b,label\n" + "\n".join(rows), encoding="utf-8")
    options = ["--data", str(folder / "flowers.csv"), "--scale", "--no-twin"]
    command = ["build", str(folder / "class3.wg"), *options, "-o", str(folder / "built")]
    assert main(command) == 0
    np.savez_compressed(
        folder / "arrays.npz",
        x=np.arange(20, dtype=np.float64).reshape(10, 2),
        y=np.arange(10, dtype=np.int64) % 3,
    )
    return folder


def table_cases() -> list[dict[str, Any]]:
    """The shared cases of tables for models built here, without options and known classes."""
    found = []
    for path in sorted(CASES.glob("*.expected.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        model = Path(case["model"]).stem
        is_table = isinstance(case["source"], str) and case["source"].endswith((".csv", ".json"))
        is_plain = not case["options"] and "classes" not in case
        if is_table and is_plain and model in MODELS:
            found.append({**case, "model": model})
    return found


@pytest.fixture(scope="module")
def seen(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("panel")
    large = folder / "large.csv"
    lines = (f"{i % 97 / 10},{i % 89 / 10},{'uvw'[i % 3]}" for i in range(LARGE_ROWS))
    large.write_text("a,b,label\n" + "\n".join(lines), encoding="utf-8")
    asked = {"tables": table_cases(), "large": str(large)}
    found = run_node("data_panel.mjs", str(pages), str(CASES), str(folder), data=asked)
    for name in ("light", "dark", "phone", "refused", "question", "pictures"):
        assert (folder / f"data-{name}.png").stat().st_size > 10_000
    return found


def test_data_is_labelled_as_invented_at_first(seen: Any) -> None:
    assert seen["first"]["rows"].startswith("invented16 rows of made-up numbers")
    assert seen["first"]["canTrain"]
    assert seen["problems"] == []


def test_tables_are_read_as_everywhere(seen: Any) -> None:
    """Rows, notes, uses of columns; a refused file is a red message, and Train is off."""
    cases = table_cases()
    assert len(cases) >= 24
    for case in cases:
        found = seen["tables"][case["source"]]
        if "error" in case:
            check_refusal(case, found)
        else:
            check_reading(case, found)


def check_refusal(case: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    name = case["source"]
    error = case["error"]
    place = f", {error['place']}" if error["place"] else ""
    text = fill_words(problems()[error["problem"]]["text"], error["values"])
    assert found["problem"].startswith(f"{name}{place}: {text}".replace("`", "")), name
    assert " --target" not in found["problem"] and " --columns" not in found["problem"]
    assert found["rows"] == f"{name} was not read.", name
    assert not found["canTrain"], name


def check_reading(case: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    name, rows = case["source"], case["rows"]
    assert found["problem"] is None, name
    assert found["canTrain"], name
    held = round(0.2 * rows) if case["preparation"] or rows - round(0.2 * rows) >= 2 else 0
    left = f"{rows - held} row" + ("" if rows - held == 1 else "s")
    text = f"{name}: {left} to learn from"
    assert found["rows"].startswith(text), name
    assert (", and" in found["rows"]) == bool(held), name
    used = [column["input"] or "" for column in case["columns"] if column["kind"] != "empty"]
    assert found["uses"] == used, name
    assert found["header"] == [column["name"] for column in case["columns"]], name
    notes = [note.replace("`", "") for note in case["notes"]]
    assert found["notes"][len(case["dropped"]) :] == notes, name
    for dropped, note in zip(case["dropped"], found["notes"], strict=False):
        reason = dropped["reason"].replace("`", "")
        assert note.endswith(f"left out: {reason} (first in line {dropped['first']}).")
    assert found["isScaled"] == bool(case["needs_scaling"]), name


def test_what_a_file_leaves_open_is_asked(seen: Any) -> None:
    assert "How are numbers written?" in seen["decimal"]["question"]
    assert "--" not in seen["decimal"]["problem"]
    assert seen["decided"]["problem"] is seen["decided"]["question"] is None
    assert seen["decided"]["cells"][0] == ["1,234", "0", "u"]
    assert seen["asked"]["problem"].endswith("which column is y? Choose it in the table below.")
    assert seen["asked"]["uses"] == ["", "", ""]
    assert "kind holds names" in seen["chosen"]["problem"]
    assert seen["chosen"]["uses"] == ["", "", "y"]


def test_columns_are_chosen_in_the_table(seen: Any) -> None:
    assert "kind holds names" in seen["many"]["problem"]
    assert not seen["many"]["canTrain"]
    assert seen["scaled"]["uses"] == ["x", "x", "y"]
    assert seen["scaled"]["notes"] == ["5 rows left out: no value in b (first in line 4)."]
    assert seen["scaled"]["isScaled"] and seen["scaled"]["missing"]
    assert "label holds names" in seen["wrongUse"]["problem"]
    assert not seen["unscaled"]["isScaled"]
    assert seen["unscaled"]["canTrain"]
    assert seen["filled"]["rows"] == "flowers.csv: 16 rows to learn from, and 4 rows held out"
    assert "are filled with the mean" in seen["filled"]["notes"][0]


def test_new_data_asks_a_model_that_has_learned(seen: Any) -> None:
    assert "40 steps with other data" in seen["question"]["question"]
    assert not seen["question"]["canTrain"]
    assert seen["question"]["why"] == "First answer the question about the new data, above."
    assert seen["continued"]["question"] is None
    assert seen["continued"]["step"] == 40 and seen["continued"]["canTrain"]
    # The classes of the first file stay, though the second has fewer.
    assert re.search(r"w[\d.]+ %", seen["classes"])
    assert seen["reopened"]["rows"].startswith("The model has learned from other data")
    assert not seen["reopened"]["canTrain"]
    assert re.search(r"w[\d.]+ %", seen["reopened"]["classes"])
    assert "there is no column b" in seen["otherColumns"]["problem"]
    assert not seen["otherColumns"]["canTrain"]
    assert "Start anew with this data" in seen["otherColumns"]["question"]
    assert seen["anew"]["step"] == 0 and seen["anew"]["canTrain"]
    assert seen["anew"]["problem"] is None
    assert seen["again"]["rows"].startswith("invented")
    assert seen["again"]["header"] == []


def test_a_question_about_data_has_a_way_out(seen: dict[str, Any]) -> None:
    restarted, left, forgotten = seen["restarted"], seen["left"], seen["forgotten"]
    assert (restarted["step"], restarted["canTrain"], restarted["question"]) == (0, True, None)
    assert restarted["rows"].startswith("other.csv: ")
    assert (left["canTrain"], left["question"], left["isSame"]) == (True, None, True)
    assert (forgotten["step"], forgotten["canTrain"]) == (0, True)
    assert forgotten["rows"].startswith("invented")


def test_a_large_file_does_not_block_the_page(seen: Any) -> None:
    assert seen["large"]["rows"].startswith("large.csv: 240,000 rows to learn from")
    assert seen["large"]["longest"]["count"] > 20
    assert not seen["large"]["longest"]["isFelt"], seen["large"]["longest"]


def test_arrays_pictures_and_text(seen: Any) -> None:
    assert seen["arrays"]["rows"] == "arrays.npz: 8 rows to learn from, and 2 rows held out"
    assert seen["pictures"]["rows"].startswith("picture_folders: 2 pictures to learn from, and 1")
    assert seen["pictures"]["shown"] == 3
    assert seen["pictures"]["names"] == ["cat", "cat", "dog"]
    assert seen["pictures"]["notes"] == ["1 file that is no picture is left out."]
    assert (
        "'é' is not in the model's vocabulary (2 characters are not)."
        in (seen["unknown"]["problem"])
    )
    assert seen["letters"]["canTrain"]
    assert seen["letters"]["rows"].startswith("unknown_letter.txt: 2 pieces of text to learn")
    assert "2 characters that are not" in seen["letters"]["notes"][0]


def test_a_text_of_wide_characters_is_shown(seen: Any) -> None:
    assert seen["wide"] == "abc cab\n"


def test_nothing_of_the_held_out_rows_is_known(seen: Any) -> None:
    """Scaling is that of the rows to train with; every whole batch of the others is measured."""
    held = seen["held"]
    assert (held["rows"], held["isKept"], len(held["losses"])) == (18, True, 2)
    assert held["mean"] == pytest.approx(0, abs=1e-6)
    assert held["shown"] == pytest.approx(np.mean(held["losses"]), rel=1e-2)
    assert held["losses"][0] != pytest.approx(held["losses"][1], rel=0.05)


def test_files_can_be_dropped(seen: Any) -> None:
    assert seen["dropped"]["rows"] == "dropped.csv: 2 rows to learn from, and 1 row held out"
    assert seen["dropped"]["uses"] == ["x", "x", "y"]


def test_a_page_shows_the_data_it_was_built_with(seen: Any) -> None:
    found = seen["built"]
    assert found["rows"] == "The data of this page: 16 rows to learn from, and 4 rows held out"
    assert found["header"] == ["a", "b", "label"]
    assert found["cells"][:2] == [["60.5", "0", "u"], ["61.5", "1", "v"]]
    assert seen["builtAgain"] == found


def test_the_panel_fits_a_phone_and_a_keyboard(seen: Any) -> None:
    assert not seen["isWide"]
    assert len(seen["reached"]) == 5


def test_a_browser_decodes_pictures_as_python_does(pages: Path) -> None:
    case = json.loads((CASES / "picture_folders.expected.json").read_text(encoding="utf-8"))
    folder = CASES / case["source"]
    files = [
        {
            "path": path.relative_to(CASES).as_posix(),
            "data": base64.b64encode(path.read_bytes()).decode(),
        }
        for path in sorted(folder.rglob("*.*"))
    ]
    found = run_job("chrome", pages / "pictures", "pictures", {"files": files})
    wanted = np.array(case["arrays"]["image"], np.float32)
    assert found["shape"] == list(wanted.shape)
    assert found["label"] == case["arrays"]["label"]
    assert found["preparation"] == case["preparation"]
    # Browsers keep colours of transparent pixels multiplied by their alpha, in 8 bits.
    np.testing.assert_allclose(found["image"], wanted.ravel(), atol=1 / 255)
