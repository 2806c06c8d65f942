"""Checks of a plan that a schema cannot express: indices, ranges, overlaps, aliases and totals.

Runs before any GPU call, so that a bad bundle can neither crash a driver nor corrupt a tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NoReturn

from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import (
    Binding,
    Dispatch,
    Entry,
    EntryGuard,
    Plan,
    RangeGuard,
    Repeat,
    Rows,
    Tensor,
    Twin,
)
from wgcc_runtime.plan_parts import check_captures, check_exchange, limits_of, times_run
from wgcc_runtime.strict_json import table

MAX_DISPATCHES = 10_000
# Of one call, all rounds counted.
MAX_RUN = 1_000_000
# WebGPU's unit for the size of uniform bindings.
UNIFORM_BYTES = 16
LASTING: list[str] = table("plan_roles")["lasting"]
# Roles of buffers that tensors may be stored in: looking for a NaN clears others. Inputs of one
# element are stored among the state's.
STORED_IN: dict[str, list[str]] = table("plan_roles")["stored"]
# Buffer roles behind each figure of `memory`.
MEMORY_ROLES: dict[str, list[str]] = table("plan_roles")["memory"]


def validate(plan: Plan) -> None:
    """Raises a `WgccError` with code `plan` or `limit` for the first defect."""
    limits = limits_of(plan)
    _check_buffers(plan, limits)
    _check_tensors(plan)
    _check_kernels(plan, limits)
    for entry in plan.entries.values():
        _check_entry(plan, entry, limits)
    counts = [_dispatch_count(entry) for entry in plan.entries.values()]
    if sum(counts) + len(plan.copies) > MAX_DISPATCHES:
        _refuse("entries", f"has more than {MAX_DISPATCHES} dispatches in all")
    for i, dispatch in enumerate(plan.copies):
        _check_dispatch(plan, dispatch, f"copies[{i}]", limits)
    for name in plan.profiles:
        _check_profile(plan, name)
    _check_optimizer(plan)
    _check_selftest(plan)
    _check_memory(plan)
    if plan.twin:
        _check_twin(plan, plan.twin)


def _refuse(field: str, complaint: str, code: str = "plan") -> NoReturn:
    raise WgccError(code, f"plan.json: `{field}` {complaint}", field)


def _within(field: str, limit: str, value: int, limits: Mapping[str, int]) -> None:
    if value > limits[limit]:
        _refuse(field, f"needs {limit} = {value}, beyond {limits[limit]}", "limit")


def _unique(field: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            _refuse(f"{field}[{i}]", f"repeats the name {name}")
        seen.add(name)


def _check_buffers(plan: Plan, limits: Mapping[str, int]) -> None:
    _unique("buffers", (buffer.name for buffer in plan.buffers))
    for i, buffer in enumerate(plan.buffers):
        _within(f"buffers[{i}].bytes", "maxBufferSize", buffer.bytes, limits)


def _check_tensors(plan: Plan) -> None:
    for name, tensor in plan.tensors.items():
        field = f"tensors.{name}"
        if tensor.buffer >= len(plan.buffers):
            _refuse(f"{field}.buffer", f"is {tensor.buffer}; there are {len(plan.buffers)} buffers")
        room, role = plan.buffers[tensor.buffer].bytes, plan.buffers[tensor.buffer].role
        if role not in STORED_IN.get(tensor.role, (role,)):
            _refuse(f"{field}.buffer", f"is for {role}, and the tensor is of role {tensor.role}")
        if tensor.offset + tensor.bytes > room:
            end = tensor.offset + tensor.bytes
            _refuse(field, f"ends at byte {end} of a buffer of {room}")
        if tensor.any_float and not (tensor.role == "input" and tensor.is_float):
            _refuse(f"{field}.any_float", "is for inputs of floats")
        _check_copy(plan, tensor)
    _check_disjoint(_lasting(plan))


def _lasting(plan: Plan) -> list[Tensor]:
    return [tensor for tensor in plan.tensors.values() if tensor.role in LASTING]


def _is_persistent(plan: Plan, name: str) -> bool:
    return name in plan.tensors and plan.tensors[name].role in ("param", "state")


def _check_copy(plan: Plan, tensor: Tensor) -> None:
    if tensor.init["kind"] == "copy":
        name = tensor.init.get("of", "")
        original = plan.tensors[name] if _is_persistent(plan, name) else None
        is_original = original is not None and original.init["kind"] != "copy"
        if not (is_original and _are_alike(original, tensor)):
            _refuse(f"tensors.{tensor.name}.init", "copies no tensor of the same shape")


def _are_alike(one: Tensor | None, other: Tensor) -> bool:
    """Whether both have one shape, and as many bytes per element."""
    return one is not None and (one.shape, one.bytes) == (other.shape, other.bytes)


def _check_disjoint(tensors: Sequence[Tensor]) -> None:
    """No two of these tensors may share memory."""
    unique = {tensor.name: tensor for tensor in tensors}.values()
    ordered = sorted(unique, key=lambda tensor: (tensor.buffer, tensor.offset))
    for left, right in pairwise(ordered):
        if left.buffer == right.buffer and left.offset + left.bytes > right.offset:
            if left.role == right.role == "constant" and _same_place(left, right):
                continue
            _refuse(f"tensors.{right.name}", f"overlaps `{left.name}`")


def _same_place(left: Tensor, right: Tensor) -> bool:
    """Constants of equal content may share one place."""
    return left.offset == right.offset and left.bytes == right.bytes


def _check_kernels(plan: Plan, limits: Mapping[str, int]) -> None:
    _unique("kernels", (kernel.name for kernel in plan.kernels))
    _unique("kernels", (kernel.file for kernel in plan.kernels))
    for i, kernel in enumerate(plan.kernels):
        field = f"kernels[{i}].workgroup"
        for axis, size in zip("XYZ", kernel.workgroup, strict=True):
            _within(field, f"maxComputeWorkgroupSize{axis}", size, limits)
        _within(field, "maxComputeInvocationsPerWorkgroup", prod(kernel.workgroup), limits)
        uniforms = kernel.access.count("uniform")
        storage = len(kernel.access) - uniforms
        field = f"kernels[{i}].access"
        _within(field, "maxStorageBuffersPerShaderStage", storage, limits)
        _within(field, "maxUniformBuffersPerShaderStage", uniforms, limits)


def _check_entry(plan: Plan, entry: Entry, limits: Mapping[str, int]) -> None:
    field = f"entries.{entry.name}"
    _check_roles(f"{field}.inputs", entry.inputs, "input")
    _check_roles(f"{field}.outputs", entry.outputs, "output")
    _check_port_places(plan, entry)
    for i, name in enumerate(entry.writes):
        if not _is_persistent(plan, name):
            _refuse(f"{field}.writes[{i}]", f"names no parameter or state: {name}")
    _check_ranges(entry, f"{field}.ranges")
    for i, dispatch in enumerate(entry.dispatches):
        _check_dispatch(plan, dispatch, f"{field}.dispatches[{i}]", limits)
    _check_repeats(entry, f"{field}.repeats")
    if entry.guard:
        _check_guard(plan, entry.guard, f"{field}.guard", limits)
    if entry.range_guard:
        _check_range_guard(entry, entry.range_guard, f"{field}.range_guard")
    if entry.rows:
        _check_rows(entry, entry.rows, f"{field}.rows")
    check_exchange(plan, entry, _refuse)
    check_captures(entry, _refuse)


def _check_rows(entry: Entry, rows: Rows, field: str) -> None:
    for i, name in enumerate(rows.inputs):
        if name not in entry.inputs or entry.inputs[name].shape[:1] != (rows.count,):
            _refuse(f"{field}.inputs[{i}]", f"is not an input with {rows.count} rows: {name}")
    if not rows.outputs:
        return
    if rows.why or entry.writes or entry.training:
        _refuse(f"{field}.outputs", "is for entries that change nothing and compute rows alone")
    if rows.outputs.keys() != entry.outputs.keys():
        _refuse(f"{field}.outputs", "does not name all outputs of the entry, and no others")
    for name, form in rows.outputs.items():
        tensor = entry.outputs[name]
        divides = tensor.shape and tensor.shape[0] % rows.count == 0
        if (form == "rows" and not divides) or (form == "mean" and not tensor.is_float):
            _refuse(f"{field}.outputs.{name}", f"is {form}, but the output is {tensor}")


def _check_repeats(entry: Entry, field: str) -> None:
    """Loops are inside the list of dispatches, nested or disjoint, outer before inner."""
    around: list[Repeat] = []
    last = 0
    for i, loop in enumerate(entry.repeats):
        while around and around[-1].end <= loop.first:
            around.pop()
        end = around[-1].end if around else len(entry.dispatches)
        if loop.first < last or loop.end > end:
            _refuse(f"{field}[{i}]", "is neither inside the list or loop before it nor behind it")
        around.append(loop)
        last = loop.first
    if sum(times_run(entry)) > MAX_RUN:
        _refuse(field, f"runs more than {MAX_RUN:,} dispatches in a call")


def _check_ranges(entry: Entry, field: str) -> None:
    for name, allowed in entry.ranges.items():
        if name not in entry.inputs or entry.inputs[name].is_float:
            _refuse(f"{field}.{name}", "is not an integer input of the entry")
        if allowed.low > allowed.high:
            _refuse(f"{field}.{name}", f"is empty: {allowed.low} to {allowed.high}")


def _check_range_guard(entry: Entry, guard: RangeGuard, field: str) -> None:
    _check_flag(guard.flag, f"{field}.flag")
    for i, name in enumerate(guard.restored):
        if name not in entry.writes:
            _refuse(f"{field}.restored[{i}]", f"is not a tensor that the entry writes: {name}")


def _check_flag(flag: Tensor, field: str) -> None:
    if flag.role != "output" or flag.dtype != "u32" or flag.size != 1:
        _refuse(field, f"names `{flag.name}`, which is not an output of one u32")


def _check_roles(field: str, ports: Mapping[str, Tensor], role: str) -> None:
    for name, tensor in ports.items():
        if tensor.role != role:
            _refuse(f"{field}.{name}", f"names `{tensor.name}`, whose role is {tensor.role}")


def _check_port_places(plan: Plan, entry: Entry) -> None:
    """Inputs and outputs share no memory; only an output may be a tensor that the entry writes."""
    lasting, written = _lasting(plan), set(entry.writes)
    flag = [guard.flag for guard in (entry.guard, entry.range_guard) if guard]
    _check_disjoint([*lasting, *entry.inputs.values(), *flag])
    others = [tensor for tensor in lasting if tensor.name not in written]
    shown = [
        t for capture in entry.captures.values() for t in capture.tensors if t.role == "output"
    ]
    ports = *entry.inputs.values(), *entry.outputs.values(), *shown
    _check_disjoint([*others, *ports, *flag])


def _check_guard(plan: Plan, guard: EntryGuard, field: str, limits: Mapping[str, int]) -> None:
    _check_flag(guard.flag, f"{field}.flag")
    for i, dispatch in enumerate(guard.dispatches):
        _check_dispatch(plan, dispatch, f"{field}.dispatches[{i}]", limits)


def _dispatch_count(entry: Entry) -> int:
    return len(entry.dispatches) + (len(entry.guard.dispatches) if entry.guard else 0)


def _check_dispatch(plan: Plan, dispatch: Dispatch, field: str, limits: Mapping[str, int]) -> None:
    for i, binding in enumerate(dispatch.bindings):
        place = f"{field}.bindings[{i}]"
        if binding.buffer >= len(plan.buffers):
            _refuse(f"{place}.buffer", f"is {binding.buffer}; there are {len(plan.buffers)}")
        room, end = plan.buffers[binding.buffer].bytes, binding.offset + binding.size
        if end > room:
            _refuse(place, f"ends at byte {end} of a buffer of {room}")
        _within(f"{place}.size", "maxStorageBufferBindingSize", binding.size, limits)
    _check_kernel_use(plan, dispatch.kernel, dispatch.bindings, field)


def _check_kernel_use(plan: Plan, index: int, bindings: Sequence[Binding], field: str) -> None:
    if index >= len(plan.kernels):
        _refuse(f"{field}.kernel", f"is {index}; there are {len(plan.kernels)} kernels")
    access = plan.kernels[index].access
    if len(access) != len(bindings):
        name = plan.kernels[index].name
        _refuse(f"{field}.bindings", f"has {len(bindings)} items; `{name}` takes {len(access)}")
    for i, (one, how) in enumerate(zip(bindings, access, strict=True)):
        if how == "uniform":
            _check_uniform(plan, one, f"{field}.bindings[{i}]")
        for other, other_how in zip(bindings[:i], access[:i], strict=True):
            if one.buffer == other.buffer and "read_write" in (how, other_how):
                _check_alias(one, other, how == other_how, f"{field}.bindings[{i}]")


def _check_uniform(plan: Plan, binding: Binding, field: str) -> None:
    """Only buffers of counters can be bound as uniforms."""
    role = plan.buffers[binding.buffer].role
    if role != "counter" or binding.size % UNIFORM_BYTES:
        _refuse(field, f"is bound as a uniform: {binding.size} bytes of a buffer for {role}")


def _check_alias(one: Binding, other: Binding, both_write: bool, field: str) -> None:
    """WebGPU forbids one buffer as read and read_write at once, even in disjoint ranges."""
    if not both_write:
        _refuse(field, f"binds buffer {one.buffer} for reading and for writing at once")
    if one.offset < other.offset + other.size and other.offset < one.offset + one.size:
        _refuse(field, f"overlaps another range of buffer {one.buffer} that is written")


def _check_profile(plan: Plan, profile: str) -> None:
    for name, replacements in plan.profiles[profile].items():
        field = f"profiles.{profile}.{name}"
        if name not in plan.entries:
            _refuse(field, "names no entry")
        dispatches = plan.entries[name].dispatches
        seen: set[int] = set()
        for i, new in enumerate(replacements):
            place = f"{field}[{i}]"
            if new.dispatch >= len(dispatches) or new.dispatch in seen:
                _refuse(f"{place}.dispatch", f"is {new.dispatch}: no such dispatch, or repeated")
            seen.add(new.dispatch)
            _check_kernel_use(plan, new.kernel, dispatches[new.dispatch].bindings, place)


def _check_optimizer(plan: Plan) -> None:
    for name, optimizer in plan.optimizer.items():
        if not _is_persistent(plan, optimizer["step"]):
            _refuse(f"optimizer.{name}.step", f"names no state: {optimizer['step']}")
        for i, entry in enumerate(optimizer["entry"]):
            if entry not in plan.entries:
                _refuse(f"optimizer.{name}.entry[{i}]", f"names no entry: {entry}")


def _check_selftest(plan: Plan) -> None:
    for name, test in plan.selftest.get("entries", {}).items():
        field = f"selftest.entries.{name}"
        if name not in plan.entries:
            _refuse(field, "names no entry")
        entry = plan.entries[name]
        if set(test["inputs"]) != set(entry.inputs):
            _refuse(f"{field}.inputs", "does not name the inputs of the entry")
        if len(test["outputs"]) != test["steps"]:
            _refuse(f"{field}.outputs", f"has {len(test['outputs'])} items, not {test['steps']}")
        for changed in test.get("changes", {}).get("tensors", {}):
            if not _is_persistent(plan, changed):
                _refuse(f"{field}.changes.tensors.{changed}", "names no parameter or state")
        _check_selftest_values(entry, test, field)


def _check_selftest_values(entry: Entry, test: Mapping[str, Any], field: str) -> None:
    for name, draw in test["inputs"].items():
        whole = all(isinstance(draw[key], int) for key in ("low", "high"))
        if draw["low"] > draw["high"] or (draw["kind"] == "integers" and not whole):
            _refuse(f"{field}.inputs.{name}", "is not a range to draw from")
    for i, outputs in enumerate(test["outputs"]):
        for name in outputs:
            if name not in entry.outputs:
                _refuse(f"{field}.outputs[{i}].{name}", "names no output of the entry")


def _check_memory(plan: Plan) -> None:
    total = sum(buffer.bytes for buffer in plan.buffers)
    if plan.memory["peak"] != total:
        _refuse("memory.peak", f"is {plan.memory['peak']}; the buffers have {total} bytes")
    for name, roles in MEMORY_ROLES.items():
        size = sum(buffer.bytes for buffer in plan.buffers if buffer.role in roles)
        if plan.memory.get(name, size) != size:
            _refuse(f"memory.{name}", f"is {plan.memory[name]}; the buffers have {size} bytes")
    copied = max((_copied_bytes(plan, entry) for entry in plan.entries.values()), default=0)
    if plan.memory.get("guard", copied) != copied:
        _refuse("memory.guard", f"is {plan.memory['guard']}; training entries write {copied} bytes")


def _copied_bytes(plan: Plan, entry: Entry) -> int:
    """The bytes of the buffers that a guard copies."""
    written = {plan.tensors[name].buffer for name in entry.writes} if entry.guard else ()
    return sum(plan.buffers[index].bytes for index in written)


def _check_twin(plan: Plan, twin: Twin) -> None:
    """Each buffer once, one after the other, before the scratch areas."""
    sizes = {buffer.name: buffer.bytes for buffer in plan.buffers}
    for name in sizes:
        if name not in twin.buffers:
            _refuse("twin.buffers", f"lacks the buffer {name}")
    for name in twin.buffers:
        if name not in sizes:
            _refuse(f"twin.buffers.{name}", "is not a buffer of the plan")
    starts = sorted((start, name) for name, start in twin.buffers.items())
    for (start, name), (after, _) in pairwise([*starts, (twin.bytes, "")]):
        if start + sizes[name] > after:
            _refuse(f"twin.buffers.{name}", f"ends at byte {start + sizes[name]}, beyond {after}")
    _check_twin_entries(plan, twin)


def _check_twin_entries(plan: Plan, twin: Twin) -> None:
    for name in twin.checked:
        if name not in plan.entries or not plan.entries[name].guard:
            _refuse("twin.checked", f"names `{name}`, which is no entry with a guard")
    for name, products in (twin.products or {}).items():
        entry = plan.entries.get(name)
        for product in products:
            if entry is None or product["dispatch"] >= len(entry.dispatches):
                _refuse(f"twin.products.{name}", "is of a dispatch that the plan does not have")
