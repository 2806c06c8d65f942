"""A sum of tensors that are zero where the others are not, as gradients of slices are: x among
zeros + y among zeros = x beside y. Kernels then read each element from where it is."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.passes.known_values import Known

# Longer sums are looked at in part, so that the work for one is limited.
MOST_TERMS = 16


@dataclass(frozen=True, slots=True)
class _Part:
    """What fills an axis from `start` to `end`, with zeros around it."""

    value: Value
    axis: int
    start: int
    end: int


def sum_of_parts(b: Builder, known: Known, node: Node) -> Value | None:
    """`node`, an `add`, with those of its terms that together fill a tensor put side by side."""
    terms = _terms(known, node)
    parts = [part for term in terms if (part := _part(known, term))]
    if len(parts) < 2 or not _fill(parts, node.output):
        return None
    parts.sort(key=lambda part: part.start)
    joined = b.apply("concat", *(part.value for part in parts), axis=parts[0].axis)
    for term in terms:
        if _part(known, term) is None:
            joined = b.apply("add", term, joined)
    return joined


def _terms(known: Known, node: Node) -> list[Value]:
    """The terms of a sum of sums, in order."""
    pending, found = list(node.inputs[::-1]), list[Value]()
    while pending:
        value = pending.pop()
        inner = known.producer(value, "add")
        if inner is not None and len(pending) + len(found) < MOST_TERMS:
            pending += inner.inputs[::-1]
        else:
            found.append(value)
    return found


def _part(known: Known, term: Value) -> _Part | None:
    """The term as what fills the whole tensor but for one axis."""
    node = known.producer(term, "unslice")
    if node is None or any(step != 1 for step in node.attrs["steps"]):
        return None
    (value,), starts = node.inputs, node.attrs["starts"]
    axes = [i for i, size in enumerate(term.shape) if value.shape[i] != size]
    if len(axes) != 1:
        return None
    (axis,) = axes
    return _Part(value, axis, starts[axis], starts[axis] + value.shape[axis])


def _fill(parts: list[_Part], whole: Value) -> bool:
    """Do they have each element in exactly one of them?"""
    axes = {part.axis for part in parts}
    ends = [0, *sorted(part.end for part in parts)]
    starts = [*sorted(part.start for part in parts), whole.shape[parts[0].axis]]
    return len(axes) == 1 and starts == ends
