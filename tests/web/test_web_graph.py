"""The page of `wgcc show --graph html`: search, zoom, selection, stages side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from cli_runs import MODEL, run
from web_stacks import run_node


def page_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code, out, error = run(capsys, "show", *arguments, "--graph", "html")
    assert code == 0, error
    return out


def data_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    data: dict[str, Any] = json.loads(text)
    return data


def test_people_find_their_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "graph.html"
    file.write_text(page_of(capsys, str(ROOT / "examples" / "sin" / "model.wg")))
    seen = run_node("graph.mjs", str(file))
    assert seen["problems"] == [] and set(seen["requests"]) == {"file:"}
    assert seen["stages"][0] == "ir" and seen["stages"][-1] == "fused"
    assert "forward" in seen["marked"] and "@compute" in seen["kernel"]
    assert "registers:" in seen["kernel"]  # the figures
    assert seen["grows"] and seen["moves"] == pytest.approx(100, abs=2) and seen["closed"]
    assert re.fullmatch(r"\d+ match(es)?", seen["matches"])
    assert int(seen["matches"].split()[0]) == seen["highlighted"] > 0 and seen["first"]
    assert seen["walked"]
    assert [text.split(":")[0] for text in seen["panes"]] == ["ir", "grad"]
    assert seen["secondNew"] == [f"2 of {seen['new']}", 1]
    assert seen["new"] > 0 and seen["before"] == 0 and f"{seen['new']} new" in seen["changes"]
    assert seen["predict"][0] != seen["panes"][0]
    assert seen["overflow"] <= 0 and seen["isDark"]


def test_every_stage_that_changes_something_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.wg"
    model.write_text(MODEL)
    data = data_of(page_of(capsys, str(model), "--stage", "grad"))
    assert data["stage"] == "grad" and data["lines"] == MODEL.splitlines()
    train = data["entries"][0]
    stages = [stage["name"] for stage in train["stages"]]
    assert {"ir", "grad", "opt", "simplified", "fused"} <= set(stages)
    for stage in train["stages"]:
        count = len(stage["boxes"])
        assert all(0 <= number < count for number in stage["arrows"])
        assert all(0 <= number < len(train["boxes"]) for number in stage["boxes"])
    kernels = {box[5] for box in train["boxes"] if box[5]}
    assert kernels <= set(data["kernels"])


def test_texts_cannot_end_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.wg"
    model.write_text(f"// </script><script>alert(1)</script> __SCRIPT__ $& \n{MODEL}")
    page = page_of(capsys, str(model), "--entry", "predict")
    assert page.count("<script") == 2 and "alert(1)</script>" not in page
    data = data_of(page)
    assert data["lines"][0].startswith("// </script>") and "__SCRIPT__" in data["lines"][0]
    assert [entry["name"] for entry in data["entries"]] == ["predict"]


def test_bundles_show_kernels_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(ROOT / "tests" / "golden" / "regression")
    data = data_of(page_of(capsys, bundle))
    assert [stage["name"] for stage in data["entries"][0]["stages"]] == ["fused"]
    code, _, error = run(capsys, "show", bundle, "--graph", "html", "--stage", "grad")
    assert code == 1 and "show the model file" in error
    code, _, error = run(capsys, "show", bundle, "--graph", "html", "--stage", "slots")
    assert code == 2 and "cannot draw" in error
