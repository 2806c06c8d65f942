"""The one exception type of the runtime; its `code` is stable, its text says what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WgccError(Exception):
    """A problem that a caller can act on.

    `code` is one kebab-case word (`plan`, `shape`, `device-lost`, …); `field` is the place in
    plan.json or the name of the argument it is about, if there is one.
    """

    def __init__(self, code: str, message: str, field: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.field = field

    def __reduce__(self) -> tuple[type[WgccError], tuple[str, str, str]]:
        """Pickles completely, for use between processes; subclasses become plain errors."""
        return WgccError, (self.code, self.message, self.field)


class WgccWarning(UserWarning):
    """A call succeeded, but not quite as asked: a damaged checkpoint was replaced, for example."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean `x`?` if a name is close to one that exists, else a list of those."""
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean `{close[0]}`?"
    return f"; there are: {', '.join(known[:12])}" if known else "; there are none"
