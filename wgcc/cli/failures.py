"""Errors of the runtime become one line on stderr and an exit code; warnings become a line."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any, cast

import click

from wgcc.cli.group import CHECK_FAILED, PROBLEM
from wgcc.cli.printing import say

# Codes of the runtime that mean a numeric check failed.
_NUMERIC_CODES = ("nan", "selftest")


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Turns an error of the runtime into `error[code]: text` and the matching exit code, and its
    warnings into lines."""
    from wgcc_runtime.errors import WgccError

    try:
        with warnings_printed():
            yield
    except WgccError as error:
        say(f"error[{error.code}]: {error.message}", style="error")
        code = CHECK_FAILED if error.code in _NUMERIC_CODES else PROBLEM
        raise click.exceptions.Exit(code) from None


@contextlib.contextmanager
def warnings_printed() -> Iterator[None]:
    """Within this, a warning of the runtime is printed at once, as `warning: text`."""
    from wgcc_runtime.errors import WgccWarning

    with warnings.catch_warnings():
        others: Any = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if issubclass(category, WgccWarning):
                say(f"warning: {message}", style="warning")
            else:
                others(message, category, *place)

        warnings.simplefilter("always", WgccWarning)
        warnings.showwarning = cast("Any", show)
        yield
