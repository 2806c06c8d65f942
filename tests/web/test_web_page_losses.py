"""What a visitor of a bundle's page cannot lose: the GPU, the storage, a page saved as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from web_stacks import JOBS, ROOT, build_web, run_node

# Text that looks like the page's own script, in a comment that the page shows and in its title.
CONFUSING = '/// const trained = 1; <script id="trained">2</script> </script>\n'


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("losses")
    # With a twin it would run as WebAssembly here, which has no device that can be destroyed.
    build_web(JOBS / "iris.wg", folder / "iris", twin=False)
    build_web(JOBS / "iris.wg", folder / "twin")
    build_web(JOBS / "only_train.wg", folder / "only_train", twin=False)
    build_web(ROOT / "examples" / "chargpt" / "model.wg", folder / "chargpt")
    build_confusing(folder)
    result = run_node("page_losses.mjs", str(folder))
    assert isinstance(result, dict)
    return result


def build_confusing(folder: Path) -> None:
    model = (JOBS / "iris.wg").read_text(encoding="utf-8").split("\n", 1)[1]
    source = folder / "confusing.wg"
    source.write_text(CONFUSING + model, encoding="utf-8")
    page = build_web(source, folder / "confusing", twin=False) / "index.html"
    text = page.read_text(encoding="utf-8")
    title = "<title>Iris const trained=undefined; const trained = 1;</title>"
    page.write_text(text.replace("<title>Iris</title>", title), encoding="utf-8")
    slotless = folder / "slotless"
    slotless.mkdir()
    slot = '<script type="text/plain" id="trained"></script>'
    assert text.count(slot) == 1
    (slotless / "index.html").write_text(text.replace(slot, ""), encoding="utf-8")


def test_no_problems(seen: dict[str, Any]) -> None:
    assert [problem for page in seen["problems"] for problem in page] == []


def test_a_gpu_lost_after_the_training(seen: dict[str, Any]) -> None:
    finished = seen["finished"]
    assert finished["steps"] == [60, 60, 60, 60] and finished["on"] == 65
    assert finished["isSame"] == [True] * 4
    assert set(finished["words"]) == {
        "The GPU was lost and is back. The training of 60 steps is all there."
    }


def test_a_gpu_lost_while_the_model_trains(seen: dict[str, Any]) -> None:
    for name, page in seen["underWay"].items():
        assert page["said"].startswith("The GPU was lost and is back. The "), name
        assert page["said"].endswith("It goes on from there.") and page["isOn"], name


def test_a_worker_that_fails_after_the_training(seen: dict[str, Any]) -> None:
    words = "The worker that computes was lost and is back. The training of 30 steps is all there."
    assert seen["failedWorker"] == {"said": words, "isSame": True, "on": 35}


def test_autosave_while_the_model_trains(seen: dict[str, Any]) -> None:
    assert seen["autosaving"] == {"isTraining": True, "asked": [True, False]}


def test_a_browser_that_cannot_store(seen: dict[str, Any]) -> None:
    room = "The browser has no room left for this page."
    private = (
        "The browser keeps nothing for this page: it is in a private window, or the settings "
        "forbid it."
    )
    download = "Download the page or the weights to keep what the model learns."
    full, none = seen["withoutStorage"]["full"], seen["withoutStorage"]["none"]
    assert full["shown"] == f"The training is not saved. {room} {download}"
    assert (full["said"], full["asked"]) == (room, True)
    shown, status, later, is_asked = none
    assert shown == f"{private} {download}"
    assert "parameters" in status
    assert later == f"The training is not saved. {private} {download}"
    assert not is_asked, "it was downloaded"


def test_a_page_with_confusing_texts_is_exported(seen: dict[str, Any]) -> None:
    exporting = seen["exporting"]
    assert [(page["step"], page["isSame"]) for page in exporting] == [
        (20, True),
        (30, True),
    ]
    assert "const trained = 1;" in exporting[1]["title"]


def test_a_page_that_cannot_be_exported_says_so(seen: dict[str, Any]) -> None:
    assert seen["unexportable"] == {
        "said": "The weights could not be put into this page: download them instead.",
        "downloads": 0,
    }


def test_text_is_written_while_the_model_learns(seen: dict[str, Any]) -> None:
    assert seen["writing"]
