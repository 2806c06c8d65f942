"""Places in source files, diagnostics, and the one exception type users see.

Every problem is a `Diagnostic` object first; its text and JSON forms are derived from it.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

# Longer messages, and more problems, would not be read.
LONGEST_MESSAGE = 1000
MOST_PROBLEMS = 1000

_INDENT = re.compile("[ \t\f\v]*")


class Source:
    """One source file: its name in the program, its text, and where its lines begin.

    `path` is what messages call it: the path as the user gave it. No bundle holds it. `files` are
    texts beside it that are on no disk, by their paths relative to its folder.
    """

    def __init__(
        self, name: str, text: str, path: str = "", files: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.path, self.files = name, path or name, files or {}
        self.text = text
        # An array takes a tenth of the memory of a list.
        self._starts = array("L", [0])
        self._starts.extend(newline.end() for newline in re.finditer("\n", text))

    def line_column(self, position: int) -> tuple[int, int]:
        """Both counted from 1."""
        line = bisect.bisect_right(self._starts, position)
        return line, position - self._starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        start = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def line_start(self, line: int) -> int | None:
        """The position of its first character; None beyond the last line."""
        return self._starts[line - 1] if 1 <= line <= len(self._starts) else None

    def line_indent(self, line: int) -> str:
        """The white space that a line begins with."""
        indent = _INDENT.match(self.text, self._starts[line - 1])
        return indent[0] if indent else ""


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` up to `end` of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.line_column(self.start)[0]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def place(self) -> str:
        """`model.wg:12`, as plans and profiles name a line."""
        return f"{self.source.name}:{self.line}"


@dataclass(frozen=True, slots=True)
class Help:
    """A suggestion; `edits` are (place, replacement text) if it can be applied automatically.

    `text` is empty where the message itself says what the edits do.
    """

    text: str
    edits: tuple[tuple[Span, str], ...] = ()


@dataclass(slots=True)
class Diagnostic:
    """One problem. `note`, `help` and `also` return the diagnostic, so calls can be chained."""

    severity: Literal["error", "warning"]
    code: str
    message: str
    span: Span
    label: str = ""
    others: list[tuple[Span, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    helps: list[Help] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.message, self.label = _short(self.message), _short(self.label)

    def note(self, text: str) -> Diagnostic:
        self.notes.append(_short(text))
        return self

    def help(self, text: str, *edits: tuple[Span, str]) -> Diagnostic:
        self.helps.append(Help(_short(text), edits))
        return self

    def fix(self, *edits: tuple[Span, str]) -> Diagnostic:
        """A correction that needs no words."""
        self.helps.append(Help("", edits))
        return self

    def also(self, span: Span, text: str) -> Diagnostic:
        self.others.append((span, _short(text)))
        return self

    def as_json(self) -> dict[str, Any]:
        source = self.span.source
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "label": self.label,
            "file": source.path,
            "range": [source.line_column(self.span.start), source.line_column(self.span.end)],
            "related": [
                {"place": span.place, "text": text, "range": [span.start, span.end]}
                for span, text in self.others
            ],
            "notes": self.notes,
            "help": [help_.text for help_ in self.helps if help_.text],
            "fixes": [
                [
                    {"file": at.source.path, "start": at.start, "end": at.end, "text": text}
                    for at, text in help_.edits
                ]
                for help_ in self.helps
                if help_.edits
            ],
        }


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"


class Diagnostics:
    """All problems found in one run, without duplicates, in the order they were found.

    If there are very many (`is_full`), the rest is left out.
    """

    def __init__(self) -> None:
        self.items: list[Diagnostic] = []
        self.is_full = False
        self._seen: set[tuple[str, str, int, str]] = set()

    def error(self, code: str, message: str, span: Span, label: str = "") -> Diagnostic:
        return self._add(Diagnostic("error", code, message, span, label))

    def warning(self, code: str, message: str, span: Span, label: str = "") -> Diagnostic:
        return self._add(Diagnostic("warning", code, message, span, label))

    @property
    def errors(self) -> list[Diagnostic]:
        return [item for item in self.items if item.severity == "error"]

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.items)

    def forget(self, kept: int) -> None:
        """Drop all but the first `kept` problems."""
        self._seen -= {_key(item) for item in self.items[kept:]}
        del self.items[kept:]
        self.is_full = False

    def extend(self, others: Iterable[Diagnostic]) -> None:
        for diagnostic in others:
            self._add(diagnostic)

    def _add(self, diagnostic: Diagnostic) -> Diagnostic:
        key = _key(diagnostic)
        if not self._is_too_much(diagnostic) and key not in self._seen:
            self._seen.add(key)
            self.items.append(diagnostic)
        return diagnostic

    def _is_too_much(self, diagnostic: Diagnostic) -> bool:
        """An error is never left out because of warnings alone."""
        if len(self.items) >= MOST_PROBLEMS and not self.is_full:
            self.is_full = bool(self.errors)
        is_many = len(self.items) >= MOST_PROBLEMS and diagnostic.severity == "warning"
        return self.is_full or is_many


def _key(diagnostic: Diagnostic) -> tuple[str, str, int, str]:
    return diagnostic.code, diagnostic.span.source.name, diagnostic.span.start, diagnostic.message


class WgError(Exception):
    """An error to show to the user. `diagnostics` has the places, if there are any."""

    def __init__(self, message: str, diagnostics: Diagnostics | None = None) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics or Diagnostics()


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
            text, _ = _crop(source.line_text(previous + 1), [])
            lines.append(f"{previous + 1:>{len(margin)}} | {text}")
        elif previous is not None and number > previous + 2:
            lines.append("...")
        here = [mark for mark in marks if mark.line == number]
        text, here = _crop(source.line_text(number), here)
        lines.append(f"{number:>{len(margin)}} | {text}")
        lines += [f"{margin} | {row}" for row in _underlines(text, here)]
        previous = number
    return lines


def _crop(text: str, marks: list[_Mark]) -> tuple[str, list[_Mark]]:
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
    lines = [f"{_align(row, text)} {marks[-1].label}"]
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
    return _align(row, text)


def _align(row: Iterable[str], text: str) -> str:
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
    """Replaces control characters, bidirectional marks and lone surrogates, which could garble a
    terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
