"""Applies the corrections that diagnostics carry."""

from __future__ import annotations

from collections.abc import Iterable

from wgcc.errors import Diagnostic, Source, Span

Edit = tuple[Span, str]


def chosen_edits(diagnostics: Iterable[Diagnostic]) -> dict[Source, list[Edit]]:
    """The first correction of each diagnostic, as edits by source that do not overlap.

    Where two overlap, the narrower one is taken: it is about a part of what the other rewrites.
    """
    fixes = [next((h.edits for h in item.helps if h.edits), ()) for item in diagnostics]
    chosen: dict[Source, list[Edit]] = {}
    for edits in sorted(filter(None, fixes), key=_width):
        if all(_is_free(span, chosen.get(span.source, [])) for span, _ in edits):
            for span, text in edits:
                chosen.setdefault(span.source, []).append((span, text))
    return chosen


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """`edits` do not overlap."""
    for span, replacement in sorted(edits, key=lambda edit: -edit[0].start):
        text = text[: span.start] + replacement + text[span.end :]
    return text


def _width(edits: tuple[Edit, ...]) -> int:
    return sum(span.end - span.start for span, _ in edits)


def _is_free(span: Span, taken: list[Edit]) -> bool:
    return all(span.end < other.start or other.end < span.start for other, _ in taken)
