"""`load`: reads a bundle and makes a model; all checks precede the first GPU call."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from wgcc_runtime.bundle_files import (
    Read,
    guard_wgsl,
    open_bundle,
    read_kernel,
    read_subgroups,
    read_twin,
)
from wgcc_runtime.choice import WASM, choose
from wgcc_runtime.copying import Origin
from wgcc_runtime.device import DEFAULT_PROFILE, open_device
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.errors import WgccError, WgccWarning
from wgcc_runtime.gpu_machine import GpuMachine
from wgcc_runtime.interrupts import check_process
from wgcc_runtime.machine import Machine
from wgcc_runtime.model import Model
from wgcc_runtime.plan import MAX_PLAN_BYTES, Kernel, Plan, read_plan, unchecked_plan
from wgcc_runtime.twin_form import check_twin_form
from wgcc_runtime.values import OnBytes, StartValues
from wgcc_runtime.wasm_machine import MOST_BYTES, WasmMachine, choose_threads, memory_bytes

# What a bundle may allocate unless the caller allows more.
MAX_BYTES = 8 << 30


def load(
    path: str | Path,
    device: Any = None,
    weights: Any = None,
    seed: int | None = None,
    profile: str | None = None,
    verify: bool = False,
    max_bytes: int = MAX_BYTES,
    threads: int | None = None,
    entries: Iterable[str] = (),
    on_bytes: OnBytes | None = None,
    checked: bool | None = None,
    fast: bool = False,
) -> Model:
    """A bundle (folder or .zip), ready to train and predict.

    `device`: `wasm` (the bundle's WebAssembly twin), `webgpu` (the best adapter), part of an
    adapter's name, a wgpu adapter or device; `auto` or none: a GPU, else the twin.
    `weights`: a safetensors file, its bytes, or arrays by name, instead of the bundle's own; or
    `ema`: the moving averages in the bundle's own, if `save` wrote it.
    `seed`: draws new initial values and seeds dropout and other random numbers.
    `profile`: which kernels; default: those tuned for the adapter, else `gpu`.
    `verify`: run the bundle's self-test first; a wrong result raises code `selftest`.
    `threads`: of the twin; default: $WGCC_THREADS, or as many as are worth it, at most 4.
    `entries`: are compiled for the GPU at once; others at their first call.
    `on_bytes`: is called with the bytes of values that are read or drawn so far, and all.
    `checked`: True keeps all checks of kernels at run time. By default those of which the compiler
    proves here that they need none go without on a GPU with Vulkan; False: on a software adapter
    too.
    `fast`: the twin leaves large products to numpy's BLAS, if the bundle was built with `--fast`.
    Results are as close as those of a GPU, but not the same bits in each place. GPUs ignore it.
    """
    check_process()
    seed = checked_seed(seed)
    plan = load_plan(path)
    origin = Origin(open_bundle(path), device, profile, max_bytes, threads, checked, fast)
    values = StartValues(plan, origin.read, weights)
    machine = open_machine(plan, origin)
    model = Model(machine, values, seed, on_bytes, origin)
    for entry in entries:
        machine.prepare(model.entry(entry).name)
    if verify:
        from wgcc_runtime.selftest import check_selftest

        check_selftest(model)
    return model


def open_machine(plan: Plan, origin: Origin) -> Machine:
    """Opens the machine that runs the plan: what its origin names, or the best there is."""
    read, max_bytes = origin.read, origin.max_bytes
    if origin.fast:
        _check_fast(plan)
    chosen = choose(origin.device, plan, origin.profile)
    if plan.edited:
        rest = "; the twin, which runs here, does not have the edits" if chosen == WASM else ""
        text = f"edited by hand in this bundle: {', '.join(plan.edited)}{rest}"
        warnings.warn(text, WgccWarning, stacklevel=3)
    if chosen == WASM:
        return _twin_machine(read, plan, max_bytes, origin.threads, origin.fast)
    return _gpu_machine(plan, origin, chosen)


def open_twin(raw: Mapping[str, Any], read: Read) -> Model:
    """The twin of a bundle that the caller is about to write, on one thread.

    Its plan is not checked: it is the caller's own.
    """
    plan = with_tokens(unchecked_plan(json.loads(json.dumps(raw))), read)
    machine = _twin_machine(read, plan, MAX_BYTES, 1)
    return Model(machine, StartValues(plan, read, None), None)


def _gpu_machine(plan: Plan, origin: Origin, device: Any) -> GpuMachine:
    read, profile = origin.read, origin.profile
    _check_bytes(sum(buffer.bytes for buffer in plan.buffers), origin.max_bytes, " on the GPU")
    sources = [_checked_source(read_kernel(read, kernel), kernel) for kernel in plan.kernels]
    if profile is not None and profile not in (DEFAULT_PROFILE, *plan.profiles):
        known = ", ".join(sorted({DEFAULT_PROFILE, *plan.profiles}))
        raise WgccError("name", f"the bundle has no profile `{profile}`; there are: {known}")
    opened = open_device(device, plan)
    if opened.has_subgroups:
        forms = [read_subgroups(read, kernel) for kernel in plan.kernels]
        sources = [
            source if form is None else opened.with_directive(_checked_source(form, kernel))
            for kernel, source, form in zip(plan.kernels, sources, forms, strict=True)
        ]
    chosen = profile or opened.profile_in(plan)
    return GpuMachine(opened, plan, sources, chosen, origin.checked)


def _checked_source(source: str, kernel: Kernel) -> str:
    guard_wgsl(source, kernel.file)
    return source


def _check_fast(plan: Plan) -> None:
    """Raises where there is nothing that `fast` could make faster."""
    if plan.twin is None:
        why = plan.no_twin or "build it again, without --no-twin"
        text = f"fast=True makes the twin faster, and the bundle has none: {why}"
        raise WgccError("name", text, "fast")
    if plan.twin.products is None:
        text = "the bundle was built without --fast, so the twin computes all products itself"
        raise WgccError("name", f"{text}: build it again with wgcc build --fast", "fast")


def _twin_machine(
    read: Read, plan: Plan, max_bytes: int, threads: int | None, fast: bool = False
) -> WasmMachine:
    assert plan.twin is not None
    code = read_twin(read, plan.twin)
    check_twin_form(code, plan)
    chosen = choose_threads(threads, plan, plan.twin)
    total = memory_bytes(plan.twin, chosen.count, fast)
    _check_bytes(total, max_bytes, "")
    if total > MOST_BYTES:
        text = f"the twin needs {total:,} bytes with {chosen.count} threads; WebAssembly has 4 GiB"
        raise WgccError("memory", f'{text}: load(..., device="webgpu") has no such limit')
    return WasmMachine(plan, code, chosen, fast)


def _check_bytes(total: int, most: int, where: str) -> None:
    if total > most:
        text = f"the bundle needs {total:,} bytes{where}; load(..., max_bytes={total}) allows it"
        raise WgccError("memory", text)


def load_plan(path: str | Path) -> Plan:
    """The checked plan of a bundle, without touching a GPU."""
    read = open_bundle(path)
    data = read("plan.json", MAX_PLAN_BYTES)
    if data is None:
        raise WgccError("bundle", f"{path} has no plan.json, so it is not a bundle of wgcc")
    return with_tokens(read_plan(data), read)


def with_tokens(plan: Plan, read: Read) -> Plan:
    """The plan, whose tokens can be opened."""
    if plan.tokens is None:
        return plan
    # Only here, because few models have tokens.
    from wgcc_runtime.tokens.bundle_tokens import BundleTokens

    return replace(plan, tokens=replace(plan.tokens, open=BundleTokens(plan.tokens, read)))
