"""Continues after a lost device: keeps a copy of the model on the host, and opens a new device."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wgcc_runtime.errors import WgccError

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

# A new copy is made at the first report after this many seconds.
COPY_SECONDS = 15.0


class Recovery:
    """Copies a model during one `fit`, first at its start and last at its end."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._lost_at = -1
        self.copy()

    def copy_if_due(self) -> None:
        if time.monotonic() - self._copied_at > COPY_SECONDS:
            self.copy()

    def replaced_device(self, error: WgccError) -> bool:
        """After a lost device, restores the model on a new one; returns whether it did."""
        step = self._model.steps_done
        # No progress since the last loss: the work itself loses the device, and always would.
        if error.code != "device-lost" or step <= self._lost_at:
            return False
        self._lost_at = step
        self._model.recover()
        return True

    def copy(self) -> None:
        self._model.snapshot()
        self._copied_at = time.monotonic()
