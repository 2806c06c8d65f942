"""Goes on after a lost device: a copy of the model on the host, and a new device for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wgcc_runtime.errors import WgccError

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

# A new copy is made at the first report after this many seconds.
COPY_SECONDS = 15.0


class Recovery:
    """For one `fit`. The first copy is made at its start."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._lost_at = -1
        self._copy()

    def copy_if_due(self) -> None:
        if time.monotonic() - self._copied_at > COPY_SECONDS:
            self._copy()

    def replaced_device(self, error: WgccError) -> bool:
        """Whether this was a lost device and there is a new one, with the model on it."""
        step = self._model.steps_done
        # Not further than the last time: the work itself does it, and would do it for ever.
        if error.code != "device-lost" or step <= self._lost_at:
            return False
        self._lost_at = step
        self._model.recover()
        return True

    def _copy(self) -> None:
        self._model.snapshot()
        self._copied_at = time.monotonic()
