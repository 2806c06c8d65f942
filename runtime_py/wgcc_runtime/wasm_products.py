"""Large products of a twin by numpy, that is BLAS, on views of its memory: `load(fast=True)`.

Where an operand is computed or a result goes on into an epilogue, functions of the twin pack and
finish it. Sums are then in the order of BLAS, so results have other bits than those of the twin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.blas_threads import blas_threads
from wgcc_runtime.errors import WgccError
from wgcc_runtime.machine import GRADIENTS, UPDATE
from wgcc_runtime.plan import Plan, Twin
from wgcc_runtime.plan_parts import run_order

# The axes of operands and results, as fields of a product.
AXES = {"left": ("rows", "inner"), "right": ("inner", "cols"), "out": ("rows", "cols")}
WORD = 4
Step = Callable[[], object]


Call = Callable[[str, str], object]


@dataclass(frozen=True, slots=True)
class Products:
    """Runs exports that hold products: `own` has the steps of each, by entry and dispatch.

    `call` runs an export of an entry in the twin.
    """

    plan: Plan
    own: Mapping[str, Mapping[int, Sequence[Step]]]
    threads: int
    call: Call

    def run(self, entry: str, export: str) -> bool:
        """False for an export without products."""
        numbers = self._numbers(entry, export)
        if numbers is None:
            return False
        own = self.own[entry]
        # Values that are not finite are the guard's concern, not numpy's.
        with blas_threads(self.threads), np.errstate(all="ignore"):
            for number in numbers:
                if number not in own:
                    self.call(entry, f"{entry}/{number}")
                    continue
                for step in own[number]:
                    step()
        return True

    def _numbers(self, entry: str, export: str) -> Iterable[int] | None:
        """The dispatches that an export runs, if numpy computes one of them."""
        if entry not in self.own:
            return None
        spec, part = self.plan.entries[entry], export.removeprefix(entry).removeprefix("/")
        count = len(spec.dispatches)
        if part.isdigit():
            return (int(part),) if int(part) in self.own[entry] else None
        cut = spec.exchange.dispatch if spec.exchange else 0
        spans = {"": (0, count), GRADIENTS: (0, cut), UPDATE: (cut, count)}
        if part not in spans:
            return None
        first, end = spans[part]
        return (number for number, _ in run_order(spec) if first <= number < end)


def needed_bytes(twin: Twin) -> int:
    """The bytes of memory up to the end of the last view."""
    specs = (spec for specs in (twin.products or {}).values() for spec in specs)
    return max((_end(spec, name) for spec in specs for name in AXES), default=0)


def _end(spec: Mapping[str, Any], name: str) -> int:
    at, *strides = spec[name]
    extents = (spec["batch"], *(spec[axis] for axis in AXES[name]))
    return int(at + WORD + sum((n - 1) * step for n, step in zip(extents, strides, strict=True)))


def make_products(plan: Plan, data: Array, threads: int, call: Call) -> Products:
    assert plan.twin is not None
    own = {
        name: {spec["dispatch"]: _product(name, spec, data, call) for spec in specs}
        for name, specs in (plan.twin.products or {}).items()
    }
    return Products(plan, own, threads, call)


def _product(name: str, spec: Mapping[str, Any], data: Array, call: Call) -> list[Step]:
    left, right, out = (_view(spec, operand, data) for operand in AXES)
    export = f"{name}/{spec['dispatch']}"
    multiply = partial(np.matmul, left, right, out=out)
    before = [partial(call, name, f"{export}/pack")] if spec["packs"] else []
    after = [partial(call, name, f"{export}/finish")] if spec["finishes"] else []
    return [*before, multiply, *after]


def _view(spec: Mapping[str, Any], name: str, data: Array) -> Array:
    """One matrix, or several if the product has a batch. numpy refuses what is not in memory."""
    at, *strides = spec[name]
    shape = (spec["batch"], *(spec[axis] for axis in AXES[name]))
    try:
        view: Array = np.ndarray(shape, np.float32, data.data, at, tuple(strides))
    except (ValueError, TypeError, OverflowError) as error:
        text = f"twin.products: `{name}` of {spec['dispatch']} is not in the memory: {error}"
        raise WgccError("bundle", text, "plan.json") from None
    return view[0] if spec["batch"] == 1 else view
