"""index.html of a bundle, opened from disk in headless Chromium, used as a person would use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters import ROOT
from web_stacks import build_web, run_node


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "bundle"
    # With a twin it would run as WebAssembly here: see test_web_wasm.py.
    return build_web(ROOT / "examples" / "sin" / "model.wg", folder, twin=False)


def test_page(bundle: Path, tmp_path: Path) -> None:
    csv = tmp_path / "points.csv"
    rows = [f"{i / 100},{(i / 100) ** 2}" for i in range(-150, 150)]
    csv.write_text("x,y\n" + "\n".join(rows), encoding="utf-8")
    seen = run_node("page.mjs", str(bundle / "index.html"), str(csv), str(tmp_path))
    assert seen["problems"] == seen["withoutProblems"] == []
    assert "4,353 parameters" in seen["status"]
    assert seen["last"] < seen["first"] / 3
    assert seen["stopped"]
    assert seen["reloaded"] == 0
    assert seen["restored"] == seen["opened"] == seen["step"] >= 200
    assert seen["rows"] == "points.csv: 240 rows to learn from, and 60 rows held out"
    assert "bad.csv: x takes 1 column, but none is left" in seen["bad"]
    assert not seen["canTrain"]
    assert "model.wg:" in seen["kernel"] and "@compute" in seen["kernel"]
    assert not seen["wide"], "the page scrolls sideways on a phone"
    assert seen["longest"]["count"] > 20
    assert not seen["longest"]["isFelt"], f"the page is blocked: {seen['longest']}"
    assert "Chrome" in seen["without"] and "Python" in seen["without"]
    for name in ("page-light", "page-dark", "page-without"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_page_from_http(bundle: Path) -> None:
    seen = run_node("http.mjs", str(bundle))
    assert "https" in seen["card"]
    assert (seen["code"], seen["problems"]) == ("no-webgpu", [])
