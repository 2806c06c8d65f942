"""Makes a program of a syntax tree; checks names, sizes, dtypes, state and optimizers on the way.

The checker is the tracer: each entry is evaluated abstractly, over tensors that are values of the
graph under construction.
"""

from __future__ import annotations

from wgcc.elaborate.elaborate import check, elaborate, trace_again
from wgcc.elaborate.program.files import Trees

__all__ = ["Trees", "check", "elaborate", "trace_again"]
