"""Rules for the tests: names that nobody confuses, and shared code in tests/support."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import PurePosixPath

from lint.tree import Problem, Tree


def names_differ_by_more_than_a_letter(tree: Tree) -> Iterator[Problem]:
    files = [name for name in tree.python("tests") if _stem(name).startswith("test_")]
    for one, other in combinations(sorted(files, key=_stem), 2):
        if _close(_stem(one), _stem(other)):
            yield Problem(other, 1, f"its name is nearly that of {one}")


def _stem(name: str) -> str:
    return PurePosixPath(name).stem


def _close(one: str, other: str) -> bool:
    """Equal but for one letter that is added, removed or replaced."""
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) > 1:
        return False
    differ = (i for i in range(len(short)) if short[i] != long[i])
    same = next(differ, len(short))
    return short[same + (len(short) == len(long)) :] == long[same + 1 :]


def shared_code_is_in_support(tree: Tree) -> Iterator[Problem]:
    """A test file may import others of its folder; one of another folder is not on the path."""
    folders = {_stem(name): str(PurePosixPath(name).parent) for name in tree.python("tests")}
    for module in tree.python("tests"):
        for line, name in tree.imports(module):
            folder = folders.get(name) if name.startswith("test_") else None
            if folder and folder != str(PurePosixPath(module).parent):
                yield Problem(module, line, f"{name} is in {folder}; tests/support is for all")
