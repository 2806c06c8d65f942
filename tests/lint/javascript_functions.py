"""Finds the functions of formatted JavaScript, and their lengths."""

from __future__ import annotations

import re
from collections.abc import Iterator

_METHOD = r"(?:(?:static|async|get|set) )*\*?(?!(?:if|for|while|switch|catch)\b)#?\w+\(.*\) \{"
# A function, whose parameters may follow on lines of their own; an arrow with a body; a method.
_START = re.compile(rf"^(\s*)(?:.*\bfunction\b.*[({{]|.*=> \{{|{_METHOD})$")


def functions(text: str) -> Iterator[tuple[int, str, int]]:
    """Where each function begins, its first line, and its number of lines."""
    lines = text.split("\n")
    for start, line in enumerate(lines):
        found = _START.match(line)
        if found:
            yield start + 1, line.strip(), _end(lines, start, found[1]) - start + 1


def _end(lines: list[str], start: int, indent: str) -> int:
    """A function ends at the first line that closes a brace where it began."""
    for i in range(start + 1, len(lines)):
        # `}) {` ends parameters, and opens the body.
        if lines[i].startswith(f"{indent}}}") and not lines[i].endswith("{"):
            return i
    raise AssertionError(f"no end is found for the function in: {lines[start]}")
