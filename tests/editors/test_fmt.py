"""`wgcc fmt`: the layout that it chooses, and what it never changes."""

from __future__ import annotations

import io
import random
import re
import stat
import sys
from pathlib import Path

import pytest

from adapters import ROOT
from cli_runs import WRONG, run
from shuffled_layout import shuffled
from wgcc.compiler import compile_file
from wgcc.errors import Diagnostics, Source
from wgcc.syntax import ast
from wgcc.syntax.layout import code_of, format_source
from wgcc.syntax.parser import parse
from wgcc.syntax.print_source import print_source
from wgcc.syntax.templates import form
from wgcc.syntax.tree_text import walk

FOLDERS = ("grammar", "examples", "tests")
# Programs that show mistakes are laid out as whoever made the mistake would.
WITH_MISTAKES = (ROOT / "tests/filetests/diagnostics", ROOT / "tests/filetests/syntax")


def programs() -> list[Path]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.wg"))]
    return [path for path in paths if not any(map(path.is_relative_to, WITH_MISTAKES))]


def tree_of(text: str) -> ast.File | None:
    diagnostics = Diagnostics()
    tree = parse(Source("m.wg", text), diagnostics)
    return None if diagnostics.errors else tree


def laid_out(text: str) -> str:
    result = format_source(Source("m.wg", text), Diagnostics())
    assert result is not None, text
    return result


def test_every_program_of_the_repository_is_laid_out() -> None:
    assert len(programs()) > 90
    for path in programs():
        text = path.read_text()
        assert laid_out(text) == text, f"wgcc fmt {path.relative_to(ROOT)}"


def test_programs_in_the_reference_are_laid_out() -> None:
    page = (ROOT / "grammar" / "README.md").read_text()
    blocks = re.findall(r"```wg\n(.*?)```", page, re.DOTALL)
    assert len(blocks) > 15
    for block in blocks:
        assert laid_out(block) == block


def test_layout_changes_no_program_and_is_final() -> None:
    rng = random.Random(7)
    mistakes = [path.read_text() for folder in WITH_MISTAKES for path in folder.glob("*.wg")]
    texts = [text for text in mistakes if tree_of(text) is not None]
    for text in (*texts, *(shuffled(path.read_text(), rng) for path in programs()[::3])):
        result = laid_out(text)
        assert meaning(tree_of(result)) == meaning(tree_of(text)), f"{text}\n---\n{result}"
        assert code_of(result) == code_of(text)
        assert laid_out(result) == result, f"laid out twice, it differs:\n{text}"
        assert all(line == line.rstrip() for line in result.splitlines())


def meaning(tree: ast.File | None) -> tuple[object, ...]:
    """The tree without the documentation of members, which is found by line: two that begin on the
    same line share it."""
    assert tree is not None
    docs = [getattr(item, "doc", "") for item in tree.items]
    for member in walk(tree):
        if isinstance(member, ast.Function) and member not in tree.items:
            member.doc = ""
    return form(tree), docs


def test_printed_trees_are_laid_out() -> None:
    for path in programs()[::4]:
        tree = tree_of(path.read_text())
        assert tree is not None
        assert laid_out(print_source(tree)) == print_source(tree), path


@pytest.mark.parametrize("name", ["examples/sin/model.wg", "tests/golden/loops.wg"])
def test_the_plan_of_a_program_stays_the_same(name: str, tmp_path: Path) -> None:
    """Where lines begin is kept here, because a plan names lines."""
    text = (ROOT / name).read_text()
    code = text.partition("dim ")
    squeezed = "".join([*code[:2], code[2].replace(" = ", "=").replace("    ", "  ")])
    assert squeezed != text
    assert laid_out(squeezed) == text
    plans = []
    for variant in (text, squeezed):
        (tmp_path / "m.wg").write_text(variant)
        plan = compile_file(tmp_path / "m.wg", twin=False).planned.plan
        plans.append({key: value for key, value in plan.items() if key != "model"})
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dim  A=1 ,B  =  A*2\n\n\n\nconst c=-A", "dim A = 1, B = A * 2\n\nconst c = -A\n"),
        ("model M{entry f(x:f32?[2 ])->(y:f32)=x [ .. ,0 ]}", "model M { entry f(x: f32?[2]) -> (y: f32) = x[.., 0] }\n"),  # noqa: E501
        ("const c = x[1:3,:-1,::2, a+b:,new,at+:2]", "const c = x[1 : 3, : -1, :: 2, a + b :, new, at +: 2]\n"),  # noqa: E501
        ("const c = a - - b** -2 - ( - 1 )", "const c = a - -b ** -2 - (-1)\n"),
        ("const c = 0 .. n-1 step ( 2 )", "const c = 0..n - 1 step (2)\n"),
        ("const c = if (a) then [1] else not (b)", "const c = if (a) then [1] else not (b)\n"),
        ("const c = step (2)+ new [3] . grad (1)", "const c = step(2) + new[3].grad(1)\n"),
        ("layer A{}", "layer A { }\n"),
        ("layer A{\n\n}", "layer A { }\n"),
        ("layer A{ // why\n}", "layer A {  // why\n}\n"),
        ("test \"t\"{a=1;b=2}", 'test "t" { a = 1; b = 2 }\n'),
        ("test \"t\"{a=1;b=2\n\n}", 'test "t" {\n  a = 1\n  b = 2\n}\n'),
        ("test \"t\"\n{\nif a { b() }\nelse\n{\nc()}}", 'test "t" {\n  if a { b() } else {\n    c()\n  }\n}\n'),  # noqa: E501
        ("const c = f(a,\nb,g(1,\n2))", "const c = f(a,\n  b, g(1,\n    2))\n"),
        ("const c = a+\nb\n|> f", "const c = a +\n  b\n  |> f\n"),
        ("fn f(\na: f32,\n// why\n)->f32{\nreturn a}", "fn f(\n  a: f32,\n  // why\n) -> f32 {\n  return a\n}\n"),  # noqa: E501
        ("dim A = 1 // a\ndim BB = 2   //b\n\ndim C = 3 // c", "dim A = 1   // a\ndim BB = 2  //b\n\ndim C = 3  // c\n"),  # noqa: E501
        ("\ufeff\r\n// alone  \r\n", "// alone\n"),
        ("", ""),
    ],
)  # fmt: skip
def test_layout(text: str, expected: str) -> None:
    assert laid_out(text) == expected


def test_files_are_written_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "a.wg", tmp_path / "more"
    folder.mkdir()
    file.write_text("dim A=1\n")
    file.chmod(0o640)
    (folder / "b.wg").write_text("dim A = 1\n")
    code, _, err = run(capsys, "fmt", str(file), str(folder))
    assert (code, file.read_text()) == (0, "dim A = 1\n")
    assert "1 file changed" in err
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_check_and_diff_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.wg"
    file.write_text("dim A=1\n")
    code, _, err = run(capsys, "fmt", "--check", str(file))
    assert code == 1 and "would change" in err
    code, out, _ = run(capsys, "fmt", "--diff", str(file))
    assert code == 1 and "-dim A=1\n+dim A = 1" in out
    assert file.read_text() == "dim A=1\n"
    file.write_text("dim A = 1\n")
    assert run(capsys, "fmt", "--check", str(file))[0] == 0
    assert run(capsys, "fmt", "--diff", str(file))[:2] == (0, "")


def test_stdin_is_laid_out_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"dim A=1")))
    assert run(capsys, "fmt", "-")[:2] == (0, "dim A = 1\n")


def test_a_file_with_syntax_errors_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, right = tmp_path / "a.wg", tmp_path / "b.wg"
    wrong.write_text(WRONG.read_text() + "\nfn (")
    right.write_text("dim A=1")
    before = wrong.read_text()
    code, _, err = run(capsys, "fmt", str(wrong), str(right))
    assert code == 1 and "error[WG01" in err
    assert wrong.read_text() == before and right.read_text() == "dim A = 1\n"
