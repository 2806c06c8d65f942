"""A buffer that the host can map, kept and used again for every read."""

from __future__ import annotations

from typing import Any

from wgcc_runtime.device import Device
from wgcc_runtime.gpu_errors import gpu_errors, wait, wgpu


class Readback:
    """Copies are recorded into an encoder; `fetch` waits for the submitted work and reads."""

    def __init__(self, device: Device, size: int) -> None:
        usage = wgpu().BufferUsage
        self.bytes = size
        with gpu_errors(f"a readback buffer of {size:,} bytes"):
            self._buffer = device.gpu.create_buffer(
                size=size, usage=usage.MAP_READ | usage.COPY_DST, label="readback"
            )

    def copy(self, encoder: Any, source: Any, offset: int, size: int, at: int = 0) -> None:
        encoder.copy_buffer_to_buffer(source, offset, self._buffer, at, size)

    def fetch(self, size: int) -> memoryview:
        """The first `size` bytes. No step counts as done before this returned."""
        with gpu_errors("waiting for results"):
            wait(self._buffer.map_async("READ", 0, size), "the submitted work")
            try:
                return memoryview(self._buffer.read_mapped(0, size))
            finally:
                self._buffer.unmap()

    def close(self) -> None:
        self._buffer.destroy()
