"""The widget: what the front end shows of a training, and the commands that it sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

FOLDER = Path(__file__).parent


class TrainingWidget(anywidget.AnyWidget):
    """Traits that are sent to the front end. `widget.js` draws them and sends `{"kind": …}`."""

    _esm = (FOLDER / "widget.js").read_text(encoding="utf-8")
    _css = (FOLDER / "widget.css").read_text(encoding="utf-8")
    # Points [step, loss], and those of evaluations by name.
    curve = traitlets.List().tag(sync=True)
    evaluated = traitlets.Dict().tag(sync=True)
    # What the training is doing: state, step, steps, loss, numbers, ms, eta, error.
    status = traitlets.Dict().tag(sync=True)
    # Settings that can change while it trains, such as the learning rate.
    settings = traitlets.Dict().tag(sync=True)

    # Values that the model was built to show: name, shape, histogram, a map of bytes.
    captures = traitlets.List().tag(sync=True)

    def __init__(self, command: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._command = command
        self.on_msg(self._receive)

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if isinstance(content, Mapping):
            self._command(content)
