"""Names of nodes and tensors as names of the language, and the layers they tell of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

from wgcc.from_onnx.values import Scope
from wgcc.syntax.grammar import grammar

# How PyTorch's exporter writes the modules that a node belongs to.
TORCH_SCOPES = "pkg.torch.onnx.name_scopes"
TORCH_NAMESPACE = "namespace"


def one_line(text: str) -> str:
    """A name from a file, without what could end a comment."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def word(text: str) -> str:
    """A name that the language accepts, of a name that ONNX has."""
    last = re.split(r"[/:;]+", re.sub(r":\d+$", "", text).strip("/:;"))[-1] or "x"
    identifier = re.sub(r"\W+", "_", last, flags=re.ASCII).strip("_") or "x"
    if identifier[0].isdigit():
        identifier = f"x{identifier}"
    return f"{identifier}_" if is_keyword(identifier) else identifier


def is_keyword(name: str) -> bool:
    return name in grammar().keywords or name == "training"


def scope_of(node: Any) -> Scope | None:
    """The modules that a node belongs to, outermost first; `h.0` is a part of a list.

    None if the file does not say.
    """
    held = {item.key: item.value for item in node.metadata_props}
    if TORCH_SCOPES in held:
        return _torch_scope(held[TORCH_SCOPES])
    if TORCH_NAMESPACE in held:
        return _torch_namespace(held[TORCH_NAMESPACE])
    path = node.name.partition(";")[0]
    if "/" not in path:
        return None
    modules = path.strip("/").split("/")[:-1]
    # Parts of a list have its whole name: `features/features.0/features.0.1`.
    pairs = zip(["", *modules[:-1]], modules, strict=True) if modules else ()
    own = [part.removeprefix(f"{around}.") for around, part in pairs]
    return split_modules(one_line(".".join(own)))


def scopes_of(nodes: Iterable[Any]) -> dict[str, Scope]:
    """The scopes of nodes by their first output.

    A node that rewriting has left without a scope gets the part on which those of its neighbours
    agree.
    """
    held = list(nodes)
    own = [scope_of(node) for node in held]
    behind: list[Scope] = []
    for scope in reversed(own):
        behind.append(scope if scope is not None else behind[-1] if behind else ())
    scopes: dict[str, Scope] = {}
    before: Scope = ()
    for node, scope, after in zip(held, own, reversed(behind), strict=True):
        before = before if scope is None else scope
        here = _common(before, after) if scope is None else scope
        scopes[next(filter(None, node.output), "")] = here
    return scopes


def _common(a: Scope, b: Scope) -> Scope:
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    return tuple(first for first, _ in alike)


def _torch_namespace(text: str) -> Scope:
    """`: Net/h.0: Block/h.0.attn: Attention/view: aten.view.default`"""
    modules = [part.partition(":")[0].strip() for part in text.split("/")[:-1]]
    last = next(filter(None, reversed(modules)), "")
    return split_modules(one_line(last))


def _torch_scope(text: str) -> Scope:
    try:
        scopes = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return ()
    modules = [item for item in scopes[:-1] if isinstance(item, str) and item]
    return split_modules(one_line(modules[-1])) if modules else ()


def split_modules(path: str) -> Scope:
    """`encoder.layer.0.attention` is encoder, layer.0, attention."""
    modules: list[str] = []
    for part in filter(None, path.split(".")):
        if part.isdigit() and modules and not modules[-1].rpartition(".")[2].isdigit():
            modules[-1] = f"{modules[-1]}.{part}"
        else:
            modules.append(part)
    return tuple(modules)
