"""Programs with expressions of PyTorch, corrected by the hints of `wgcc check`."""

from __future__ import annotations

from functools import cache

from pytorch_hints import SIZES, TYPES, recorded
from wgcc.elaborate import elaborate
from wgcc.errors import Diagnostic, Diagnostics, Source, render_run
from wgcc.ir.program import Program

RECORDED = recorded()
# A line is corrected by several hints: one for each name of PyTorch in it, and for its arguments.
MOST_HINTS = 6


def text_of(expression: str) -> str:
    dims = ", ".join(f"{name} = {size}" for name, size in SIZES.items())
    takes = ", ".join(f"{name}: {type_}" for name, type_ in TYPES.items())
    result = RECORDED[expression]
    shape = ", ".join(map(str, result["shape"]))
    type_ = f"{result['dtype']}[{shape}]" if shape else result["dtype"]
    return f"""dim {dims}
model M {{
  entry run({takes}) -> (r: {type_}) {{
    r = {expression}
    return r
  }}
}}
"""


def problems(text: str) -> tuple[Program | None, list[Diagnostic], Diagnostics]:
    diagnostics = Diagnostics()
    program = elaborate(Source("test.wg", text), diagnostics)
    return program, diagnostics.errors, diagnostics


@cache
def corrected(expression: str) -> tuple[str, Program]:
    """The program after all hints, and its text: the innermost call is corrected first."""
    text = text_of(expression)
    for _ in range(MOST_HINTS):
        program, errors, diagnostics = problems(text)
        if program is not None:
            return text, program
        fixes = [help_.edits for error in errors for help_ in error.helps if help_.edits]
        assert fixes, f"no correction for:\n{text}\n{render_run(diagnostics)}"
        edits = min(fixes, key=lambda fix: fix[0][0].end - fix[0][0].start)
        for span, new in sorted(edits, key=lambda edit: -edit[0].start):
            text = text[: span.start] + new + text[span.end :]
    raise AssertionError(f"still wrong after {MOST_HINTS} hints:\n{text}")


def fixes(text: str) -> list[tuple[str, str]]:
    """The text of each help of a program, and the program with its edit."""
    _, errors, _ = problems(text)
    found = []
    for help_ in (help_ for error in errors for help_ in error.helps):
        new = text
        for span, code in sorted(help_.edits, key=lambda edit: -edit[0].start):
            new = new[: span.start] + code + new[span.end :]
        found.append((help_.text, new))
    return found
