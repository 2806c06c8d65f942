"""Files that import each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from wgcc.elaborate import check
from wgcc.errors import Diagnostics

MODEL = """
model Net {{
  l1: {layer}[4]
  entry run(x: f32[2, 4]) -> (y: f32[2, 4]) = l1(x)
}}
"""
TWICE = """
dim D = 9
layer Twice[D] {
  f: Linear[D, D]
  fn forward(x: f32[.., D]) -> f32[.., D] = f(f(x))
}
"""


def found(folder: Path, files: dict[str, str]) -> list[str]:
    """Problems of `model.wg` among `files`, as `FILE:LINE CODE MESSAGE`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    diagnostics = Diagnostics()
    programs = check(folder / "model.wg", diagnostics)
    assert programs or diagnostics.errors
    return [f"{item.span.place} {item.code} {item.message}" for item in diagnostics]


def test_paths_are_relative_to_the_importing_file(tmp_path: Path) -> None:
    files = {
        "model.wg": 'import Deep from "parts/deep.wg"' + MODEL.format(layer="Deep"),
        "parts/deep.wg": 'import "twice.wg" as t\nlayer Deep[D] {\n  a: t.Twice[D]\n'
        "  fn forward(x: f32[.., D]) -> f32[.., D] = a(x)\n}",
        "parts/twice.wg": TWICE,
    }
    assert found(tmp_path, files) == []


def test_cycles_name_every_file(tmp_path: Path) -> None:
    files = {
        "model.wg": 'import A from "a.wg"' + MODEL.format(layer="A"),
        "a.wg": 'import B from "b.wg"\nlayer A[D] { fn forward(x: f32[.., D]) -> f32[.., D] = x }',
        "b.wg": 'import A from "a.wg"\nlayer B[D] { a: A[D] }',
    }
    assert found(tmp_path, files) == ["b.wg:1 WG0702 `a.wg` imports itself"]


def test_own_definitions_win_over_the_library(tmp_path: Path) -> None:
    own = "layer Linear[D] {\n  fn forward(x: f32[.., D]) -> f32[.., D] = x * 2.0\n}\n"
    assert found(tmp_path, {"model.wg": own + MODEL.format(layer="Linear")}) == []


def test_error_in_an_imported_file_names_it_and_the_line_that_led_there(tmp_path: Path) -> None:
    part = "layer Bad[D] {\n  dim K = D / 3\n  fn forward(x: f32[.., D]) -> f32[.., D] = x\n}"
    files = {
        "model.wg": 'import Bad from "part.wg"' + MODEL.format(layer="Bad"),
        "part.wg": part,
    }
    assert found(tmp_path, files) == ["part.wg:2 WG0402 4 is not divisible by 3"]
    diagnostics = Diagnostics()
    check(tmp_path / "model.wg", diagnostics)
    (item,) = diagnostics
    assert item.span.place == "part.wg:2"
    assert [(span.place, text) for span, text in item.others] == [
        ("model.wg:3", "reached from here")
    ]


@pytest.mark.parametrize("target", ["../secret.wg", "/secret.wg", "a/../../secret.wg"])
def test_imports_stay_inside_the_folder(tmp_path: Path, target: str) -> None:
    (tmp_path / "secret.wg").write_text(TWICE, encoding="utf-8")
    text = f'import Twice from "{target}"' + MODEL.format(layer="Twice")
    (problem,) = found(tmp_path / "inside", {"model.wg": text})
    assert problem.startswith("model.wg:1 WG0704")


def test_links_do_not_lead_outside(tmp_path: Path) -> None:
    (tmp_path / "secret.wg").write_text(TWICE, encoding="utf-8")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link.wg").symlink_to(tmp_path / "secret.wg")
    text = 'import Twice from "link.wg"' + MODEL.format(layer="Twice")
    (problem,) = found(tmp_path / "inside", {"model.wg": text})
    assert problem.startswith("model.wg:1 WG0704")


def test_broken_files_are_reported_once_where_they_break(tmp_path: Path) -> None:
    files = {
        "model.wg": 'import Twice from "twice.wg"' + MODEL.format(layer="Twice"),
        "twice.wg": TWICE.replace("f(f(x))", "f(f(x)"),
    }
    (problem,) = found(tmp_path, files)
    assert problem.startswith("twice.wg:5 WG01")


def test_files_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "twice.wg").write_bytes(b"\xff\xfe\x00")
    files = {"model.wg": 'import Twice from "twice.wg"' + MODEL.format(layer="Twice")}
    assert found(tmp_path, files) == ["model.wg:1 WG0701 cannot read `twice.wg`"]


def test_chains_of_imports_have_an_end(tmp_path: Path) -> None:
    def chain(length: int) -> list[str]:
        files = {f"m{i}.wg": f'import "m{i + 1}.wg" as next\n' for i in range(length)}
        last = {f"m{length}.wg": "dim N = 1\n"}
        model = 'import "m0.wg" as first' + MODEL.format(layer="RMSNorm")
        return found(tmp_path, {"model.wg": model, **files, **last})

    assert chain(40) == []
    (problem,) = chain(300)
    assert problem == "m49.wg:1 WG0702 imports are nested more than 50 levels deep"
