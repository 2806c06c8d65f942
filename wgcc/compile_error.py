"""The error of `wgcc.compile`: its text is what `wgcc check` prints."""

from __future__ import annotations

import html

from wgcc.errors import WgError, render_run


class CompileError(WgError):
    """A program that cannot be compiled; `diagnostics` are its problems as objects."""

    __module__ = "wgcc"

    def __init__(self, failure: WgError) -> None:
        super().__init__(_text(failure), failure.diagnostics)

    def __reduce__(self) -> tuple[type[WgError], tuple[str]]:
        """Between processes only the text counts."""
        return WgError, (str(self),)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _render_traceback_(self) -> list[str]:
        """Notebooks show this instead of a traceback."""
        return str(self).splitlines()


def _text(failure: WgError) -> str:
    if not failure.diagnostics.errors:
        return str(failure)
    text = render_run(failure.diagnostics)
    # Nothing would have been written in any case.
    return text.replace("; nothing was written", "").replace(" (use --all-errors)", "")
