"""Offers what can be written at a place: names that are visible there, members, parameter paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wgcc.elaborate.tracing.values import AnyValue, LayerValue, ListValue, Tensor
from wgcc.language_service.analysis import Analysis, type_of
from wgcc.language_service.hover import describe_entry, describe_symbol
from wgcc.language_service.names import LOCAL, NameScope, Symbol
from wgcc.language_service.reference import optimizer_settings, reference
from wgcc.language_service.signatures import declaration_of
from wgcc.ops.optimizers import OPTIMIZERS
from wgcc.syntax import ast
from wgcc.syntax.grammar import grammar

_MEMBER = re.compile(r"(\w+)(?:\[[^\]\n]*\])?\.(\w*)$")
_OPTIMIZER_KIND = re.compile(r"optimizer\s+\w+\s*:\s*\w*$")
_IN_OPTIMIZER = re.compile(r"optimizer\s+\w+\s*:\s*\w+\s*\{[^}]*$")


@dataclass(frozen=True, slots=True)
class Completion:
    """`kind` is a kind of symbol, or `keyword`, `built-in`, `standard layer`, `setting`, `path`."""

    label: str
    kind: str
    detail: str = ""
    markdown: str = ""


def complete(analysis: Analysis, offset: int) -> list[Completion]:
    text = analysis.source.text
    before = text[text.rfind("\n", 0, offset) + 1 : offset]
    token = next((t for t in grammar().lex(text) if t.start < offset <= t.end), None)
    if token is not None and token.type == "COMMENT":
        return []
    if before.count('"') % 2:
        return list(_paths(analysis))
    member = _MEMBER.search(before)
    if member is not None:
        return list(_members(analysis, member[1], offset))
    if _OPTIMIZER_KIND.search(before):
        return [Completion(name, "built-in") for name in OPTIMIZERS]
    by_label: dict[str, Completion] = {}
    for item in (*_settings(text[:offset]), *_visible(analysis, offset), *_library(), *_keywords()):
        by_label.setdefault(item.label, item)
    return list(by_label.values())


def _visible(analysis: Analysis, offset: int) -> Iterator[Completion]:
    scope: NameScope | None = analysis.names.at(offset)
    while scope is not None:
        yield from map(_of_symbol, scope.symbols.values())
        scope = scope.outer


def _of_symbol(symbol: Symbol) -> Completion:
    detail = "" if symbol.kind == LOCAL else declaration_of(symbol)
    return Completion(symbol.name, symbol.kind, detail, "\n\n".join(describe_symbol(symbol)[1:]))


def _library() -> Iterator[Completion]:
    for entry in reference().values():
        kind = "standard layer" if entry.is_layer else "built-in"
        yield Completion(entry.name, kind, entry.signature, "\n\n".join(describe_entry(entry)[1:]))


def _keywords() -> Iterator[Completion]:
    return (Completion(word, "keyword") for word in grammar().keywords)


def _settings(before: str) -> Iterator[Completion]:
    if _IN_OPTIMIZER.search(before[-2000:]):
        for name, meaning in optimizer_settings().items():
            yield Completion(name, "setting", meaning)


def _paths(analysis: Analysis) -> Iterator[Completion]:
    """Parameters, to be selected by `over "…"` and `group "…"`."""
    for program in analysis.programs.values():
        for name, tensor in program.params.items():
            yield Completion(name, "path", str(tensor.type))


def _members(analysis: Analysis, name: str, offset: int) -> Iterator[Completion]:
    value = _value_of(analysis, name, offset)
    if isinstance(value, ListValue) and value.items:
        value = value.items[0]
    if isinstance(value, LayerValue):
        for member in value.definition.node.members:
            if isinstance(member, ast.Function) and not member.is_entry:
                sizes = ", ".join(parameter.name.text for parameter in member.values)
                yield Completion(member.name.text, "fn", f"({sizes})", member.doc)
        for label, part in value.scope.names.items():
            if isinstance(part, (LayerValue, ListValue)) or hasattr(part, "path"):
                yield Completion(label, "layer member", type_of(part))
    elif isinstance(value, Tensor) or value is None:
        for item in _library():
            if item.kind == "built-in":
                yield item


def _value_of(analysis: Analysis, name: str, offset: int) -> AnyValue | None:
    """The value that the checker saw for a name, at the nearest place."""
    text = analysis.source.text
    places = sorted(analysis.observations, key=lambda key: abs(key[0] - offset))
    for start, end in places:
        if text[start:end] == name:
            return analysis.observations[start, end].value
    return None
