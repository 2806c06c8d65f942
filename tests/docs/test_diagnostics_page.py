"""wgcc/DIAGNOSTICS.md lists every diagnostic code with its messages, taken from the code itself."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import golden
from adapters import ROOT

PAGE = ROOT / "wgcc" / "DIAGNOSTICS.md"
CODE = re.compile(r"WG\d{4}")
AREAS = {
    "01": "Syntax",
    "02": "Names and arguments",
    "03": "State, effects and training",
    "04": "Sizes and shapes",
    "05": "Element types",
    "06": "Entries",
    "07": "Imports and files",
    "08": "Recursion",
    "09": "Warnings",
    "10": "Limits of WebGPU",
}
IN_OWN_WORDS = "(the operation says in its own words what does not fit)"
HEAD = """\
# Diagnostics

Every code that `wgcc check` can report, with its messages; `…` stands for names, sizes and types
of your model. Generated from the source by `python3 dev.py bless -k diagnostics_page`.
"""


def test_page_lists_every_code(bless: bool) -> None:
    golden.check_text(PAGE, page(), bless)


def page() -> str:
    messages: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "wgcc").rglob("*.py")):
        for code, message in found(ast.parse(path.read_text(encoding="utf-8"))):
            messages[code] |= {message} if message else set()
    lines = [HEAD]
    for area, title in AREAS.items():
        codes = [code for code in sorted(messages) if code[2:4] == area]
        if codes:
            lines += [f"## {title}\n", "| code | says |", "|---|---|"]
            lines += [
                f"| {code} | {'<br>'.join(sorted(messages[code]) or [IN_OWN_WORDS])} |"
                for code in codes
            ]
            lines.append("")
    assert {code[2:4] for code in messages} <= AREAS.keys()
    return "\n".join(lines)


def found(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each code in the module with the message beside it ("" where it is not spelled out)."""
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef):
            for call in ast.walk(scope):
                if isinstance(call, ast.Call):
                    yield from in_call(call, scope)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and CODE.fullmatch(str(node.value)):
            yield str(node.value), ""


def in_call(call: ast.Call, scope: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    is_unknown = isinstance(call.func, ast.Attribute) and call.func.attr == "unknown"
    for code, message in pairwise(call.args):
        if isinstance(code, ast.Constant) and CODE.fullmatch(str(code.value)):
            for text in spelled(message, scope):
                shown = f"unknown {text} `…`" if is_unknown else text
                yield str(code.value), shown.replace("|", "\\|")


def spelled(node: ast.expr, scope: ast.FunctionDef) -> Iterator[str]:
    """The texts that an expression can have, as far as they are literals in the code."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        yield "".join(map(str, parts))
    elif isinstance(node, ast.IfExp):
        yield from spelled(node.body, scope)
        yield from spelled(node.orelse, scope)
    elif isinstance(node, ast.Name):
        before = [value for line, value in assignments(node.id, scope) if line < node.lineno]
        yield from spelled(before[-1], scope) if before else ()


def assignments(name: str, scope: ast.FunctionDef) -> list[tuple[int, ast.expr]]:
    found = [
        (node.lineno, node.value)
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id == name
    ]
    return sorted(found, key=lambda pair: pair[0])
