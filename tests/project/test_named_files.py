"""Comments, docstrings and pages name only files that exist; every function is used."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracked import ROOT, tracked_files

TRACKED = [path.relative_to(ROOT).as_posix() for path in tracked_files()]
# A changelog names files of earlier versions.
READ = [
    name
    for name in TRACKED
    if name.endswith((".py", ".js", ".mjs", ".md", ".jinja", ".lark", ".toml"))
    and not name.startswith(("CHANGELOG.md", "tests/golden/", "tests/filetests/", "tests/bench/"))
]
NAMED = re.compile(r"(?<![\w./*<{}-])((?:[\w.-]+/)*[\w-]+\.(?:py|m?js|md|jinja|lark))(?![\w/*-])")
# Words in capitals stand for a name: wgcc/ops/NAME.py.
PLACEHOLDER = re.compile(r"(?:^|/)[A-Z]+\.")
# Files of a bundle (joined from folders of runtime_js), of a user, or made by a test.
MADE = {
    *(f"wgcc/{folder.name}.js" for folder in (ROOT / "runtime_js").iterdir() if folder.is_dir()),
    "app.py", "net.py", "deep/train.py", "core/factor.js", "from-here.js", "resolve-from-here.js",
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_files_that_are_named_exist(name: str) -> None:
    text = prose(ROOT / name)
    named = {found for found in NAMED.findall(text) if not PLACEHOLDER.search(found)}
    assert sorted(found for found in named - MADE if not exists(found)) == []


def exists(named: str) -> bool:
    """By its path, or by the end of it."""
    end = "/" + named.removeprefix("./").lstrip("./")
    return any(f"/{path}".endswith(end) for path in TRACKED)


def prose(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    if path.suffix == ".py":
        return "\n".join([*docstrings(text), *comments(text)])
    return "\n".join(re.findall(r"(?://|#|/\*).*?$|^ \*.*?$", text, re.MULTILINE))


def docstrings(text: str) -> Iterator[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented):
            yield ast.get_docstring(node) or ""


def comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@pytest.mark.parametrize("text", ["see `gone.py`", "(gone/away.md)", "in wgcc/ops/gone.py, too"])
def test_a_stale_name_is_found(text: str) -> None:
    (named,) = NAMED.findall(text)
    assert not exists(named) and not PLACEHOLDER.search(named)


@pytest.mark.parametrize("text", ["wgcc/errors.py", "`registry.py`", "[page](../wgcc/BUNDLE.md)"])
def test_a_name_of_a_file_is_found(text: str) -> None:
    (named,) = NAMED.findall(text)
    assert exists(named)


# Called by Python, the standard library, click or wasmtime.
CALLED_FROM_OUTSIDE = re.compile(r"__\w+__|do_[A-Z]+|log_message|get_command|_as_extern")


def test_every_function_is_used() -> None:
    """By its name, which occurs somewhere besides its definition."""
    sources = {name: (ROOT / name).read_text(encoding="utf-8") for name in TRACKED if is_code(name)}
    words = Counter(word for text in sources.values() for word in re.findall(r"\w+", text))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    unused = [
        f"{name}: {node.name}"
        for name, text in sources.items()
        if re.match(r"(?:wgcc|runtime_py)/.*\.py$", name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds) and words[node.name] == 1
        if not CALLED_FROM_OUTSIDE.fullmatch(node.name)
    ]
    assert unused == []


def is_code(name: str) -> bool:
    return name.endswith((".py", ".jinja", ".toml")) or name == "runtime_py/README.md"
