"""Numbers as WGSL writes them."""

from __future__ import annotations

import re

from wgcc.kernel.tree import Literal
from wgcc.kernel.types import FLOATS, SUFFIXES


def number(text: str) -> Literal:
    if text[:2].lower() == "0x":
        digits, suffix = (text[:-1], text[-1]) if text[-1] in "iu" else (text, "")
        return Literal(int(digits, 16), SUFFIXES.get(suffix, "int"), text)
    digits, suffix = (text[:-1], text[-1]) if text[-1] in SUFFIXES else (text, "")
    kind = SUFFIXES.get(suffix, "f32" if re.search(r"[.eE]", digits) else "int")
    return Literal(float(digits) if kind in FLOATS else int(digits), kind, text)
