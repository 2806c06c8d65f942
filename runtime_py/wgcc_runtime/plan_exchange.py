"""`exchange` of a plan's entry: what machines that train one model together average."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from wgcc_runtime.plan import Entry, Plan

# A part of a buffer: the buffer's number, the first byte, and the number of bytes.
Region = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Before dispatch number `dispatch`, all gradients are stored and nothing has used them.

    `outputs` (float scalars) and `state` are averaged after the call. If gradients cannot be
    separated from updates, `why` says what prevents it.
    """

    dispatch: int
    gradients: tuple[Region, ...]
    outputs: tuple[str, ...]
    state: tuple[str, ...]
    why: str

    @property
    def bytes(self) -> int:
        return sum(size for _, _, size in self.gradients)


def read_exchange(spec: Mapping[str, Any]) -> Exchange:
    return Exchange(
        dispatch=spec.get("dispatch", 0),
        gradients=tuple((g["buffer"], g["offset"], g["size"]) for g in spec.get("gradients", ())),
        outputs=tuple(spec.get("outputs", ())),
        state=tuple(spec.get("state", ())),
        why=spec.get("why", ""),
    )


def check_exchange(plan: Plan, entry: Entry, refuse: Callable[[str, str], NoReturn]) -> None:
    found, field = entry.exchange, f"entries.{entry.name}.exchange"
    if found is None or (found.why and not found.gradients):
        return
    if found.why or not entry.training:
        refuse(f"{field}.gradients", "is for entries that train and can be separated")
    if not 0 < found.dispatch < len(entry.dispatches):
        refuse(f"{field}.dispatch", f"is {found.dispatch}; there are {len(entry.dispatches)}")
    if any(loop.first < found.dispatch < loop.end for loop in entry.repeats):
        refuse(f"{field}.dispatch", f"is {found.dispatch}, which is inside a loop")
    _check_gradients(plan, found, field, refuse)
    for i, name in enumerate(found.outputs):
        tensor = entry.outputs.get(name)
        if tensor is None or not tensor.is_float or tensor.size != 1:
            refuse(f"{field}.outputs[{i}]", f"is not an output of one float: {name}")
    for i, name in enumerate(found.state):
        if name not in entry.writes or not _is_float_state(plan, name):
            refuse(f"{field}.state[{i}]", f"is not state of floats that the entry writes: {name}")


def _is_float_state(plan: Plan, name: str) -> bool:
    tensor = plan.tensors[name]
    return tensor.role == "state" and tensor.is_float


def _check_gradients(
    plan: Plan, found: Exchange, field: str, refuse: Callable[[str, str], NoReturn]
) -> None:
    """Parts of buffers for gradients, in order and disjoint."""
    if not found.gradients:
        refuse(f"{field}.gradients", "is empty")
    last = (-1, 0)
    for i, (index, offset, size) in enumerate(found.gradients):
        place = f"{field}.gradients[{i}]"
        if index >= len(plan.buffers) or plan.buffers[index].role != "grads":
            refuse(f"{place}.buffer", f"is {index}, which is no buffer of gradients")
        if offset + size > plan.buffers[index].bytes:
            refuse(place, f"ends at byte {offset + size} of {plan.buffers[index].bytes}")
        if (index, offset) < last:
            refuse(place, "overlaps the one before, or is not behind it")
        last = (index, offset + size)
