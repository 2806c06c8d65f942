"""What the compiler answers the workbench, from the archive that the page unpacks."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from wgcc.workbench.archive import (
    compiler_archive,
    data_archive,
    page_archive,
    trim_library,
)
from wgcc.workbench.site import example_programs
from wgcc.workbench.units import Units
from wgcc.workbench.wire import Workbench

# What functions import that pages never call: bundles on a disk, commands, runs of models.
NOT_IN_PAGES = {
    "wgcc.bundle.folder", "wgcc.cli", "wgcc.in_memory", "wgcc.workbench.frame",
    # Fetched when somebody asks what a kernel costs.
    "wgcc.access.model",
    *(
        f"wgcc_runtime.{name}"
        for name in (
            "arrays", "blas_threads", "drawn", "loader", "quick_call", "selftest", "weights",
        )
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("workbench")
    for content in (compiler_archive(), data_archive(), page_archive()):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(folder / "compiler")
    program = ROOT / "tests" / "support" / "workbench_wire.py"
    done = subprocess.run(
        [sys.executable, str(program), str(folder / "compiler"), str(folder / "models")],
        input=json.dumps(example_programs()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_example_is_checked_without_a_problem(answers: Any) -> None:
    lessons = [name for name in answers["examples"] if name.startswith("lesson: ")]
    assert {"lesson: line", "lesson: curve"} <= set(lessons)
    others = len(answers["examples"]) - len(lessons)
    texts = [path.read_text("utf-8") for path in (ROOT / "examples").rglob("*.wg")]
    assert others == sum("\nmodel " in text for text in texts)
    wrong = {name: found for name, found in answers["examples"].items() if found}
    assert [p for found in wrong.values() for p in found if p["severity"] == "error"] == []


def test_a_problem_has_its_place_in_the_units_of_a_page_and_a_fix(answers: Any) -> None:
    (text,) = answers["text"].values()
    problem, *_ = answers["wrong"]["problems"]
    units = text.encode("utf-16-le")
    assert units[2 * problem["from"] : 2 * problem["to"]].decode("utf-16-le") == "tahn"
    (fix,) = problem["fixes"]
    assert fix["edits"] == [
        {"file": "model.wg", "from": problem["from"], "to": problem["to"], "text": "tanh"}
    ]


def test_questions_about_a_place(answers: Any) -> None:
    assert "f32[N, H]" in [hint["text"] for hint in answers["hints"]]
    assert "tanh" in answers["hover"]["text"]
    assert answers["signature"]["signature"].startswith("mse(")
    assert {"tanh", "Linear", "forward"} <= set(answers["labels"])
    assert len(answers["rename"]["edits"]) == 3
    assert answers["format"]


def test_a_build_gives_what_a_runtime_needs(answers: Any) -> None:
    assert {"plan.json", "twin.wasm", "kernels/tanh.wgsl"} <= set(answers["files"])
    assert "tanh.wgsl" in answers["kernels"]
    assert answers["stages"]["opt"] > answers["stages"]["ir"] > 100


def test_figures_of_kernels_are_those_of_numpy(answers: Any, tmp_path: Path) -> None:
    text = (ROOT / "examples" / "sin" / "model.wg").read_text(encoding="utf-8")
    bench = Workbench(str(tmp_path))
    bench.ask("build", {"files": {"model.wg": text}, "main": "model.wg", "twin": False})
    assert len(answers["figures"]) > 10
    for name, figures in answers["figures"].items():
        assert figures == [list(figure) for figure in bench.ask("figures", {"kernel": name})]


def test_every_import_of_the_compiler_is_in_its_archive() -> None:
    """A module that somebody adds must not be missing in pages, and nothing else of wgcc used."""
    archive = zipfile.ZipFile(io.BytesIO(compiler_archive()))
    names = archive.namelist()
    modules = {n.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for n in names}
    missing: dict[str, set[str]] = {}
    for name in names:
        tree = ast.parse(archive.read(name)) if name.startswith("wgcc") else ast.Module([], [])
        for module in _imports(tree):
            # The runtime names what it imports when somebody asks for it.
            is_asked_for = name == "wgcc_runtime/__init__.py"
            if module.startswith("wgcc") and module not in modules and not is_asked_for:
                missing.setdefault(module, set()).add(name)
    assert {m: users for m, users in missing.items() if m not in NOT_IN_PAGES} == {}


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_a_build_says_what_is_wrong_or_too_large(answers: Any) -> None:
    assert "unknown name `tahn`" in answers["broken"]["problem"]
    assert "the workbench trains models of up to 512 MiB" in answers["large"]["problem"]


@pytest.mark.parametrize("text", ["plain", "é ü", "a\N{GRINNING FACE}b\N{GRINNING FACE}c"])
def test_units_are_those_of_javascript(text: str) -> None:
    units = Units(text)
    for offset in range(len(text) + 1):
        assert units.of(offset) == len(text[:offset].encode("utf-16-le")) // 2
        assert units.offset(units.of(offset)) == offset


def test_the_library_keeps_what_python_needs() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ("os.py", "encodings/utf_8.py", "encodings/gbk.py", "email/parser.py"):
            archive.writestr(name, "")
    kept = zipfile.ZipFile(io.BytesIO(trim_library(buffer.getvalue()))).namelist()
    assert kept == ["os.py", "encodings/utf_8.py"]


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    from wgcc.errors import WgError
    from wgcc.workbench.folder import write_site

    (tmp_path / "mine.txt").touch()
    with pytest.raises(WgError, match="holds other files"):
        write_site(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_without_node_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from wgcc.errors import WgError
    from wgcc.workbench.npm_parts import npm_folder

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(WgError, match=r"needs Node and npm.*`wgcc-workbench`"):
        npm_folder()
