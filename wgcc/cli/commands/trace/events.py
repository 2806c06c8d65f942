"""A measured call as events of Chrome's trace format.

The format is described in "Trace Event Format" of the Chromium project: `X` events have a begin
(`ts`) and a duration (`dur`) in microseconds, and nest inside one thread; `M` events name processes
and threads. A process here is one clock: measured times, or those predicted for a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc.access.devices import seconds
from wgcc.access.verdict import judge
from wgcc.bundle.model_places import OPTIMIZER, ModelPlace, model_places
from wgcc.cli.bundles import stored_plan
from wgcc.cli.dispatch_models import accesses, runs_like

if TYPE_CHECKING:
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan_parts import Rounds
    from wgcc_runtime.timing import KernelTime

# Of loops with more dispatches than this, all rounds of a dispatch are drawn as one.
MOST_DISPATCHES = 20_000
LAYERS, KERNELS = 1, 2

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """One dispatch: its milliseconds in a round, and what is said about it."""

    name: str
    place: ModelPlace
    measured: float
    predicted: float | None
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A call: its dispatches, and the order in which they run, with the rounds of loops."""

    entry: str
    device: str
    like: str
    method: str
    pieces: Sequence[Piece]
    order: Sequence[tuple[int, Rounds]]

    @property
    def ms(self) -> float:
        return sum(self.pieces[number].measured for number, _ in self.order)


def measure_step(model: Model, bundle: Path, entry: str, repeat: int, short: str | None) -> Step:
    from wgcc_runtime.plan_parts import run_order, times_run

    times, plan = model.profile(entry, repeat), model.plan
    models = accesses(bundle, plan, plan.dispatches(entry, model.profile_name))
    device, is_measured = runs_like(model, short)
    pieces = []
    places = model_places(stored_plan(bundle), entry)
    for row, place, access in zip(times.rows, places, models, strict=False):
        least = seconds(access, device) if access else None
        ms = row.ms / row.times
        facts = _facts(row, place)
        if access:
            facts["verdict"] = asdict(judge(access, device, ms / 1000 if is_measured else None))
        pieces.append(Piece(row.label, place, ms, None if least is None else 1000 * least, facts))
    record = plan.entries[entry]
    if sum(times_run(record)) > MOST_DISPATCHES:
        pieces = [_all_rounds(piece) for piece in pieces]
        order: list[tuple[int, Rounds]] = [(number, ()) for number in range(len(pieces))]
    else:
        order = list(run_order(record))
    return Step(entry, model.device_name, device.name, times.method, pieces, order)


def _facts(row: KernelTime, place: ModelPlace) -> dict[str, Any]:
    return {
        "kernel": row.kernel,
        "place": str(place),
        "line": row.at,
        "bytes": row.bytes // row.times,
        "operations": row.flops // row.times,
        "times in a call": row.times,
    }


def _all_rounds(piece: Piece) -> Piece:
    times = piece.facts["times in a call"]
    predicted = None if piece.predicted is None else times * piece.predicted
    return Piece(piece.name, piece.place, times * piece.measured, predicted, piece.facts)


def trace_of(step: Step) -> dict[str, Any]:
    """The whole file."""
    measured = [step.pieces[number].measured for number, _ in step.order]
    predicted = [step.pieces[number].predicted or 0.0 for number, _ in step.order]
    return {
        "traceEvents": [
            *_process(step, 1, f"measured on {step.device}", measured),
            *_process(step, 2, f"predicted at least on {step.like}", predicted),
        ],
        "displayTimeUnit": "ns",
        "otherData": {
            "entry": step.entry,
            "device": step.device,
            "method": step.method,
            "order": "dispatches are measured one by one and drawn one after the other",
        },
    }


def _process(step: Step, number: int, name: str, times: Sequence[float]) -> Iterator[Event]:
    yield _name_event("process_name", number, 0, f"{step.entry}, {name}")
    yield _name_event("thread_name", number, LAYERS, "layers")
    yield _name_event("thread_name", number, KERNELS, "dispatches")
    begins = [0.0]
    for ms in times:
        # Whole nanoseconds, so that slices which follow each other do not overlap.
        begins.append(round(begins[-1] + 1000 * ms, 3))
    yield from sorted(_layers(step, number, begins), key=lambda e: (e["ts"], -e["dur"]))
    for at, (index, rounds) in enumerate(step.order):
        piece = step.pieces[index]
        facts = {
            **piece.facts,
            "measured us": 1000 * piece.measured,
            "predicted us": None if piece.predicted is None else 1000 * piece.predicted,
        }
        if rounds:
            facts["rounds"] = ", ".join(f"{done} of {count}" for done, count in rounds)
        yield _slice(number, KERNELS, piece.name or "kernel", begins[at], begins[at + 1], facts)


def _layers(step: Step, process: int, begins: Sequence[float]) -> Iterator[Event]:
    """Slices that hold all dispatches of a layer which follow each other, and its inner layers."""
    paths = [_path(step.pieces[number].place) for number, _ in step.order]
    open_slices: list[tuple[str, int]] = []
    for at, path in enumerate([*paths, ()]):
        names = [name for name, _ in open_slices]
        same = next((i for i, (a, b) in enumerate(zip(names, path, strict=False)) if a != b), None)
        same = min(len(names), len(path)) if same is None else same
        while len(open_slices) > same:
            depth = len(open_slices)
            name, begin = open_slices.pop()
            layer = ".".join(paths[begin][1:depth])
            yield _slice(process, LAYERS, layer or name, begins[begin], begins[at], {})
        open_slices += [(name, at) for name in path[same:]]


def _path(place: ModelPlace) -> tuple[str, ...]:
    """The optimizer stands beside both passes."""
    if place.layer == OPTIMIZER:
        return (OPTIMIZER,)
    return ("backward" if place.is_backward else "forward", *place.layer.split("."))


def _slice(
    process: int, thread: int, name: str, begin: float, end: float, facts: dict[str, Any]
) -> Event:
    return {
        "name": name, "cat": "wgcc", "ph": "X", "ts": begin, "dur": round(end - begin, 3),
        "pid": process, "tid": thread, **({"args": facts} if facts else {}),
    }  # fmt: skip


def _name_event(kind: str, process: int, thread: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
