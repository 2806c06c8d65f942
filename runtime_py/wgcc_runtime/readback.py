"""A buffer of the GPU that the host can map, reused for every read."""

from __future__ import annotations

import contextlib
from typing import Any

from wgcc_runtime.device import Device
from wgcc_runtime.errors import WgccError
from wgcc_runtime.gpu_errors import gpu_errors, wait, wgpu


class Readback:
    """Copies are recorded into an encoder; `fetch` waits for the submitted work and reads."""

    def __init__(self, device: Device, size: int) -> None:
        self.bytes = size
        self._device = device
        self._buffer = self._make()

    def copy(self, encoder: Any, source: Any, offset: int, size: int, at: int = 0) -> None:
        encoder.copy_buffer_to_buffer(source, offset, self._buffer, at, size)

    def fetch(self, size: int) -> memoryview:
        """The first `size` bytes. No step counts as done before this returns."""
        with gpu_errors("waiting for results"):
            self._wait(size)
            try:
                return memoryview(self._buffer.read_mapped(0, size))
            finally:
                self._buffer.unmap()

    def close(self) -> None:
        self._buffer.destroy()

    def _make(self) -> Any:
        usage = wgpu().BufferUsage
        with gpu_errors(f"a readback buffer of {self.bytes:,} bytes"):
            return self._device.gpu.create_buffer(
                size=self.bytes, usage=usage.MAP_READ | usage.COPY_DST, label="readback"
            )

    def _wait(self, size: int) -> None:
        try:
            wait(self._buffer.map_async("READ", 0, size), "the submitted work")
        except BaseException:
            # A buffer whose mapping was not waited for can never be mapped again.
            with contextlib.suppress(WgccError):
                self._buffer = self._make()
            raise
