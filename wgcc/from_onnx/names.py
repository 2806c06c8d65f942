"""Names of nodes and tensors as names of the language, and the layers they tell of."""

from __future__ import annotations

import ast
import re
from typing import Any

from wgcc.from_onnx.values import Scope
from wgcc.syntax.grammar import grammar

# How PyTorch's exporter writes the modules that a node belongs to.
TORCH_SCOPES = "pkg.torch.onnx.name_scopes"


def one_line(text: str) -> str:
    """A name from a file, without what could end a comment."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def word(text: str) -> str:
    """A name that the language accepts, of a name that ONNX has."""
    last = re.split(r"[/:;]+", re.sub(r":\d+$", "", text).strip("/:;"))[-1] or "x"
    found = re.sub(r"\W+", "_", last, flags=re.ASCII).strip("_") or "x"
    if found[0].isdigit():
        found = f"x{found}"
    return f"{found}_" if is_keyword(found) else found


def is_keyword(name: str) -> bool:
    return name in grammar().keywords or name == "training"


def scope_of(node: Any) -> Scope:
    """The modules that a node belongs to, outermost first; `h.0` is a part of a list."""
    for item in node.metadata_props:
        if item.key == TORCH_SCOPES:
            return _torch_scope(item.value)
    path = node.name.partition(";")[0]
    parts = path.strip("/").split("/")[:-1] if "/" in path else []
    return split_modules(one_line(".".join(parts)))


def _torch_scope(text: str) -> Scope:
    try:
        scopes = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return ()
    modules = [item for item in scopes[:-1] if isinstance(item, str) and item]
    return split_modules(one_line(modules[-1])) if modules else ()


def split_modules(path: str) -> Scope:
    """`encoder.layer.0.attention` is encoder, layer.0, attention."""
    found: list[str] = []
    for part in filter(None, path.split(".")):
        if part.isdigit() and found and not found[-1].rpartition(".")[2].isdigit():
            found[-1] = f"{found[-1]}.{part}"
        else:
            found.append(part)
    return tuple(found)
