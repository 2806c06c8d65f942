"""A bundle on WebGPU: its buffers, pipelines and bind groups, each made once.

Those of an entry are made when it is first needed.
Knows tensors as regions of words; other modules know values, names and files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from wgcc_runtime.arrays import Array, as_bytes
from wgcc_runtime.device import Device, Readback, gpu_errors, open_device, wgpu
from wgcc_runtime.errors import WgccError
from wgcc_runtime.machine import GRADIENTS
from wgcc_runtime.plan import Binding, Dispatch, Plan, Tensor
from wgcc_runtime.plan_parts import run_order
from wgcc_runtime.unchecked import ALL, Unchecked

# Copies to the host go through one buffer of at most this size.
READ_BYTES = 16 << 20

Command = tuple[Any, Any, tuple[int, int, int]]


class GpuMachine:
    """One bundle on one device under one profile; see `machine.Machine`."""

    errors = staticmethod(gpu_errors)
    calls_made = 0

    def __init__(
        self,
        device: Device,
        plan: Plan,
        sources: Sequence[str],
        profile: str,
        checked: bool | None = None,
    ) -> None:
        self.device = device
        self.plan = plan
        self.profile = profile
        self.sources = sources
        self._layouts: dict[tuple[str, ...], Any] = {}
        self._checked = checked
        self._unchecked = Unchecked(device, plan, profile, checked)
        # By the number of the kernel, and whether it may do without checks.
        self._pipelines: dict[tuple[int, bool], Any] = {}
        self._groups: dict[tuple[tuple[str, ...], tuple[Binding, ...]], Any] = {}
        self.buffers = [self.storage(b.bytes, b.name, b.role == "counter") for b in plan.buffers]
        # By compiled entry.
        self._commands: dict[str, list[Command]] = {}
        self._runs: dict[str, list[Command]] = {}
        self._guards: dict[str, list[Command]] = {}
        self.compile_ms = 0.0
        # Whether the f16 copies of weights, which products read, are to be made before other work.
        self._is_stale = bool(plan.copies)
        self._readback: Readback | None = None
        self._is_open = True

    def prepare(self, entry: str) -> None:
        if entry in self._commands:
            return
        started = time.perf_counter()
        spec = self.plan.entries[entry]
        guard = spec.guard.dispatches if spec.guard else ()
        commands = [self.command(item) for item in self.plan.dispatches(entry, self.profile)]
        self._guards[entry] = [self.command(item) for item in guard]
        for item in self.plan.copies:
            self.command(item)
        self._runs[entry] = [commands[number] for number, _ in run_order(spec)]
        self._commands[entry] = commands
        self.compile_ms += 1000 * (time.perf_counter() - started)

    def storage(self, size: int, label: str, uniform: bool = False) -> Any:
        """A new zeroed buffer that kernels can bind and copies can fill or read."""
        usage = wgpu().BufferUsage
        flags = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        flags |= usage.UNIFORM if uniform else 0
        with gpu_errors(f"a buffer of {size:,} bytes"):
            return self.device.gpu.create_buffer(size=size, usage=flags, label=label)

    def free(self, memory: Any) -> None:
        memory.destroy()

    def fill(self, memory: Any, words: Array) -> None:
        with gpu_errors("writing inputs"):
            self.device.queue.write_buffer(memory, 0, words)

    def results(self, size: int) -> Readback:
        return Readback(self.device, size)

    def on_new_device(self, extras: Sequence[str] = ()) -> GpuMachine:
        """The same machine on a new device of the adapter, with its features among `extras`."""
        device = open_device(self.device.gpu.adapter, self.plan, extras)
        return GpuMachine(device, self.plan, self.sources, self.profile, self._checked)

    def encoder(self) -> Any:
        with gpu_errors("recording work"):
            return self.device.gpu.create_command_encoder()

    def submit(self, encoder: Any) -> None:
        with gpu_errors("submitting work"):
            self.device.queue.submit([*self._refresh(), encoder.finish()])
        self._is_stale = False

    def _refresh(self) -> list[Any]:
        """Makes the f16 copies of weights again, if those were written since."""
        if not self._is_stale:
            return []
        encoder = self.encoder()
        record_pass(encoder, [self.command(item) for item in self.plan.copies])
        return [encoder.finish()]

    def weights_changed(self) -> None:
        self._is_stale = bool(self.plan.copies)

    def run(self, encoder: Any, entry: str) -> None:
        """Records one call of an entry: one compute pass."""
        record_pass(encoder, self._runs[entry])

    def run_half(self, encoder: Any, entry: str, half: str) -> None:
        spec = self.plan.entries[entry]
        assert spec.exchange is not None
        commands, cut = self._commands[entry], spec.exchange.dispatch
        first = [commands[number] for number, _ in run_order(spec) if number < cut]
        record_pass(encoder, first if half == GRADIENTS else self._runs[entry][len(first) :])

    def commands(self, entry: str) -> list[Command]:
        """(pipeline, bind group, grid) of each dispatch; `run` repeats those of loops."""
        self.prepare(entry)
        return self._commands[entry]

    def quick(self, entry: str) -> None:
        """A submit to a GPU takes longer than what a quick call saves."""

    def checks(self, entry: str) -> bool:
        return False

    def run_checked(self, encoder: Any, entry: str) -> None:
        raise NotImplementedError("only twins have such steps")

    def run_guard(self, encoder: Any, entry: str) -> None:
        if self._guards[entry]:
            record_pass(encoder, self._guards[entry])

    def run_dispatch(self, encoder: Any, entry: str, number: int) -> None:
        record_pass(encoder, [self._commands[entry][number]])

    def dispatch_times(self, entry: str, repeat: int) -> tuple[str, list[float]]:
        from wgcc_runtime.timing import dispatch_times

        return dispatch_times(self, entry, repeat)

    def write(self, tensor: Tensor, words: Array) -> None:
        self.check_open()
        if tensor.role == "param":
            self.weights_changed()
        with gpu_errors(f"writing `{tensor.name}`"):
            buffer = self.buffers[tensor.buffer]
            self.device.queue.write_buffer(buffer, tensor.offset, as_bytes(words))

    def read(self, buffer: int, offset: int, size: int) -> bytes:
        """Bytes of a buffer, after all work submitted so far."""
        self.check_open()
        if self._readback is None:
            self._readback = Readback(self.device, min(READ_BYTES, max(map(_size, self.buffers))))
        pieces = []
        with gpu_errors("reading a buffer"):
            for start in range(offset, offset + size, self._readback.bytes):
                length = min(self._readback.bytes, offset + size - start)
                encoder = self.encoder()
                self._readback.copy(encoder, self.buffers[buffer], start, length)
                self.submit(encoder)
                pieces.append(self._readback.fetch(length))
        return b"".join(pieces)

    def check_open(self) -> None:
        if not self._is_open:
            raise WgccError("closed", "the model was closed")

    def close(self) -> None:
        for buffer in self.buffers:
            buffer.destroy()
        self._is_open = False

    def command(self, dispatch: Dispatch) -> Command:
        """The command of a dispatch; its pipeline and bind group are made once."""
        access = self.plan.kernels[dispatch.kernel].access
        key = access, dispatch.bindings
        if key not in self._groups:
            self._groups[key] = self._group(access, dispatch.bindings)
        return self._pipeline(dispatch), self._groups[key], dispatch.grid

    def _pipeline(self, dispatch: Dispatch) -> Any:
        key = dispatch.kernel, self._unchecked.covers(dispatch)
        if key not in self._pipelines:
            self._pipelines[key] = self._make_pipeline(*key)
        return self._pipelines[key]

    def _make_pipeline(self, index: int, is_covered: bool) -> Any:
        gpu, kernel, code = self.device.gpu, self.plan.kernels[index], self.sources[index]
        flags = self._unchecked.flags(index, code) if is_covered else ALL
        with gpu_errors(f"the kernel `{kernel.name}`"):
            module = None if flags == ALL else self._unchecked.module(code, kernel.name, flags)
            if module is None:
                module = gpu.create_shader_module(code=code, label=kernel.name)
            layout = gpu.create_pipeline_layout(bind_group_layouts=[self._layout(kernel.access)])
            stage = {"module": module, "entry_point": kernel.entry}
            return gpu.create_compute_pipeline(layout=layout, compute=stage, label=kernel.name)

    def _group(self, access: tuple[str, ...], bindings: Sequence[Binding]) -> Any:
        """A bind group of ranges of the plan's buffers."""
        ranges = [
            {"buffer": self.buffers[b.buffer], "offset": b.offset, "size": b.size} for b in bindings
        ]
        entries = [{"binding": i, "resource": resource} for i, resource in enumerate(ranges)]
        with gpu_errors("binding buffers"):
            return self.device.gpu.create_bind_group(layout=self._layout(access), entries=entries)

    def _layout(self, access: tuple[str, ...]) -> Any:
        """Explicit: a layout derived from the shader would lack bindings that it does not use."""
        if access not in self._layouts:
            kinds = {"read": "read-only-storage", "read_write": "storage", "uniform": "uniform"}
            entries = [
                {
                    "binding": i,
                    "visibility": wgpu().ShaderStage.COMPUTE,
                    "buffer": {"type": kinds[how]},
                }
                for i, how in enumerate(access)
            ]
            self._layouts[access] = self.device.gpu.create_bind_group_layout(entries=entries)
        return self._layouts[access]


def record_pass(encoder: Any, commands: Sequence[Command], **options: Any) -> None:
    """One compute pass with these dispatches; within a pass they run in order."""
    compute = encoder.begin_compute_pass(**options)
    current = None
    for pipeline, group, grid in commands:
        if pipeline is not current:
            compute.set_pipeline(pipeline)
            current = pipeline
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(*grid)
    compute.end()


def _size(buffer: Any) -> int:
    return int(buffer.size)
