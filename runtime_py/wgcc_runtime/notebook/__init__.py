"""Training in notebooks: a live curve with controls, in Jupyter, VS Code and marimo.

`wgcc_runtime` itself does not import this; `fit` does, in a notebook where anywidget is installed.
"""

from __future__ import annotations

from wgcc_runtime.notebook.live import LiveTraining, train

__all__ = ["LiveTraining", "train"]
