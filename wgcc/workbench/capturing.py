"""Captures of the workbench: small values as they are; statistics of others and of gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path

from wgcc.compiler import read_program
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.ir.program import Program, Wanted, patterns_of
from wgcc.passes.captures import GRADIENT

# Elements up to which a value is stored as it is: a page can draw them several times a second.
MOST_ELEMENTS = 1 << 18


def read_capturing(
    path: Path, sizes: Mapping[str, float], globs: Iterable[str]
) -> tuple[Source, Program, Diagnostics]:
    """Reads a program with what globs name, of each value in the form that a page can draw.

    A glob is about the entry that trains, if that has such a value.
    """
    wanted = [glob.strip() for glob in globs if glob.strip()]
    trainer = _trainer(path, sizes) if wanted else ""
    patterns = patterns_of(*_by_form(wanted))
    own = [replace(p, entry=trainer) if not p.entry else p for p in patterns]
    try:
        read = read_program(path, sizes=sizes, capture=own)
    except WgError as error:
        if error.diagnostics.items or own == list(patterns):
            raise
        read = read_program(path, sizes=sizes, capture=patterns)
    large = [
        Wanted(name, True, entry)
        for entry, graph in read[1].entries.items()
        for name, capture in graph.entry.captures.items()
        if not capture.stats and prod(capture.shape) > MOST_ELEMENTS
    ]
    if not large:
        return read
    exact = _exact(read[1], read[1].capture, large)
    return read_program(path, sizes=sizes, capture=exact)


def _trainer(path: Path, sizes: Mapping[str, float]) -> str:
    _, program, _ = read_program(path, sizes=sizes, capture=None)
    return next((name for name, graph in program.entries.items() if graph.entry.trains), "")


def _by_form(globs: list[str]) -> tuple[list[str], list[str]]:
    """Globs of values, and those of gradients, which people look at as histograms."""
    gradients = [glob for glob in globs if glob.rpartition(":")[2].startswith(GRADIENT)]
    return [glob for glob in globs if glob not in gradients], gradients


def _exact(program: Program, patterns: Iterable[Wanted], large: list[Wanted]) -> list[Wanted]:
    """Names in place of globs, because of one that matches both large and small values."""
    names = [
        Wanted(name, False, entry)
        for entry, graph in program.entries.items()
        for name, capture in graph.entry.captures.items()
        if not capture.stats
    ]
    small = [name for name in names if Wanted(name.glob, True, name.entry) not in large]
    return [*small, *large, *(p for p in patterns if p.stats or "/" in p.glob)]
