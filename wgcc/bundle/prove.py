"""Proves of a kernel which checks at run time it can do without: what Python's runtime asks for.

The kernel may be anybody's, so nothing in its bundle counts: neither what the plan says of it, nor
what counters of loops are said to hold. What is proven is the very text that runs, and only text
as the compiler prints it.
"""

from __future__ import annotations

from functools import lru_cache

from wgcc.backends.wgsl.print_tree import print_file
from wgcc.kernel.check import check
from wgcc.kernel.limits import Grid
from wgcc.kernel.parse import parse_module
from wgcc_runtime.bundle_files import code_of

# Copies of a model in one process are proven once.
KEPT = 512
# A kernel binds at most so many buffers; the driver knows how many it has.
_MOST_BUFFERS = 64


@lru_cache(KEPT)
def prove(text: str, grid: Grid) -> tuple[bool, bool]:
    """Whether all indices are in range, and whether all loops end, for grids up to this one."""
    try:
        module = parse_module(text)
        is_ours = _is_plain(text) and code_of(print_file(module, "")) == code_of(text)
        report = check(module, grid, {}, _MOST_BUFFERS)
    except Exception:
        # Whatever somebody wrote to make the checker fail, nothing is proven of it.
        return False, False
    if report.problems or not is_ours:
        return False, False
    return not report.unproven, not report.endless


def _is_plain(text: str) -> bool:
    """A comment could hide code from one parser: WGSL has seven line breaks, and nests comments."""
    return "/*" not in text and all(c == "\n" or c.isprintable() for c in text)
