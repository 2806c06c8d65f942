"""WebGPU devices through wgpu, which is imported at its first use; errors become `WgccError`s.

A device is opened with WebGPU's default limits, never the adapter's own.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.interrupts import check_process, has_insisted, held, watch
from wgcc_runtime.plan import Plan
from wgcc_runtime.plan_parts import limits_of

# A step that takes longer than this is treated as a shader that never ends.
WAIT_SECONDS = 600.0
# How often a wait checks whether the user has given up.
LOOK_SECONDS = 0.2


def wgpu() -> Any:
    """The wgpu module (it is untyped, hence Any)."""
    check_process()
    try:
        module = importlib.import_module("wgpu")
    except ImportError as error:
        text = f"running a bundle needs the package wgpu (pip install wgpu): {error}"
        raise WgccError("no-wgpu", text) from None
    watch(module)
    return module


@contextlib.contextmanager
def gpu_errors(doing: str) -> Iterator[None]:
    """Within this, an error of wgpu becomes a `WgccError`; `doing` says what was being done.

    Signals are deferred, because an exception inside wgpu leaves it in an unusable state.
    """
    gpu_error = wgpu().GPUError
    with held():
        try:
            yield
        except (gpu_error, RuntimeError, MemoryError) as error:
            # RuntimeError is what a failed mapping raises.
            raise _translate(doing, str(error)) from error


def _translate(doing: str, text: str) -> WgccError:
    lower = text.lower()
    if "device is lost" in lower or "device lost" in lower or "device was lost" in lower:
        return WgccError(
            "device-lost",
            f"the GPU device was lost while {doing}; load the bundle again and continue from the "
            "last checkpoint",
        )
    if "not enough memory" in lower or "out of memory" in lower:
        advice = "use a smaller batch or model (wgcc build --set), or another adapter"
        return WgccError("memory", f"the GPU does not have enough memory for {doing}: {advice}")
    return WgccError("gpu", f"the GPU driver refused {doing}: {text}")


def wait(promise: Any, doing: str, seconds: float = WAIT_SECONDS) -> None:
    """Waits for a promise of wgpu, with a time-out."""
    done = getattr(promise, "_thread_event", None)
    ends = time.monotonic() + seconds
    # Without that event (it is not public in wgpu) there is no time-out, but the wait still works.
    while done is not None and not done.wait(min(LOOK_SECONDS, seconds)):
        if has_insisted():
            text = f"Ctrl-C was pressed several times, so {doing} was no longer waited for"
            raise WgccError("interrupted", text)
        if time.monotonic() > ends:
            raise WgccError("time-out", f"the GPU did not finish {doing} within {seconds:.0f} s")
    promise.sync_wait()


@contextlib.contextmanager
def quiet_drivers() -> Iterator[None]:
    """Mesa prints a warning if this variable is unset, although nothing here needs a window."""
    name = "XDG_RUNTIME_DIR"
    if os.name != "posix" or os.environ.get(name):
        yield
        return
    os.environ[name] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ[name]


# The best adapter first. OpenGL is a last resort: it lacks parts of WebGPU.
_KINDS = ("DiscreteGPU", "IntegratedGPU", "VirtualGPU", "Unknown", "CPU")
_SOFTWARE = re.compile("llvmpipe|swiftshader|basic render", re.IGNORECASE)
# What to do about a feature that an adapter lacks.
_ADVICE = {"shader-f16": "; build the model with `precision = f32` for it"}
# Other names people know the software adapters by.
_ALIASES = {"lavapipe": "llvmpipe", "cpu": "llvmpipe"}
DEFAULT_PROFILE = "gpu"
# The prefix of the name of a profile that `wgcc tune` makes for an adapter.
TUNED = "tuned_"
# What browsers want in a kernel with subgroup operations, and wgpu may refuse.
DIRECTIVE = "enable subgroups;\n"
_DIRECTIVES = (DIRECTIVE, "")
# What wgpu and WebGPU call the feature; what turns its use off.
_SUBGROUPS = ("subgroup", "subgroups")
SUBGROUPS_VARIABLE = "WGCC_SUBGROUPS"
_OFF = ("0", "off", "false", "no")
# The smallest kernel with the operations that kernels use.
PROBE = """
var<workgroup> found: array<f32, 64>;

@compute @workgroup_size(64)
fn main(
  @builtin(subgroup_invocation_id) id: u32,
  @builtin(subgroup_size) size: u32,
  @builtin(local_invocation_index) lane: u32,
) {
  let whole = subgroupAll(subgroupBallot(true)[id / 32u] != 0u);
  let near = subgroupShuffleXor(f32(lane), 1u);
  found[lane] = select(subgroupShuffle(near, id % size), near, whole);
}
"""
NO_ADAPTER = (
    "no WebGPU adapter was found. With a GPU: install its Vulkan driver. Without: bundles run as "
    "WebAssembly, unless they were built with --no-twin; a software adapter works too (Debian, "
    "Ubuntu: apt install mesa-vulkan-drivers). `wgcc doctor` shows what is there"
)


@dataclass(frozen=True, slots=True)
class Device:
    """An open wgpu device and the name of its adapter."""

    gpu: Any
    name: str
    # What kernels with subgroup operations start with; None: they cannot be used.
    subgroups: str | None = None
    # Only the twin leaves products to BLAS.
    is_fast: bool = False

    def profile_in(self, plan: Plan) -> str:
        """The profile that `wgcc tune` made for this adapter, else the default."""
        tuned = tuned_name(self.name)
        return tuned if tuned in plan.profiles else DEFAULT_PROFILE

    @property
    def has_subgroups(self) -> bool:
        return self.subgroups is not None

    def with_directive(self, text: str) -> str:
        """A kernel with subgroup operations, as this device wants it."""
        return text.replace(DIRECTIVE, self.subgroups or "", 1)

    @property
    def queue(self) -> Any:
        return self.gpu.queue


def open_device(choice: Any, plan: Plan, extras: Iterable[str] = ()) -> Device:
    """A device by `choice`: None (the best), part of an adapter's name, a wgpu adapter or device.

    It has what the plan requires; `extras` are features requested if the adapter has them.
    """
    if hasattr(choice, "create_command_encoder"):
        _check_adapter(choice, plan)
        return Device(choice, adapter_name(choice.adapter), _directive(choice))
    adapter = choice if hasattr(choice, "request_device_sync") else choose_adapter(choice)
    _check_adapter(adapter, plan)
    wanted = (*extras, *(_SUBGROUPS if uses_subgroups() else ()))
    granted = [name for name in wanted if name in adapter.features]
    with gpu_errors("opening the device"):
        gpu = adapter.request_device_sync(
            required_features=[*plan.features, *granted],
            required_limits=_required_limits(adapter.limits, limits_of(plan)),
        )
    return Device(gpu, adapter_name(adapter), _directive(gpu))


def uses_subgroups() -> bool:
    """Whether devices that have subgroup operations use them."""
    return os.environ.get(SUBGROUPS_VARIABLE, "").lower() not in _OFF


def _directive(gpu: Any) -> str | None:
    """The directive that wgpu needs before kernels with subgroup operations; None without them."""
    if not uses_subgroups() or not any(name in gpu.features for name in _SUBGROUPS):
        return None
    return next((text for text in _DIRECTIVES if _compiles(gpu, text)), None)


def _compiles(gpu: Any, directive: str) -> bool:
    try:
        with gpu_errors("a kernel with subgroup operations"):
            module = gpu.create_shader_module(code=directive + PROBE)
            stage = {"module": module, "entry_point": "main"}
            gpu.create_compute_pipeline(layout="auto", compute=stage)
    except WgccError as error:
        # Too little memory, or a lost device, says nothing about kernels.
        if error.code != "gpu":
            raise
        return False
    return True


def adapters() -> list[Any]:
    """All adapters of this machine, the best first."""
    with quiet_drivers(), gpu_errors("looking for adapters"):
        unsorted = wgpu().gpu.enumerate_adapters_sync()
    return sorted(unsorted, key=_rank)


def choose_adapter(name: str | None) -> Any:
    """The adapter whose name contains `name`; by default the best."""
    wanted = name or ""
    candidates = adapters()
    if not candidates:
        raise WgccError("no-adapter", NO_ADAPTER)
    for adapter in adapters_named(candidates, wanted):
        return adapter
    names = ", ".join(adapter_name(adapter) for adapter in candidates)
    raise WgccError("no-adapter", f"no adapter's name contains `{wanted}`; there are: {names}")


def adapters_named(candidates: Iterable[Any], name: str) -> list[Any]:
    """The candidates whose name contains `name`."""
    part = _ALIASES.get(name.lower(), name).lower()
    return [adapter for adapter in candidates if part in adapter_name(adapter).lower()]


def can_run(adapter: Any, plan: Plan) -> bool:
    """Whether it has the features and limits that the plan needs."""
    try:
        _check_adapter(adapter, plan)
    except WgccError:
        return False
    return True


def adapter_name(adapter: Any) -> str:
    info = adapter.info
    return str(info["device"] or info["description"] or info["vendor"])


def tuned_name(adapter: str) -> str:
    """The name of the profile that `wgcc tune` makes for an adapter."""
    return re.sub(r"\W+", "_", f"{TUNED}{adapter}", flags=re.ASCII)[:99]


def is_software(name: str, kind: str) -> bool:
    return kind == "CPU" or bool(_SOFTWARE.search(name))


def limit_key(name: str) -> str:
    """wgpu's spelling of a limit: maxBufferSize -> max-buffer-size."""
    return re.sub("([A-Z])", lambda match: f"-{match[1].lower()}", name)


def _rank(adapter: Any) -> tuple[bool, int]:
    kind = adapter.info["adapter_type"]
    is_opengl = adapter.info["backend_type"].startswith("OpenGL")
    return is_opengl, _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def _check_adapter(there: Any, plan: Plan) -> None:
    missing = [name for name in plan.features if name not in there.features]
    if missing:
        advice = _ADVICE.get(missing[0], "")
        text = f"the adapter lacks {', '.join(missing)}, which the bundle needs{advice}"
        raise WgccError("feature", text, missing[0])
    for name, value in plan.limits.items():
        key = limit_key(name)
        if not name.startswith("min") and there.limits.get(key, value) < value:
            text = f"the bundle needs {name} = {value}; the adapter has {there.limits[key]}"
            raise WgccError("limit", f"{text}{_without_gpu(plan)}", name)


def _without_gpu(plan: Plan) -> str:
    if plan.twin:
        return ': load(..., device="wasm") needs no GPU'
    if plan.no_twin:
        return f"; it has no twin for machines without a GPU: {plan.no_twin}"
    return ": a bundle built without --no-twin needs no GPU"


def _required_limits(there: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """All limits by name, because wgpu grants the adapter's own where none is requested."""
    asked = {limit_key(name): value for name, value in wanted.items()}
    return {
        name: value if name.startswith("min") else min(value, there[name])
        for name, value in asked.items()
        if name in there
    }


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
