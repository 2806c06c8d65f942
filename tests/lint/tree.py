"""The files of a checkout, each read and parsed once."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Tree:
    """Names of files are relative to the root, with slashes."""

    root: Path

    @cached_property
    def files(self) -> list[str]:
        return sorted(path.relative_to(self.root).as_posix() for path in tracked_files(self.root))

    def python(self, *folders: str) -> list[str]:
        starts = tuple(f"{folder}/" for folder in folders)
        return [name for name in self.files if name.endswith(".py") and name.startswith(starts)]

    def text(self, name: str) -> str:
        return _text(self.root / name)

    def syntax(self, name: str) -> list[ast.AST]:
        """All nodes, the module first. A file that is no Python is ruff's matter."""
        return _syntax(self.root / name)

    def imports(self, name: str) -> Iterator[tuple[int, str]]:
        """Lines and names of modules; "" for a relative import."""
        for node in self.syntax(name):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.lineno, "" if node.level else node.module or ""


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@cache
def _syntax(path: Path) -> list[ast.AST]:
    try:
        return list(ast.walk(ast.parse(_text(path))))
    except SyntaxError:
        return [ast.Module([], [])]


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def tracked_files(root: Path) -> list[Path]:
    """What git tracks; in an unpacked archive, everything but what tools have left there."""
    if shutil.which("git") and (root / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True
        )
        paths = [root / name.decode() for name in listed.stdout.split(b"\0") if name]
    else:
        left = re.compile(r"/\.venv/|/\.cache/|/__pycache__/|/\.\w+_cache/|/\.hypothesis/|/\.git/")
        paths = [
            path
            for path in root.rglob("*")
            if not left.search(f"/{path.relative_to(root).as_posix()}")
        ]
    return [path for path in paths if path.is_file()]
