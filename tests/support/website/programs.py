"""Addresses that open the programs of a page in a workbench."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from markdown_it.token import Token

from wgcc.errors import Diagnostics, Source
from wgcc.syntax.parser import parse
from wgcc.workbench.address import address_of

_WGSL_FILE = re.compile(r'wgsl\("([\w-]+\.wgsl)"')
_READ = re.compile(r'(?:from |wgsl\()"([\w-]+\.\w+)"')


def shown_program(text: str, before: Sequence[Token]) -> str:
    """Of a whole program with the WGSL it reads, which the page shows before; "" of a fragment."""
    if not _is_program(text):
        return ""
    files = {"model.wg": text}
    shown = [token.content for token in before if token.info.split(" ")[0] == "wgsl"]
    for name in _WGSL_FILE.findall(text):
        if shown:
            files[name] = shown[-1]
    return address_of(files, "model.wg")


def program_of_file(path: Path) -> str:
    """Of a model in a file, with all that it imports; "" of a file without a model."""
    text = path.read_text(encoding="utf-8")
    if "\nmodel " not in text or not _is_program(text):
        return ""
    files = {path.name: text}
    waiting = _READ.findall(text)
    while waiting:
        name = waiting.pop()
        if name not in files and (path.parent / name).is_file():
            files[name] = (path.parent / name).read_text(encoding="utf-8")
            waiting += _READ.findall(files[name])
    return address_of(files, path.name)


def _is_program(text: str) -> bool:
    problems = Diagnostics()
    parse(Source("model.wg", text), problems)
    return not problems.items
