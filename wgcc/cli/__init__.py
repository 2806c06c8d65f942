"""The command line: each command is a file here, reads options, calls the compiler, and reports."""

from __future__ import annotations

from wgcc.cli.group import cli, main

__all__ = ["cli", "main"]
