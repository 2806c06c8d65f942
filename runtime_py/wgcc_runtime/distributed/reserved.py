"""A cluster reserves cores and GPUs for a worker: threads of a twin, and adapters.

Ray counts the GPUs of a machine from 0 on, as CUDA does. Here number n is the n-th adapter of the
machine, in the order in which WebGPU enumerates them, so that workers of one machine have different
ones. The same GPU may be there for several backends (Vulkan, OpenGL): only the best one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc_runtime.choice import AUTO, WASM, WEBGPU
from wgcc_runtime.device import adapter_name, adapters, adapters_named, is_software
from wgcc_runtime.errors import WgccError
from wgcc_runtime.wasm_machine import MOST_THREADS


def threads_for(cores: float, threads: int | None) -> int:
    """The number of threads of the twin: one for each core, unless the caller sets `threads`."""
    return min(max(1, int(cores)), MOST_THREADS) if threads is None else threads


def check_request(cores: Any, gpus: Any) -> None:
    for name, value in {"cores": cores, "gpus": gpus}.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < float("inf"):
            raise WgccError("range", f"`{name}` is 0 or a positive number, not {value!r}", name)
    if cores > 1 and cores != int(cores):
        text = f"`cores` above 1 is a whole number, not {cores:g}"
        raise WgccError("range", text, "cores")
    if gpus > 1:
        text = f"`gpus` is at most 1, because a worker uses one adapter, not {gpus:g}"
        raise WgccError("range", text, "gpus")


def device_for(device: Any, numbers: Sequence[int]) -> Any:
    """The device for `load`: the adapter of the GPU that is reserved, if one is.

    `device` is that of the training: a part of a name chooses among the adapters of that name.
    """
    if not numbers or device == WASM:
        return device
    choices, number = candidates(device), int(numbers[0])
    if number < len(choices):
        return choices[number]
    names = ", ".join(map(adapter_name, choices)) or "none"
    raise WgccError(
        "no-adapter",
        f"GPU {number} of this machine is reserved for the worker, but its adapters are: {names} "
        "(numbered from 0); start Ray there with as many GPUs (`ray start --num-gpus`)",
    )


def candidates(device: Any) -> list[Any]:
    """The adapters that a reserved number may mean: hardware, unless software is asked for."""
    wanted = str(device or AUTO).lower()
    distinct = _of_best_backend(adapters())
    if wanted == AUTO:
        kinds = [(one, adapter_name(one), one.info["adapter_type"]) for one in distinct]
        return [one for one, name, kind in kinds if not is_software(name, kind)]
    return distinct if wanted == WEBGPU else adapters_named(distinct, wanted)


def _of_best_backend(choices: Sequence[Any]) -> list[Any]:
    backends = [str(one.info["backend_type"]) for one in choices]
    return [one for one, backend in zip(choices, backends, strict=True) if backend == backends[0]]
