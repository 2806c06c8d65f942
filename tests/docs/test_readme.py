"""What the README shows is what wgcc does: its model, one kernel, one diagnostic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

import golden
from adapters import ROOT
from wgcc.compiler import Compiled, compile_file
from wgcc.errors import WgError, render

README = ROOT / "README.md"
KERNEL = re.compile(r"(<!-- kernel writing (\S+) -->\n```wgsl\n)(.*?)(```)", re.DOTALL)
TABLE_ROW = r"(?P<before>\[examples/(?P<name>\w+)\].*\| )\d+ dispatches"
EXAMPLES = ("sin", "digits", "cnn", "names", "mamba", "chargpt", "lora", "gqa_decode")
# Which entry's dispatches the READMEs of examples state, and with which words.
PROSE = {
    "train": re.compile(r"(training step.*? is )\d+(?= dispatches)", re.DOTALL),
    "decode": re.compile(r"(one \w+ (?:letter|token) )\d+"),
}
DIAGNOSTIC = re.compile(r"(<!-- diagnostic -->\n```\n)(.*?)(```)", re.DOTALL)


def text() -> str:
    return README.read_text(encoding="utf-8")


def model() -> str:
    (found,) = re.findall(r"```wg\n(.*?)```", text(), re.DOTALL)
    return str(found)


def compiled(source: str, folder: Path) -> Compiled:
    path = folder / "model.wg"
    path.write_text(source, encoding="utf-8")
    return compile_file(path)


def test_blocks_are_what_wgcc_prints(
    tmp_path: Path, bless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = compiled(model(), Path()).files()
    with pytest.raises(WgError) as raised:
        compiled(model().replace("Linear[H, 1]", "Linear[32, 1]"), Path())
    diagnostic = render(raised.value.diagnostics.errors[0])
    produced = KERNEL.sub(lambda m: f"{m[1]}{kernel_writing(m[2], files)}{m[4]}", text())
    produced = DIAGNOSTIC.sub(lambda m: f"{m[1]}{diagnostic.rstrip()}\n{m[3]}", produced)
    golden.check_text(README, with_dispatches(produced), bless)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_state_their_dispatches(name: str, bless: bool) -> None:
    path = ROOT / "examples" / name / "README.md"
    produced = path.read_text(encoding="utf-8")
    assert PROSE["train"].search(produced)
    for entry, pattern in PROSE.items():
        number = dispatches(name).get(entry, "?")
        produced = pattern.sub(lambda match, number=number: f"{match[1]}{number}", produced)
    golden.check_text(path, produced, bless)


@cache
def dispatches(name: str) -> dict[str, int]:
    """How many each entry of an example has."""
    plan = compile_file(ROOT / "examples" / name / "model.wg").planned.plan
    return {entry: len(spec["dispatches"]) for entry, spec in plan["entries"].items()}


def with_dispatches(document: str) -> str:
    """The README with the correct number wherever it states the dispatches of a training step."""

    def corrected(match: re.Match[str]) -> str:
        return f"{match['before']}{dispatches(match['name'])['train']} dispatches"

    return re.sub(TABLE_ROW, corrected, document)


def kernel_writing(value: str, files: Mapping[str, bytes]) -> str:
    """The kernel whose header names this result."""
    kernels = [data.decode() for name, data in files.items() if name.startswith("kernels/")]
    (found,) = (kernel for kernel in kernels if re.search(rf"// +y\d+: {value} ", kernel))
    return found


def test_number_of_kernels(tmp_path: Path) -> None:
    (stated,) = re.findall(r"one of the (\d+) kernels of its training step", text())
    entries = compiled(model(), tmp_path).planned.plan["entries"]
    assert len(entries["train"]["dispatches"]) == int(stated)


def test_links_work() -> None:
    """In all pages: to a file, and to a heading if one is named."""
    folders = ("runtime_js", "runtime_py", "grammar", "examples", "wgcc", "tests")
    for page in (*ROOT.glob("*.md"), *(p for f in folders for p in (ROOT / f).glob("*.md"))):
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^) :]+)\)", prose):
            file, _, heading = link.partition("#")
            target = page.parent / file if file else page
            assert target.exists(), f"{page}: {link}"
            assert not heading or heading in anchors(target), f"{page}: {link}"


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in headings}


def test_nothing_says_that_wgcc_is_on_a_package_index() -> None:
    folders = ("runtime_js", "runtime_py", "grammar", "examples", "wgcc")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    kinds = (".md", ".html", ".js", ".py")
    pages = [path for path in (*ROOT.glob("*.md"), *found) if path.suffix in kinds]
    said = re.compile(r"(pip|npm) (install|i) @?wgcc\b")
    assert [p for p in pages if said.search(p.read_text(encoding="utf-8"))] == []
