"""The parts of a bundle's page in headless Chromium, for several kinds of models."""

from __future__ import annotations

from typing import Any

import pytest

from adapters import ROOT
from web_stacks import JOBS, build_web, run_node

MODELS = {
    "iris": JOBS / "iris.wg",
    "only_predict": JOBS / "only_predict.wg",
    "only_train": JOBS / "only_train.wg",
    "digits": ROOT / "examples" / "digits" / "model.wg",
    "chargpt": ROOT / "examples" / "chargpt" / "model.wg",
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("parts")
    for name, source in MODELS.items():
        # With a twin it would run as WebAssembly here: see test_web_wasm.py.
        build_web(source, folder / name, twin=False)
    build_web(MODELS["iris"], folder / "twin")
    found = run_node("page_parts.mjs", str(folder))
    assert isinstance(found, dict)
    return found


def test_no_problems(seen: dict[str, Any]) -> None:
    assert [problem for page in seen["problems"] for problem in page] == []


def test_training(seen: dict[str, Any]) -> None:
    training = seen["training"]
    assert (training["first"], training["second"]) == ("30", "46")
    assert training["numbers"] == ["step", "steps/s", "loss", "accuracy"]
    assert len(training["held"]) == 2 and training["held"][1].endswith(" %")
    assert training["lossLabel"].startswith("loss over steps, logarithmic: from ")
    assert training["legend"]
    undone = training["undone"]
    assert undone["step"] == 47 and undone["isTrained"] and undone["isSame"]
    assert undone["shown"] == pytest.approx(undone["loss"], rel=1e-3)
    assert training["reset"] == "0"
    assert training["isOff"] and "choose some" in training["why"]


def test_curves_keep_their_height_on_sharp_screens(seen: dict[str, Any]) -> None:
    """In the page, and in the canvas's own pixels."""
    assert seen["sharp"] == [[200, 400]] * 2


def test_fields(seen: dict[str, Any]) -> None:
    fields = seen["fields"]
    assert fields["takes"] == "Takes 4 numbers."
    assert fields["cut"] == [], "numbers that their fields are too narrow for"
    assert fields["labels"] == ["sepal length", "sepal width", "petal length", "petal width"]
    assert fields["tooltips"] == fields["labels"], "names may be too long for their places"
    assert float(fields["field"]) == pytest.approx(float(fields["slider"]))
    assert fields["bars"] == ["setosa", "versicolor", "virginica"]
    assert fields["answer"].split(" · ")[0] in fields["bars"]


def test_many_rows_are_read_as_files_are(seen: dict[str, Any]) -> None:
    fields, first = seen["fields"], ["5.1", "3.5", "1.4", "0.2"]
    assert fields["table"] == fields["commas"] == [first, ["6.3", "3.3", "6", "2.5"]]
    assert fields["header"] == [first]
    assert fields["refused"] == "The text, line 1, column 4: 'abc' is no number"
    assert fields["unsure"] == "The text, line 1, column 1: '5,100' may be 5100 or 5.100."
    assert (fields["isAsked"], fields["decided"]) == ([False, True], [["5.1", "3.5", "1.4", "2.2"]])


def test_one_of_several_names_is_chosen_from_a_list(seen: dict[str, Any]) -> None:
    assert seen["fields"]["oneHot"] == {
        "takes": "Takes one of 4 classes.",
        "count": 1,
        "names": ["a", "b", "c", "d"],
        "row": [0, 0, 1, 0],
    }


def test_pictures(seen: dict[str, Any]) -> None:
    pictures = seen["pictures"]
    assert pictures["takes"] == "Takes a picture of 8 × 8."

    def rows(name: str) -> list[list[int]]:
        numbers = [int(number) for number in pictures[name].split(",")]
        return [numbers[i : i + 8] for i in range(0, 64, 8)]

    assert rows("clear") == [[255] * 8] * 8
    # A line down the middle.
    for row in rows("drawn")[2:6]:
        assert max(row[3:5]) < 200 and row[0] == row[7] == 255
    assert min(min(row) for row in rows("typed")) < 200
    # The browser smooths the edge.
    dark, light = pytest.approx([0] * 4, abs=8), pytest.approx([255] * 4, abs=8)
    assert rows("file") == rows("pasted")
    assert pictures["same"] == [64, True], "other numbers than those of readData"
    assert all(row[:4] == dark and row[4:] == light for row in rows("file"))
    assert all(row[:4] == light and row[4:] == dark for row in rows("inverted"))
    assert len({pixel for row in rows("filmed") for pixel in row}) > 2
    assert pictures["answer"].startswith("class ")
    first, answer, second, same = pictures["several"]
    assert (first, second) == ("one.png", "two.png")
    assert answer == same and answer.endswith(" %)")


def test_writing(seen: dict[str, Any]) -> None:
    writing = seen["writing"]
    assert writing["button"] == "Stop"
    assert writing["warning"] == "The model does not know “ù”, “é”: it has 96 characters."
    assert writing["noWarning"] == ""
    assert writing["text"].startswith("Now ") and len(writing["text"]) > 20
    assert writing["entries"] == ["write text", "score", "read"]


def test_saving(seen: dict[str, Any]) -> None:
    saving = seen["saving"]
    assert saving["first"] == saving["other"] == ["Autosave", "five"]
    assert (saving["byHand"], saving["auto"], saving["kept"]) == ("5", "8", "5")
    assert saving["last"] == ["Autosave", "six"]
    assert saving["digits"] == []
    assert saving["asked"] == "beforeunload"


def test_sharing(seen: dict[str, Any]) -> None:
    sharing = seen["sharing"]
    assert sharing["hash"] == "#seed=5&steps=7&unit=epochs&speed=30&data=invented"
    assert sharing["fields"] == ["7", "epochs", "5", "30"]
    assert sharing["isSeeded"]


def test_exporting(seen: dict[str, Any]) -> None:
    exporting = seen["exporting"]
    assert exporting["before"] == exporting["after"] != exporting["reset"]
    assert exporting["step"] == "20"
    # It knows its columns and classes, and has no data to train on.
    assert (exporting["labels"], exporting["bars"]) == (["a", "b", "c", "d"], ["u", "v", "w"])
    assert exporting["isOff"]


def test_served_under_a_strict_policy(seen: dict[str, Any]) -> None:
    for name, kind in (("iris", "webgpu"), ("twin", "wasm")):
        served = seen["served"][name]
        assert (served["problems"], served["status"]) == ([], kind)
        assert served["step"] == served["exported"] == "20"
        assert served["loading"][-1] == "Loading weights: 0.0 of 0.0 MB"


def test_keyboard(seen: dict[str, Any]) -> None:
    keyboard = seen["keyboard"]
    assert keyboard["count"] > 25
    assert (keyboard["nameless"], keyboard["missed"], keyboard["unseen"]) == ([], [], [])


def test_models_with_one_kind_of_entry(seen: dict[str, Any]) -> None:
    assert seen["bare"] == {
        "predicting": ["try"],
        "training": ["data", "train", "keep"],
        "step": "5",
    }
