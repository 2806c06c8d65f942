"""Compare produced files with a folder of expected ones; `--bless` rewrites the folder instead."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

import pytest

SHOWN_LINES = 200


def check(folder: Path, produced: Mapping[str, str | bytes], bless: bool) -> None:
    """`produced` maps paths relative to `folder` (with `/`) to their contents, text or bytes.

    A file of the folder that was not produced is stale, and fails like a difference.
    """
    wanted = {name: _as_bytes(content) for name, content in produced.items()}
    if bless:
        _rewrite(folder, wanted)
        return
    expected = _read(folder)
    changed = [name for name in sorted(expected | wanted) if expected.get(name) != wanted.get(name)]
    if changed:
        lines = [line for name in changed for line in _diff(name, expected, wanted)]
        shown = "".join(lines[:SHOWN_LINES])
        more = f"\n… {len(lines) - SHOWN_LINES} more lines" if len(lines) > SHOWN_LINES else ""
        advice = f"\nif this is intended: python3 dev.py bless -k {folder.name}"
        pytest.fail(f"{folder.name} is not as expected\n{shown}{more}{advice}", pytrace=False)


def check_text(path: Path, produced: str, bless: bool) -> None:
    """The same for a single text file."""
    if bless:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(produced.encode())
        return
    expected = path.read_bytes().decode() if path.is_file() else ""
    if expected != produced:
        shown = "".join(_unified(path.name, expected, produced))
        advice = f"\nif this is intended: python3 dev.py bless -k {path.stem}"
        pytest.fail(f"{path.name} is not as expected\n{shown}{advice}", pytrace=False)


def _read(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _rewrite(folder: Path, wanted: Mapping[str, bytes]) -> None:
    for stale in _read(folder).keys() - wanted.keys():
        (folder / stale).unlink()
    for name, content in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _diff(name: str, expected: Mapping[str, bytes], wanted: Mapping[str, bytes]) -> list[str]:
    if name not in expected:
        return [f"new file {name}\n"]
    if name not in wanted:
        return [f"stale file {name}\n"]
    try:
        return _unified(name, expected[name].decode(), wanted[name].decode())
    except UnicodeDecodeError:
        sizes = f"{len(expected[name])} bytes expected, {len(wanted[name])} produced"
        return [f"different contents: {name} ({sizes})\n"]


def _unified(name: str, expected: str, produced: str) -> list[str]:
    before, after = expected.splitlines(keepends=True), produced.splitlines(keepends=True)
    return list(difflib.unified_diff(before, after, f"expected/{name}", f"produced/{name}", n=2))


def _as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
