"""The structures of Vulkan that compiling a compute pipeline takes, as its specification has them.

Each begins with a number for its type and a pointer to the next of a chain; `make` fills them in.
"""

from __future__ import annotations

from ctypes import (
    Structure,
    Union,
    addressof,
    c_char,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, TypeVar

NAME_SIZE = 256
_HEAD: list[Any] = [("sType", c_uint32), ("pNext", c_void_p)]
Made = TypeVar("Made", bound=Structure)


def make(kind: type[Made], **fields: Any) -> Made:
    """A structure with the number of its type; a structure as a field becomes its address."""
    made = kind()
    made.sType = getattr(kind, "TYPE")  # noqa: B009 (the base class of all has no such field)
    for name, value in fields.items():
        setattr(made, name, addressof(value) if name == "pNext" else value)
    return made


class ApplicationInfo(Structure):
    TYPE = 0
    _fields_ = [
        *_HEAD,
        ("application", c_char_p),
        ("application_version", c_uint32),
        ("engine", c_char_p),
        ("engine_version", c_uint32),
        ("api_version", c_uint32),
    ]


class InstanceInfo(Structure):
    TYPE = 1
    _fields_ = [
        *_HEAD,
        ("flags", c_uint32),
        ("application", c_void_p),
        ("layer_count", c_uint32),
        ("layers", c_void_p),
        ("extension_count", c_uint32),
        ("extensions", c_void_p),
    ]


class QueueInfo(Structure):
    TYPE = 2
    _fields_ = [
        *_HEAD,
        ("flags", c_uint32),
        ("family", c_uint32),
        ("count", c_uint32),
        ("priorities", c_void_p),
    ]


class DeviceInfo(Structure):
    TYPE = 3
    _fields_ = [
        *_HEAD,
        ("flags", c_uint32),
        ("queue_count", c_uint32),
        ("queues", c_void_p),
        ("layer_count", c_uint32),
        ("layers", c_void_p),
        ("extension_count", c_uint32),
        ("extensions", c_void_p),
        ("features", c_void_p),
    ]


class ModuleInfo(Structure):
    TYPE = 16
    _fields_ = [
        *_HEAD,
        ("flags", c_uint32),
        ("size", c_size_t),
        ("code", c_char_p),
    ]


class StageInfo(Structure):
    TYPE = 18
    _fields_ = [
        *_HEAD,
        ("flags", c_uint32),
        ("stage", c_uint32),
        ("module", c_uint64),
        ("name", c_char_p),
        ("constants", c_void_p),
    ]


class PipelineInfo(Structure):
    TYPE = 29
    _fields_ = [
        *_HEAD,
        ("flags", c_uint32),
        ("stage", StageInfo),
        ("layout", c_uint64),
        ("parent", c_uint64),
        ("parent_index", c_int32),
    ]


class LayoutInfo(Structure):
    TYPE = 30
    _fields_ = [
        *_HEAD,
        ("flags", c_uint32),
        ("set_count", c_uint32),
        ("sets", c_void_p),
        ("push_count", c_uint32),
        ("push_ranges", c_void_p),
    ]


class SetInfo(Structure):
    TYPE = 32
    _fields_ = [
        *_HEAD,
        ("flags", c_uint32),
        ("count", c_uint32),
        ("bindings", c_void_p),
    ]


class BindingSlot(Structure):
    _fields_ = [
        ("binding", c_uint32),
        ("kind", c_uint32),
        ("count", c_uint32),
        ("stages", c_uint32),
        ("samplers", c_void_p),
    ]


class PushRange(Structure):
    _fields_ = [("stages", c_uint32), ("offset", c_uint32), ("size", c_uint32)]


class ExecutablePipeline(Structure):
    """VkPipelineInfoKHR."""

    TYPE = 1000269001
    _fields_ = [*_HEAD, ("pipeline", c_uint64)]


class ExecutableProperties(Structure):
    TYPE = 1000269002
    _fields_ = [
        *_HEAD,
        ("stages", c_uint32),
        ("name", c_char * NAME_SIZE),
        ("description", c_char * NAME_SIZE),
        ("subgroup_size", c_uint32),
    ]


class ExecutableInfo(Structure):
    TYPE = 1000269003
    _fields_ = [*_HEAD, ("pipeline", c_uint64), ("index", c_uint32)]


class StatisticValue(Union):
    _fields_ = [("b32", c_uint32), ("i64", c_int64), ("u64", c_uint64), ("f64", c_double)]


class Statistic(Structure):
    TYPE = 1000269004
    _fields_ = [
        *_HEAD,
        ("name", c_char * NAME_SIZE),
        ("description", c_char * NAME_SIZE),
        ("format", c_uint32),
        ("value", StatisticValue),
    ]

    def number(self) -> float:
        value: StatisticValue = self.value
        return float((value.b32, value.i64, value.u64, value.f64)[self.format])


class Representation(Structure):
    TYPE = 1000269005
    _fields_ = [
        *_HEAD,
        ("name", c_char * NAME_SIZE),
        ("description", c_char * NAME_SIZE),
        ("is_text", c_uint32),
        ("size", c_size_t),
        ("data", c_void_p),
    ]


def switches(count: int, type_number: int) -> type[Structure]:
    """A structure of features: `count` switches that are 0 or 1."""
    fields = [*_HEAD, ("on", c_uint32 * count)]
    return type("Switches", (Structure,), {"TYPE": type_number, "_fields_": fields})


# VkPhysicalDevice...Features: their numbers of switches and of types.
CORE = switches(55, 1000059000)
VULKAN_11 = switches(12, 49)
VULKAN_12 = switches(47, 51)
VULKAN_13 = switches(15, 53)
EXECUTABLES = switches(1, 1000269000)
ROBUSTNESS = switches(3, 1000286000)
