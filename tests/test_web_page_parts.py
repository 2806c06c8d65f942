"""The parts of a bundle's page in headless Chromium, for several kinds of models."""

from __future__ import annotations

from typing import Any

import pytest

from web_stacks import JOBS, build_web, run_node

MODELS = {
    "iris": JOBS / "iris.wg",
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("parts")
    for name, source in MODELS.items():
        # With a twin it would run as WebAssembly here: see test_web_wasm.py.
        build_web(source, folder / name, twin=False)
    found = run_node("page_parts.mjs", str(folder))
    assert isinstance(found, dict)
    return found


def test_no_problems(seen: dict[str, Any]) -> None:
    assert [problem for page in seen["problems"] for problem in page] == []


def test_training(seen: dict[str, Any]) -> None:
    training = seen["training"]
    assert (training["first"], training["second"]) == ("30", "46")
    named = {"step", "steps/s", "loss", "accuracy", "loss, held out", "accuracy, held out"}
    assert set(training["numbers"]) == named
    assert training["lossLabel"].startswith("loss over steps: from ")
    assert training["legend"]
    undone = training["undone"]
    assert undone["step"] == 47 and undone["isTrained"] and undone["isSame"]
    assert undone["shown"] == pytest.approx(undone["loss"], rel=1e-3)
    assert training["reset"] == "0"
    assert training["isOff"] and "choose some" in training["why"]
