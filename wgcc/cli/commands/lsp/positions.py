"""Positions of the protocol: lines from 0, and columns in units of an encoding."""

from __future__ import annotations

from lsprotocol import types

from wgcc.errors import Source, Span


class PositionCodec:
    """`units` is `utf-16` unless editor and server agreed on another encoding."""

    def __init__(self, source: Source, units: str) -> None:
        self.source = source
        self._encoding = units
        self._codec = "utf-16-le" if units == "utf-16" else units
        self._bytes = {"utf-16": 2, "utf-8": 1}.get(units, 0)

    def of_other(self, source: Source) -> PositionCodec:
        """Positions of another file, in the same units."""
        return PositionCodec(source, self._encoding)

    def position(self, offset: int) -> types.Position:
        line, column = self.source.line_column(offset)
        return types.Position(line - 1, self._units(self._line(line)[: column - 1]))

    def range(self, start: int, end: int) -> types.Range:
        return types.Range(self.position(start), self.position(end))

    def of(self, span: Span) -> types.Range:
        return self.range(span.start, span.end)

    def offset(self, position: types.Position) -> int:
        """A position beyond the end of a line or of the text is that end."""
        start = self._start(position.line)
        if start is None:
            return len(self.source.text)
        units = 0
        for column, char in enumerate(self._line(position.line + 1)):
            if units >= position.character:
                return start + column
            units += self._units(char)
        return start + len(self._line(position.line + 1))

    def whole(self) -> types.Range:
        return self.range(0, len(self.source.text))

    def _units(self, text: str) -> int:
        if not self._bytes:
            return len(text)
        return len(text.encode(self._codec, "surrogatepass")) // self._bytes

    def _line(self, line: int) -> str:
        return self.source.line_text(line)

    def _start(self, line: int) -> int | None:
        return self.source.line_start(line + 1)
