"""The command line: `commands/` has a module for each command; the rest is what they share."""

from __future__ import annotations

from wgcc.cli.group import cli, main

__all__ = ["cli", "main"]
