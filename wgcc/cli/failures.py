"""How commands that run bundles end when the runtime refuses: one line on stderr, an exit code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from wgcc.cli.group import CHECK_FAILED, PROBLEM
from wgcc.cli.printing import say

# Codes of the runtime that mean a numeric check failed.
_NUMERIC_CODES = ("nan", "selftest")


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Turns an error of the runtime into `error[code]: text` and the right exit code."""
    from wgcc_runtime.errors import WgccError

    try:
        yield
    except WgccError as error:
        say(f"error[{error.code}]: {error.message}", style="error")
        code = CHECK_FAILED if error.code in _NUMERIC_CODES else PROBLEM
        raise click.exceptions.Exit(code) from None
