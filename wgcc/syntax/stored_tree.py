"""Syntax trees as JSON, so that those of the standard library are kept between runs.

Parsing the library takes longer than all else that a check of a small model does.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from wgcc.errors import Diagnostic, Diagnostics, Source, Span
from wgcc.files import data_dir, keep_cached, read_cached
from wgcc.syntax import ast
from wgcc.syntax.parser import parse

_TUPLE, _SPAN = "", "Span"
_CLASSES = {name: kind for name, kind in vars(ast).items() if isinstance(kind, type)}


def parse_once(source: Source) -> tuple[ast.File, list[Diagnostic]]:
    """The tree of a text, and what is wrong with it; a tree without errors is kept."""
    key = f"tree-{hashlib.sha256(f'{_parser()} {source.text}'.encode()).hexdigest()[:24]}"
    kept = read_cached(key)
    if kept is not None:
        tree: ast.File = decode(json.loads(kept), source)
        return tree, []
    diagnostics = Diagnostics()
    tree = parse(source, diagnostics)
    if not diagnostics.items:
        keep_cached(key, json.dumps(encode(tree)).encode())
    return tree, diagnostics.items


@functools.cache
def _parser() -> str:
    """Names what makes a tree of a text: a tree that another parser made is not read."""
    digest = hashlib.sha256((data_dir("grammar") / "wg.lark").read_bytes())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def encode(part: Any) -> Any:
    """A node is a list of its class, its place and its fields."""
    if isinstance(part, tuple):
        return [_TUPLE, *map(encode, part)]
    if isinstance(part, Span):
        return [_SPAN, part.start, part.end]
    if not isinstance(part, ast.Syntax):
        assert part is None or isinstance(part, str | int | float), f"{type(part)} in a tree"
        return part
    values = [getattr(part, field.name) for field in fields(part)]
    return [type(part).__name__, part.span.start, part.span.end, *map(encode, values[1:])]


def decode(part: Any, source: Source) -> Any:
    if type(part) is not list:
        return part
    kind = part[0]
    if kind == _TUPLE:
        return tuple([decode(item, source) for item in part[1:]])
    span = Span(source, part[1], part[2])
    if kind == _SPAN:
        return span
    return _CLASSES[kind](span, *[decode(item, source) for item in part[3:]])
