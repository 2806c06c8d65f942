"""Records of an entry in a plan: its outputs and captures, its rows, what machines exchange."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from wgcc.ir.graph import FLOATS, Capture, Graph, Rows, TensorType, Value
from wgcc.ir.places import is_own_state
from wgcc.ir.program import Ports, Wanted, capture_key, counts_key, is_capture
from wgcc.schedule.kernel import WORD, Exchange

Record = dict[str, Any]


def own_outputs(graph: Graph) -> dict[str, Value]:
    """The outputs that the source declares."""
    return {name: value for name, value in graph.outputs.items() if not is_capture(name)}


def output_types(graph: Graph) -> dict[str, TensorType]:
    """Outputs as callers see them: captures have the shape that the source gives them."""
    types = {name: value.type for name, value in graph.outputs.items()}
    for name, capture in graph.entry.captures.items():
        if not capture.stored and not capture.stats:
            key = capture_key(name)
            types[key] = replace(types[key], shape=capture.shape)
    return types


def capture_records(graph: Graph, ports: Ports) -> Record:
    """`tensor` holds the value, or `numbers` and `counts` its statistics."""
    forms = graph.entry.rows[0].outputs if graph.entry.rows else {}
    return {
        name: _capture(name, capture, ports, forms.get(capture_key(name)), graph)
        for name, capture in sorted(graph.entry.captures.items())
    }


def captured_patterns(plan: Mapping[str, Any]) -> tuple[Wanted, ...]:
    """The patterns that capture the same again; `d.x.2` comes with `d.x`."""
    return tuple(
        Wanted(name, "counts" in record, entry)
        for entry, spec in plan["entries"].items()
        for name, record in spec.get("captures", {}).items()
        if not (name.startswith("d.") and _is_second(name, spec["captures"]))
    )


def _is_second(name: str, names: Container[str]) -> bool:
    first, _, number = name.rpartition(".")
    return number.isdecimal() and first in names


def _capture(name: str, capture: Capture, ports: Ports, form: str | None, graph: Graph) -> Record:
    if capture.stats:
        keys = ports.outputs[capture_key(name)], ports.outputs[counts_key(name)]
        return {"numbers": keys[0], "counts": keys[1], "shape": list(capture.shape)}
    if capture.stored:
        return {"tensor": name}
    count = graph.entry.rows[0].count if graph.entry.rows else 1
    divides = form == "same" or (capture.shape and capture.shape[0] % count == 0)
    rows = {"rows": form} if form and divides else {}
    return {"tensor": ports.outputs[capture_key(name)], **rows}


def rows_record(rows: Rows) -> Record:
    outputs = {name: form for name, form in rows.outputs.items() if not is_capture(name)}
    return {
        "count": rows.count,
        "inputs": list(rows.inputs),
        **({"dim": rows.dim} if rows.dim else {}),
        **({"why": rows.why} if rows.why else {"outputs": outputs}),
    }


def exchange_record(graph: Graph, shared: Exchange | None, buffers: Mapping[str, int]) -> Record:
    """The record of what machines that train one model exchange in each step.

    Gradients are averaged before a dispatch; outputs and state after the call.
    """
    if shared is None:
        return {}
    if shared.why:
        return {"why": shared.why}
    written = [value.name for value in graph.state if value.name in graph.writes]
    # Floats that the program itself keeps, such as running means of a batch norm.
    averaged = [n for n in written if is_own_state(n) and graph.writes[n].dtype in FLOATS]
    outputs = own_outputs(graph).items()
    return {
        "dispatch": shared.dispatch,
        "gradients": [
            {"buffer": buffers[p.buffer], "offset": p.offset * WORD, "size": p.count * WORD}
            for p in shared.gradients
        ],
        "outputs": [n for n, v in outputs if v.dtype in FLOATS and v.type.size == 1],
        "state": sorted(averaged),
    }
