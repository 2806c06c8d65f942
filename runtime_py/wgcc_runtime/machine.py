"""The interface of what runs a bundle: memory, recorded work, results.

`gpu_machine` implements it with WebGPU, `wasm_machine` with WebAssembly. Runs, guards, training,
checkpoints and recovery use only this interface.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from wgcc_runtime.plan import Plan, Tensor

if TYPE_CHECKING:
    # The compiler reads this module where numpy is missing.
    from wgcc_runtime.arrays import Array
    from wgcc_runtime.quick_call import QuickCall

# Memory of a machine: one of its buffers, or a result of `storage`. Only the machine looks inside.
Memory = Any
# The halves of an entry that trains, if its plan separates them.
GRADIENTS, UPDATE = "gradients", "update"


class Device(Protocol):
    """The device that a machine runs on."""

    @property
    def name(self) -> str: ...

    @property
    def has_subgroups(self) -> bool: ...

    @property
    def is_fast(self) -> bool: ...


class Encoder(Protocol):
    """Recorded work: nothing of it happens before it is submitted."""

    def copy_buffer_to_buffer(
        self, source: Memory, offset: int, target: Memory, at: int, size: int
    ) -> None: ...

    def clear_buffer(self, buffer: Memory, offset: int = 0, size: int | None = None) -> None: ...


class Results(Protocol):
    """Memory that the host can read, reused for every read."""

    def copy(self, encoder: Any, source: Memory, offset: int, size: int, at: int = 0) -> None:
        """Records a copy of `size` bytes of `source` to here."""

    def fetch(self, size: int) -> memoryview:
        """The first `size` bytes, after all work submitted so far.

        No step counts as done before this returns: errors are raised here.
        """

    def close(self) -> None: ...


class Machine(Protocol):
    """One bundle on one device. `buffers` are those of the plan.

    `calls_made`: of `run_checked`, those that the last submit completed before an error ended it.
    """

    plan: Plan
    profile: str
    compile_ms: float
    buffers: list[Memory]
    calls_made: int

    @property
    def device(self) -> Device: ...

    def prepare(self, entry: str) -> None:
        """Compiles what an entry runs, unless that was done before."""

    def errors(self, doing: str) -> AbstractContextManager[None]:
        """Within this, errors of the device become `WgccError`s and signals are deferred."""

    def storage(self, size: int, label: str) -> Memory:
        """New zeroed memory; an error with code `memory` if there is not enough."""

    def free(self, memory: Memory) -> None: ...

    def fill(self, memory: Memory, words: Array) -> None:
        """Writes from the start of a `storage`."""

    def results(self, size: int) -> Results: ...

    def encoder(self) -> Any: ...

    def run(self, encoder: Any, entry: str) -> None:
        """Records one call of an entry."""

    def run_half(self, encoder: Any, entry: str, half: str) -> None:
        """Records the dispatches before, or from, the one that `exchange` of the plan names."""

    def checks(self, entry: str) -> bool:
        """Can `run_checked` make the training steps of this entry?"""

    def run_checked(self, encoder: Any, entry: str) -> None:
        """Records a step that only sets the guard's flag if it would have to be undone.

        While the flag is set, it does nothing.
        """

    def run_guard(self, encoder: Any, entry: str) -> None:
        """Records the test of what an entry wrote; nothing if the plan has none."""

    def quick(self, entry: str) -> QuickCall | None:
        """Calls the entry at once, if it takes only microseconds; None if not, or not yet."""

    def run_dispatch(self, encoder: Any, entry: str, number: int) -> None:
        """Records one dispatch of an entry alone."""

    def submit(self, encoder: Any) -> None: ...

    def write(self, tensor: Tensor, words: Array) -> None: ...

    def weights_changed(self) -> None:
        """Parameters were written by something else than `write` or a call of an entry."""

    def read(self, buffer: int, offset: int, size: int) -> bytes:
        """Bytes of a buffer, after all work submitted so far."""

    def dispatch_times(self, entry: str, repeat: int) -> tuple[str, list[float]]:
        """How it was measured, and median milliseconds of each dispatch, on zeros."""

    def on_new_device(self) -> Machine:
        """A new machine for the same bundle, because this one was lost."""

    def check_open(self) -> None: ...

    def close(self) -> None: ...
