"""The one exception type of the runtime; its `code` is stable, its text says what to do."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from types import TracebackType


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


def without_own_frames(error: WgccError) -> WgccError:
    """The error with the frames of its caller alone: those of the runtime say nothing to him.

    Frames of the caller's own functions, such as callbacks, stay.
    """
    folder, frames, rest = os.path.dirname(__file__), [], error.__traceback__
    while rest is not None:
        if not rest.tb_frame.f_code.co_filename.startswith(folder):
            frames.append(rest)
        rest = rest.tb_next
    kept: TracebackType | None = None
    for part in reversed(frames):
        kept = TracebackType(kept, part.tb_frame, part.tb_lasti, part.tb_lineno)
    return error.with_traceback(kept)
