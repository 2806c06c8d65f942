"""plan.json: the contract between compiler and runtimes, made from a schedule.

It holds no paths, dates or machine facts: the same model gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from wgcc.backends.wasm.twin import Twin
from wgcc.bundle.content import (
    capture_records,
    exchange_record,
    output_types,
    own_outputs,
    rows_record,
)
from wgcc.bundle.kernels import KernelFile, kernel_files
from wgcc.ir.graph import Constant, Graph, RangeCheck, RangeGuard, TensorType
from wgcc.ir.places import STEP, optimizer_state
from wgcc.ir.program import Init, ModelTensor, Ports, Program, port_keys
from wgcc.schedule.kernel import (
    GPU,
    WORD,
    Dispatch,
    EntrySchedule,
    Place,
    Schedule,
)
from wgcc.schedule.kernels.guard import FLAG
from wgcc.schedule.kernels.update import COPIES
from wgcc.tokens.token_file import TokenFile
from wgcc_runtime.strict_json import KEY, plan_digest

if TYPE_CHECKING:
    from wgcc.backends.wasm.panels.blas import BlasProduct

FORMAT, VERSION = "wgcc-bundle", 1
TWIN = "twin.wasm"
# Of a bundle whose vocabulary is a file of tokens.
TOKENIZER = "tokenizer.json"
# Characters of source that an error at run time shows.
SHORT = 60
FLAG_TYPE = TensorType((), "u32")
Plan = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan and the files it names: kernels, constants and, where there is one, the twin."""

    plan: Plan
    kernels: tuple[KernelFile, ...]
    constants: Mapping[str, Constant] = field(default_factory=dict)
    twin: bytes | None = None


def make_plan(
    program: Program,
    schedule: Schedule,
    source: str,
    text: str,
    generator: str,
    twin: Twin | None = None,
    no_twin: str = "",
) -> Planned:
    """`source` and `text` are the name and content of the model file.

    `no_twin` says why there is no twin, for messages.
    """
    files = kernel_files(schedule)
    numbers = {kernel: number for number, file in enumerate(files) for kernel in file.kernels}
    buffers = {buffer.name: number for number, buffer in enumerate(schedule.buffers)}
    # The launches of gpu are in the dispatches themselves.
    profiles = sorted({name for x in schedule.dispatches for name in x.launches} - {GPU})
    ports = port_keys(program)
    entries = {
        name: _entry(program.entries[name], ports[name], entry, numbers, buffers)
        | _some("doc", program.doc.get(name, ""))
        for name, entry in schedule.entries.items()
    }
    model = {"name": program.name, "source": source, "sha256": _sha256(text)}
    plan: Plan = {
        "format": FORMAT,
        "version": VERSION,
        "generator": generator,
        "model": {**model, **_vocab(program)},
        "requires": {"features": _features(schedule), "limits": _limits(schedule, files)},
        "buffers": [
            {"name": b.name, "bytes": b.words * WORD, "role": b.role} for b in schedule.buffers
        ],
        "tensors": _tensors(program, ports, schedule, buffers),
        "kernels": [file.record() for file in files],
        "entries": entries,
        **_some("copies", [_dispatch(item, numbers, buffers) for item in schedule.copies]),
        "profiles": {name: _profile(name, schedule, numbers) for name in profiles},
        "optimizer": _optimizers(program),
        "memory": _memory(schedule),
        **({"twin": _twin(twin)} if twin else _some("no_twin", no_twin)),
    }
    constants = {name: constant for name, (constant, _) in schedule.constants.items()}
    return Planned(plan, files, constants, twin.code if twin else None)


def _vocab(program: Program) -> Plan:
    vocab = program.vocab
    if isinstance(vocab, TokenFile):
        digest = _sha256(vocab.text)
        return {"vocab": {"tokens": TOKENIZER, "size": vocab.size, "sha256": digest}}
    return {"vocab": vocab} if vocab else {}


def with_guard(memory: Mapping[str, int]) -> int:
    """Bytes on the GPU while it trains."""
    return memory["peak"] + memory.get("guard", 0)


def all_dispatches(entry: Mapping[str, Any]) -> list[Plan]:
    """The dispatches of an entry's record, then those of its guard."""
    return [*entry["dispatches"], *entry.get("guard", {}).get("dispatches", ())]


def times_run(entry: Mapping[str, Any]) -> list[int]:
    """How often one call runs each of `all_dispatches`; those of loops more than once."""
    return [
        prod(x["rounds"] for x in entry.get("repeats", ()) if 0 <= i - x["first"] < x["count"])
        if i < len(entry["dispatches"])
        else 1
        for i in range(len(all_dispatches(entry)))
    ]


def run_count(entry: Mapping[str, Any]) -> int:
    """How many dispatches one call runs, without its guard."""
    return sum(times_run(entry)[: len(entry["dispatches"])])


def plan_text(plan: Plan) -> str:
    """JSON with one record per line, so that differences can be read; its digest is the last."""
    sealed = {**{key: plan[key] for key in plan if key != KEY}, KEY: plan_digest(plan)}
    parts = [f"{json.dumps(key)}: {_section(value, 1)}" for key, value in sealed.items()]
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def _section(value: Any, depth: int) -> str:
    """Records of records are written on several lines, three levels deep."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if depth > 3 or not any(isinstance(item, dict | list) for item in inner):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        opening, closing = "[]"
        items = [json.dumps(item, ensure_ascii=False) for item in value]
    else:
        opening, closing = "{}"
        items = [f"{json.dumps(k)}: {_section(v, depth + 1)}" for k, v in value.items()]
    indent = "\n" + " " * depth
    return opening + indent + " " + f",{indent} ".join(items) + indent + closing


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _tensors(
    program: Program, ports: Mapping[str, Ports], schedule: Schedule, buffers: dict[str, int]
) -> dict[str, Any]:
    records: dict[str, Any] = {}
    for role, tensors in (("param", program.params), ("state", program.state)):
        for name, tensor in tensors.items():
            record = _tensor(tensor.type, schedule.tensors[name], role, buffers)
            records[name] = {**record, "trainable": tensor.trainable, "init": _init(tensor)}
    for name, (constant, place) in schedule.constants.items():
        records[name] = _tensor(constant.value.type, place, "constant", buffers)
    for name, entry in schedule.entries.items():
        graph, keys = program.entries[name], ports[name]
        for value in graph.inputs:
            place = entry.inputs[value.name]
            record = _tensor(value.type, place, "input", buffers)
            any_float = {"any_float": True} if value.name in graph.entry.any_floats else {}
            records[keys.inputs[value.name]] = {**record, **any_float}
        for output, type_ in output_types(graph).items():
            place = entry.outputs[output]
            records[keys.outputs[output]] = _tensor(type_, place, "output", buffers)
        if entry.guard:
            records[keys.flag] = _tensor(FLAG_TYPE, FLAG, "output", buffers)
        if entry.range_flag:
            records[keys.range_flag] = _tensor(FLAG_TYPE, entry.range_flag, "output", buffers)
    return records


def _tensor(type_: TensorType, place: Place, role: str, buffers: dict[str, int]) -> Plan:
    return {
        "dtype": type_.dtype,
        "shape": list(type_.shape),
        "buffer": buffers[place.buffer],
        "offset": place.offset * WORD,
        "role": role,
    }


def _init(tensor: ModelTensor) -> Plan:
    init: Init = tensor.init
    return {
        "kind": init.kind,
        **_some("args", dict(init.args)),
        **_some("values", list(init.values)),
        **_some("of", init.of),
    }


def _entry(
    graph: Graph,
    ports: Ports,
    entry: EntrySchedule,
    numbers: Mapping[Any, int],
    buffers: dict[str, int],
) -> Plan:
    def dispatches(items: Sequence[Dispatch]) -> list[Plan]:
        return [_dispatch(item, numbers, buffers) for item in items]

    loops = [{"first": x.first, "count": x.count, "rounds": x.rounds} for x in entry.repeats]
    guard = {"flag": ports.flag, "dispatches": dispatches(entry.guard)} if entry.guard else {}
    return {
        "inputs": dict(ports.inputs),
        "outputs": {name: ports.outputs[name] for name in own_outputs(graph)},
        **_some("captures", capture_records(graph, ports)),
        "ranges": {name: _range(*allowed) for name, allowed in graph.entry.ranges.items()},
        "dispatches": dispatches(entry.dispatches),
        **_some("repeats", loops),
        "writes": list(entry.written),
        "training": entry.trains,
        **_some("guard", guard),
        **_some("range_guard", _range_guard(ports.range_flag, graph.entry.range_guard)),
        **_some("rows", rows_record(graph.entry.rows[0]) if graph.entry.rows else {}),
        **_some("exchange", exchange_record(graph, entry.exchange, buffers)),
    }


def _some(key: str, value: Any) -> Plan:
    """A field that is left out where there is nothing to say."""
    return {key: value} if value else {}


def _range_guard(flag: str, guard: RangeGuard | None) -> Plan:
    if guard is None:
        return {}
    checks = [
        {
            "what": _check_text(check),
            "at": check.span.place if check.span else "",
            **_range(check.low, check.high, check.ignore),
        }
        for check in guard.checks
    ]
    return {"flag": flag, "checks": checks, "restored": list(guard.restored)}


def _check_text(check: RangeCheck) -> str:
    """``an id in `gather(e, x + 1)` ``: with the source, unless that is long."""
    text = check.span.text if check.span else ""
    is_short = 0 < len(text) <= SHORT and "\n" not in text
    return f"{check.what} in `{text}`" if is_short else check.what


def _dispatch(dispatch: Dispatch, numbers: Mapping[Any, int], buffers: dict[str, int]) -> Plan:
    launch = dispatch.launches[GPU]
    return {
        "kernel": numbers[launch.kernel],
        "bindings": [
            {
                "buffer": buffers[region.buffer],
                "offset": region.offset * WORD,
                "size": region.bytes,
            }
            for region in dispatch.regions
        ],
        "grid": list(launch.grid),
        "at": dispatch.span.place if dispatch.span else "",
        "label": dispatch.label,
        "flops": dispatch.flops,
    }


def _range(low: int, high: int, ignore: int | None) -> Plan:
    return {"low": low, "high": high, **({} if ignore is None else {"ignore": ignore})}


def _profile(profile: str, schedule: Schedule, numbers: Mapping[Any, int]) -> Plan:
    """The dispatches that a profile runs with another kernel or grid."""
    return {
        name: [
            {"dispatch": i, "kernel": numbers[other.kernel], "grid": list(other.grid)}
            for i, dispatch in enumerate(entry.dispatches)
            if (other := dispatch.launches.get(profile))
        ]
        for name, entry in schedule.entries.items()
    }


def _optimizers(program: Program) -> Plan:
    """Names the tensor that counts the steps of each optimizer, and the entries that use it."""
    optimizers: Plan = {}
    for name in program.state:
        state = optimizer_state(name)
        if state and state.what == STEP and state.optimizer in program.optimizers:
            entries = [e for e, graph in program.entries.items() if name in graph.writes]
            kind = program.optimizers[state.optimizer]
            optimizers[state.optimizer] = {"kind": kind, "step": name, "entry": entries}
    return optimizers


def _features(schedule: Schedule) -> list[str]:
    """Features that the adapter must support."""
    launches = (x for dispatch in schedule.dispatches for x in dispatch.launches.values())
    return ["shader-f16"] if any(x.kernel.has_halves for x in launches) else []


def _limits(schedule: Schedule, files: tuple[KernelFile, ...]) -> Plan:
    """The largest value that any kernel or buffer of this bundle needs."""
    kernels = [file.kernels[0] for file in files]
    launches = [x for dispatch in schedule.dispatches for x in dispatch.launches.values()]
    regions = [b.bytes for kernel in kernels for b in kernel.bindings]
    return {
        "maxStorageBuffersPerShaderStage": max((k.storage_buffers for k in kernels), default=0),
        "maxComputeInvocationsPerWorkgroup": max((prod(k.workgroup) for k in kernels), default=0),
        "maxComputeWorkgroupStorageSize": max((k.workgroup_bytes for k in kernels), default=0),
        "maxComputeWorkgroupsPerDimension": max((max(x.grid) for x in launches), default=0),
        "maxStorageBufferBindingSize": max(regions, default=0),
        "maxBufferSize": max((b.words * WORD for b in schedule.buffers), default=0),
    }


_MEMORY = {
    "params": ("params",),
    "state": ("state",),
    "grads": ("grads",),
    "temps": ("temp", "counter"),
    "constants": ("constant",),
    "io": ("input", "output"),
}


def _memory(schedule: Schedule) -> Plan:
    sizes = {
        name: sum(b.words * WORD for b in schedule.buffers if b.role in roles)
        for name, roles in _MEMORY.items()
    }
    copies = sum(b.words * WORD for b in schedule.buffers if b.role == COPIES)
    sizes |= {COPIES: copies} if copies else {}
    copied = schedule.copied_bytes
    return {**sizes, "peak": sum(sizes.values()), **({"guard": copied} if copied else {})}


def _twin(twin: Twin) -> Plan:
    return {
        "file": TWIN,
        "sha256": hashlib.sha256(twin.code).hexdigest(),
        "memory_flag": twin.memory_flag,
        "buffers": dict(twin.buffers),
        "bytes": twin.bytes,
        "scratch": twin.scratch,
        **({} if twin.products is None else {"products": _products(twin.products)}),
        **_some("checked", list(twin.checked)),
    }


def _products(products: Mapping[str, Mapping[int, BlasProduct]]) -> Plan:
    return {name: _product_records(own) for name, own in products.items() if own}


def _product_records(products: Mapping[int, BlasProduct]) -> list[Plan]:
    return [
        {
            "dispatch": number,
            "batch": product.task.batch,
            "rows": product.task.rows,
            "cols": product.task.cols,
            "inner": product.task.inner,
            **{name: [x.at, *x.strides] for name, x in product.matrices.items()},
            "packs": bool(product.packs),
            "finishes": bool(product.finishes),
        }
        for number, product in products.items()
    ]
