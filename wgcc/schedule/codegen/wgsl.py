"""How a tensor's words are typed in memory. `bindings.py` unpacks those that hold four bytes."""

from __future__ import annotations

from wgcc.ops.dtypes import literal, wgsl_type

__all__ = ["element_type", "is_literal", "literal", "wgsl_type", "zero"]


def element_type(dtype: str) -> str:
    """The type of the word that holds an element in a buffer."""
    return "u32" if dtype == "bool" else wgsl_type(dtype)


def zero(dtype: str) -> str:
    return literal(0, dtype)


def is_literal(text: str) -> bool:
    """Whether the text of an operand is a number, as `literal` writes them, and no name."""
    return text in ("true", "false") or text.startswith("i32(") or not text[0].isalpha()
