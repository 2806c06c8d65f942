"""`wgcc lsp`: the language server for editors."""

from __future__ import annotations

import os
import sys

import click


@click.command()
def command() -> None:
    """Serve an editor over stdin and stdout (language server protocol).

    Editors start this themselves: diagnostics with corrections, shapes beside assignments and
    pipelines, hover, completion, signatures, definitions, renaming, formatting. See
    grammar/editors/README.md for how to set up yours. Needs the extra wgcc[lsp].
    """
    try:
        import pygls  # noqa: F401
    except ImportError:
        raise click.UsageError("this needs pygls: pip install 'wgcc[lsp]'") from None
    from wgcc.cli.commands.lsp.server import make_server

    # pygls closes what it gets, and the command line still needs its own.
    stdin, stdout = (os.dup(stream.fileno()) for stream in (sys.stdin, sys.stdout))
    make_server().start_io(open(stdin, "rb"), open(stdout, "wb"))  # noqa: SIM115
