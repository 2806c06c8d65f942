"""The lines of syntax errors: one error is reported for each, and later phases report no more."""

from __future__ import annotations

from wgcc.errors import Diagnostic, Diagnostics, Source

# An unclosed bracket affects the lines up to where it is found missing; of those, at most these.
_MOST_LINES = 3


def one_error_per_line(diagnostics: Diagnostics, source: Source) -> None:
    """Keep one syntax error for each line: about a bracket if there is one, else the first."""
    best: dict[int, Diagnostic] = {}
    for item in diagnostics:
        if is_syntax_error(item) and item.span.source is source:
            other = best.get(item.span.line)
            if other is None or _rank(item) < _rank(other):
                best[item.span.line] = item
    kept = {id(item) for item in best.values()}
    diagnostics.items[:] = [
        item
        for item in diagnostics
        if id(item) in kept or not is_syntax_error(item) or item.span.source is not source
    ]


def is_syntax_error(item: Diagnostic) -> bool:
    return item.severity == "error" and item.code.startswith("WG01")


def _rank(item: Diagnostic) -> tuple[bool, int]:
    return item.code != "WG0101", item.span.start


def affected_lines(item: Diagnostic) -> range:
    """The lines that may not have been parsed as written, because of this syntax error."""
    lines = [item.span.line, *(span.line for span, _ in item.others)]
    first, last = min(lines), max(lines)
    return range(first, max(first + 1, min(last, first + _MOST_LINES)))
