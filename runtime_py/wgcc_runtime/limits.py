"""WebGPU's default limits, which every browser grants, and those that a plan requires."""

from __future__ import annotations

from collections.abc import Mapping

from wgcc_runtime.plan import Plan
from wgcc_runtime.tables import table

DEFAULT_LIMITS: dict[str, int] = table("webgpu_limits")


def limits_of(plan: Plan) -> dict[str, int]:
    """The limits to request for this plan: the defaults, raised where the plan needs more."""
    return {name: _stronger(name, value, plan.limits) for name, value in DEFAULT_LIMITS.items()}


def _stronger(name: str, default: int, wanted: Mapping[str, int]) -> int:
    # A `min` limit is an alignment: the offsets of every plan are multiples of the default.
    if name.startswith("min"):
        return default
    return max(default, wanted.get(name, 0))
