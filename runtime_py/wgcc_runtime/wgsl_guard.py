"""Refuses WGSL so deeply nested that a shader compiler would crash instead of complaining.

The WGSL compiler of wgpu overflows its stack beyond about 2,000 nested brackets or 8,000 chained
operators; browsers refuse far less, so no kernel that runs everywhere comes near these bounds.
"""

from __future__ import annotations

import re

from wgcc_runtime.errors import WgccError

MAX_NESTING = 256
MAX_OPERATORS = 4096
MAX_ELSE = 1024

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BRACKETS = re.compile(r"[()\[\]{}]")
_OPERATORS = re.compile(r"[-+*/%&|^!~<>=.]")


def guard_wgsl(source: str, file: str) -> None:
    """Raises a `WgccError` with code `kernel` when the text could crash the compiler."""
    text = _COMMENTS.sub(" ", source)
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "([{" else -1
        deepest = max(deepest, depth)
    longest = max(len(_OPERATORS.findall(part)) for part in re.split(r"[;{}]", text))
    chain = len(re.findall(r"\belse\b", text))
    for found, most, what in (
        (deepest, MAX_NESTING, "nested brackets"),
        (longest, MAX_OPERATORS, "operators in one statement"),
        (chain, MAX_ELSE, "else branches"),
    ):
        if found > most:
            text = f"kernels/{file} has {found} {what}; at most {most} are passed to the GPU driver"
            raise WgccError("kernel", text, file)
