"""Which notebook this process serves, and how a widget gets into the output of its cell."""

from __future__ import annotations

from typing import Any

from wgcc_runtime.progress import marimo_module


def display(widget: Any) -> None:
    """Below the cell that runs."""
    marimo = marimo_module()
    if marimo is not None:
        marimo.output.append(widget)
        return
    from IPython.display import display as show

    show(widget)
