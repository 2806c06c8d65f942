"""WebGPU's default limits, which every browser grants, and those that a plan requires."""

from __future__ import annotations

from collections.abc import Mapping

from wgcc_runtime.plan import Plan

DEFAULT_LIMITS = {
    "maxBindGroups": 4,
    "maxBindingsPerBindGroup": 1000,
    "maxBufferSize": 256 << 20,
    "maxStorageBufferBindingSize": 128 << 20,
    "maxStorageBuffersPerShaderStage": 8,
    "maxUniformBuffersPerShaderStage": 12,
    "maxComputeWorkgroupStorageSize": 16384,
    "maxComputeInvocationsPerWorkgroup": 256,
    "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupSizeY": 256,
    "maxComputeWorkgroupSizeZ": 64,
    "maxComputeWorkgroupsPerDimension": 65535,
    "minStorageBufferOffsetAlignment": 256,
}


def limits_of(plan: Plan) -> dict[str, int]:
    """The limits to request for this plan: the defaults, raised where the plan needs more."""
    return {name: _stronger(name, value, plan.limits) for name, value in DEFAULT_LIMITS.items()}


def _stronger(name: str, default: int, wanted: Mapping[str, int]) -> int:
    # A `min` limit is an alignment: the offsets of every plan are multiples of the default.
    if name.startswith("min"):
        return default
    return max(default, wanted.get(name, 0))
