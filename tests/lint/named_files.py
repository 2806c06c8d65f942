"""Comments, docstrings and pages name only files that exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from lint.tree import Problem, Tree, line_of

READ = (".py", ".js", ".mjs", ".md", ".jinja", ".lark", ".toml")
# A changelog names files of earlier versions.
NOT_READ = ("CHANGELOG.md", "tests/golden/", "tests/filetests/", "tests/bench/")
NAMED = re.compile(r"(?<![\w./*<{}-])((?:[\w.-]+/)*[\w-]+\.(?:py|m?js|md|jinja|lark))(?![\w/*-])")
# Words in capitals stand for a name: wgcc/ops/NAME.py.
PLACEHOLDER = re.compile(r"(?:^|/)[A-Z]+\.")
# Files of a user, or made by a test.
MADE = {
    "app.py", "net.py", "deep/train.py", "core/factor.js", "from-here.js", "resolve-from-here.js",
    "./module.js",
}  # fmt: skip


def files_that_are_named_exist(tree: Tree) -> Iterator[Problem]:
    ends = endings(tree.files)
    made = {*MADE, *joined_files(tree)}
    for file in tree.files:
        if not file.endswith(READ) or file.startswith(NOT_READ):
            continue
        for first, text in prose(tree, file):
            for match in NAMED.finditer(text):
                is_name = match[1] not in made and not PLACEHOLDER.search(match[1])
                if is_name and not exists(match[1], ends):
                    line = first + line_of(text, match.start()) - 1
                    yield Problem(file, line, f"no file {match[1]}")


def joined_files(tree: Tree) -> set[str]:
    """Files of a bundle, each joined from a folder of runtime_js."""
    folders = (name.split("/")[1] for name in tree.files if name.startswith("runtime_js/"))
    return {f"wgcc/{folder}.js" for folder in folders}


def endings(files: Collection[str]) -> set[str]:
    """A file may be named by its path, or by the end of it."""
    parts = (PurePosixPath(file).parts for file in files)
    return {"/".join(names[i:]) for names in parts for i in range(len(names))}


def exists(named: str, ends: Collection[str]) -> bool:
    return named.removeprefix("./").lstrip("./") in ends


def prose(tree: Tree, file: str) -> Iterator[tuple[int, str]]:
    """What people read: a line number, and the text that begins there."""
    text = tree.text(file)
    if file.endswith(".md"):
        yield 1, re.sub(r"```.*?```", _blank_lines, text, flags=re.DOTALL)
    elif file.endswith(".py"):
        yield from docstrings(tree, file)
        yield from comments(text)
    else:
        for match in re.finditer(r"(?://|#|/\*).*?$|^ \*.*?$", text, re.MULTILINE):
            yield line_of(text, match.start()), match[0]


def _blank_lines(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def docstrings(tree: Tree, file: str) -> Iterator[tuple[int, str]]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in tree.syntax(file):
        if isinstance(node, documented) and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node, clean=False) or ""


def comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
