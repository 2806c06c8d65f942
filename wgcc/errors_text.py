"""Diagnostics as text: the source line with carets under the place, then notes and helps.

It knows how a diagnostic looks, not what it is about.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace

from wgcc.errors import MOST_PROBLEMS, Diagnostic, Diagnostics, Source, Span

SHOWN = 20
LONGEST_LINE = 160


def render_run(diagnostics: Diagnostics, limit: int | None = SHOWN) -> str:
    """All problems of a run in the order of the source, and a closing line; "" for none."""
    items = sorted(diagnostics, key=lambda item: (item.span.source.name, item.span.start))
    shown = items if limit is None else items[:limit]
    parts = [render(item) for item in shown]
    if len(shown) < len(items):
        parts.append(f"... and {len(items) - len(shown)} more (use --all-errors)")
    closing = closing_line(diagnostics)
    return "\n\n".join([*parts, closing] if closing else parts)


def closing_line(diagnostics: Diagnostics) -> str:
    """`2 errors, 1 warning; nothing was written`, or only the warnings, or nothing."""
    if diagnostics.is_full:
        return f"more than {MOST_PROBLEMS:,} problems; nothing was written"
    errors = len(diagnostics.errors)
    warnings = len(diagnostics.items) - errors
    counts = [_plural(errors, "error"), _plural(warnings, "warning")]
    text = ", ".join(count for count in counts if count)
    return f"{text}; nothing was written" if errors else text


def _plural(count: int, noun: str) -> str:
    if count == 0:
        return ""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def render(diagnostic: Diagnostic) -> str:
    """One problem, without a final newline."""
    marks = [_mark(diagnostic.span, diagnostic.label, "^")]
    marks += [_mark(span, text, "-") for span, text in diagnostic.others]
    margin = " " * max(len(str(mark.line)) for mark in marks)
    place = f"{diagnostic.span.source.path}:{marks[0].line}:{marks[0].column + 1}"
    lines = [
        f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}",
        f"{margin}--> {place}",
    ]
    for source in dict.fromkeys(mark.source for mark in marks):
        here = [mark for mark in marks if mark.source is source]
        if source is not diagnostic.span.source:
            lines.append(f"{margin}::: {source.path}:{here[0].line}:{here[0].column + 1}")
        lines += [f"{margin} |", *_frame(source, here, margin)]
    lines += _advice(diagnostic, margin)
    return _printable("\n".join(line.rstrip() for line in lines))


@dataclass(frozen=True, slots=True)
class _Mark:
    """One underlined piece of a source line; `column` counts from 0."""

    source: Source
    line: int
    column: int
    width: int
    char: str
    label: str


def _mark(span: Span, label: str, char: str) -> _Mark:
    source = span.source
    line, column = source.line_column(span.start)
    last_line, last_column = source.line_column(max(span.start, span.end))
    end = last_column if last_line == line else len(source.line_text(line)) + 1
    return _Mark(source, line, column - 1, max(1, end - column), char, label)


def _frame(source: Source, marks: list[_Mark], margin: str) -> list[str]:
    """The marked lines with their underlines; `...` where more than one line is left out."""
    lines: list[str] = []
    previous = None
    for number in sorted({mark.line for mark in marks}):
        if previous is not None and number == previous + 2:
            text, _ = _cropped(source.line_text(previous + 1), [])
            lines.append(f"{previous + 1:>{len(margin)}} | {text}")
        elif previous is not None and number > previous + 2:
            lines.append("...")
        here = [mark for mark in marks if mark.line == number]
        text, here = _cropped(source.line_text(number), here)
        lines.append(f"{number:>{len(margin)}} | {text}")
        lines += [f"{margin} | {row}" for row in _underlines(text, here)]
        previous = number
    return lines


def _cropped(text: str, marks: list[_Mark]) -> tuple[str, list[_Mark]]:
    """A very long line is cropped around the first mark; marks outside of that are dropped."""
    if len(text) <= LONGEST_LINE:
        return text, marks
    first = min((mark.column for mark in marks), default=0)
    start = max(0, min(first - LONGEST_LINE // 4, len(text) - LONGEST_LINE))
    end = start + LONGEST_LINE
    moved = [
        replace(mark, column=mark.column - start, width=max(1, min(mark.width, end - mark.column)))
        for mark in marks
        if mark.column <= end  # something missing at the end of a line is marked after it
    ]
    return text[start:end], moved


def _underlines(text: str, marks: list[_Mark]) -> list[str]:
    """The row of carets with the last label after it; the other labels are below, with bars."""
    marks = sorted(marks, key=lambda mark: mark.column)
    row = [" "] * max(mark.column + mark.width for mark in marks)
    for mark in sorted(marks, key=lambda mark: mark.char == "^"):
        row[mark.column : mark.column + mark.width] = mark.char * mark.width
    lines = [f"{_aligned(row, text)} {marks[-1].label}"]
    hanging = [mark for mark in marks[:-1] if mark.label]
    while hanging:
        lines.append(_bars(hanging, text))
        last = hanging.pop()
        lines.append(_bars(hanging, text, last.column) + last.label)
    return lines


def _bars(marks: list[_Mark], text: str, width: int = 0) -> str:
    row = [" "] * max([width, *(mark.column + 1 for mark in marks)])
    for mark in marks:
        row[mark.column] = "|"
    return _aligned(row, text)


def _aligned(row: Iterable[str], text: str) -> str:
    """`row` drawn under `text`: tabs stay tabs, and a character two cells wide gets two marks."""
    cells = list(row)
    for column, char in enumerate(text[: len(cells)]):
        if char == "\t":
            cells[column] = "\t"
        elif unicodedata.east_asian_width(char) in "WF":
            cells[column] *= 2
        elif unicodedata.combining(char):
            cells[column] = ""
    return "".join(cells)


def _advice(diagnostic: Diagnostic, margin: str) -> list[str]:
    advice = [("note", text) for text in diagnostic.notes]
    advice += [("help", help_.text) for help_ in diagnostic.helps if help_.text]
    hanging = f"\n{margin}         "
    lines = [f"{margin} = {kind}: {text}".replace("\n", hanging) for kind, text in advice]
    return [f"{margin} |", *lines] if lines else []


def _printable(text: str) -> str:
    """Without control characters, bidirectional marks and lone surrogates, which could garble a
    terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
