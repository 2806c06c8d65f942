"""Refuses WGSL so deeply nested that a shader compiler would crash instead of reporting an error.

The WGSL compiler of wgpu overflows its stack beyond about 2,000 nested brackets or types, 8,000
chained operators or 20,000 functions that call each other, and its time grows with the square of
the statements; browsers have lower limits, so no kernel that runs everywhere comes near these.
"""

from __future__ import annotations

import re

from wgcc_runtime.errors import WgccError
from wgcc_runtime.tables import table

MAX: dict[str, int] = table("wgsl_guard")

# A line comment ends with its line; WGSL has seven line breaks.
_COMMENTS = re.compile("//[^\n\v\f\r\x85\u2028\u2029]*|/\\*.*?\\*/", re.DOTALL)
_BRACKETS = re.compile(r"[()\[\]{}]")
_OPERATORS = re.compile(r"[-+*/%&|^!~<>=.(\[]")


def guard_wgsl(source: str, file: str) -> None:
    """Raises a `WgccError` with code `kernel` if the text could crash the compiler."""
    text = _COMMENTS.sub(" ", source)
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "([{" else -1
        deepest = max(deepest, depth)
    statements = re.split(r"[;{}]", text)
    for found, most, what in (
        (deepest, MAX["nesting"], "nested brackets"),
        (max(map(_operators, statements)), MAX["operators"], "operators in one statement"),
        (len(re.findall(r"\belse\b", text)), MAX["else"], "else branches"),
        (len(statements), MAX["statements"], "statements"),
    ):
        if found > most:
            text = f"kernels/{file} has {found} {what}; at most {most} are passed to the GPU driver"
            raise WgccError("kernel", text, file)


def _operators(statement: str) -> int:
    # A short statement cannot have too many.
    return len(_OPERATORS.findall(statement)) if len(statement) > MAX["operators"] else 0
