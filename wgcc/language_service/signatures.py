"""Signatures: of declarations of a file as one line, and of the call that is being written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wgcc.errors import Source
from wgcc.language_service.analysis import Analysis
from wgcc.language_service.names import Symbol
from wgcc.language_service.reference import reference
from wgcc.syntax import ast
from wgcc.syntax.grammar import grammar
from wgcc.syntax.tables import Token

_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class SignatureHelp:
    """`active` is the index in `parameters` of the argument that is being written."""

    signature: str
    parameters: tuple[str, ...]
    active: int
    documentation: str = ""


def declaration_of(symbol: Symbol) -> str:
    """The line that declares a symbol, without its body: `fn forward[N](x: f32[N, D]) -> f32`."""
    node = symbol.node
    text = node.span.text
    if isinstance(node, (ast.Function, ast.Layer)):
        head = (
            text[: node.body.span.start - node.span.start]
            if isinstance(node, ast.Function)
            else text.partition("{")[0]
        )
        text = head.rstrip(" ={\n")
    elif isinstance(node, ast.Identifier):
        text = f"dim {node.text}"
    elif isinstance(node, ast.DimDecl):
        text = f"dim {text}"
    elif isinstance(node, ast.Optimizer):
        text = text.partition("{")[0]
    return _SPACE.sub(" ", text).strip()


def signature_help(analysis: Analysis, offset: int) -> SignatureHelp | None:
    """Helps with the innermost call, constructor or list of sizes around a place."""
    call = open_call(analysis.source, offset)
    if call is None:
        return None
    name, bracket, arguments = call
    symbol = analysis.names.at(offset).find(name.text)
    entry = reference().get(name.text)
    if symbol is not None and isinstance(symbol.node, (ast.Function, ast.Layer)):
        signature, doc = declaration_of(symbol), symbol.node.doc
    elif entry is not None:
        signature, doc = entry.signature, entry.meaning
    else:
        return None
    parameters = parameters_of(signature, bracket)
    return SignatureHelp(signature, parameters, _active(parameters, arguments), doc)


def open_call(source: Source, offset: int) -> tuple[Token, str, list[Token]] | None:
    """The name before the innermost bracket that is open here, the bracket, what follows it."""
    tokens = [
        token
        for token in grammar().lex(source.text)
        if token.end <= offset and token.type not in ("COMMENT", "_NL")
    ]
    depth = 0
    for index in range(len(tokens) - 1, 0, -1):
        text = tokens[index].text
        depth += (text in (")", "]", "}")) - (text in ("(", "[", "{"))
        if depth < 0:
            if text == "{":
                return None
            name = _name_before(tokens, index)
            return (name, text, tokens[index + 1 :]) if name is not None else None
    return None


def _name_before(tokens: list[Token], index: int) -> Token | None:
    """`Linear` for the `(` of `Linear[D, F](`."""
    depth = 0
    for token in reversed(tokens[:index]):
        depth += (token.text == "]") - (token.text == "[")
        if depth == 0 and token.text != "[":
            return token if token.text.isidentifier() else None
    return None


def parameters_of(signature: str, bracket: str) -> tuple[str, ...]:
    """The parameters in the first `(` or `[` of a signature."""
    start = signature.find(bracket)
    if start < 0:
        return ()
    parts, depth, begin = [], 0, start + 1
    for at in range(start, len(signature)):
        char = signature[at]
        depth += (char in "([") - (char in ")]")
        if depth == 0 or (depth == 1 and char == ","):
            parts.append(signature[begin:at].strip())
            begin = at + 1
        if depth == 0:
            break
    return tuple(part for part in parts if part)


def _active(parameters: tuple[str, ...], arguments: list[Token]) -> int:
    depth = commas = 0
    current: list[Token] = []
    for token in arguments:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth == 0 and token.text == ",":
            commas, current = commas + 1, []
        else:
            current.append(token)
    if len(current) > 1 and current[1].text == "=":
        names = [re.split(r"\W", parameter, maxsplit=1)[0] for parameter in parameters]
        if current[0].text in names:
            return names.index(current[0].text)
    return commas
