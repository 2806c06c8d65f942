"""A process that compiles SPIR-V with the Vulkan driver it finds, and prints what it made of it.

    python -m wgcc.isa.radv.worker FILE.spv... > one line of JSON per file

It is a process of its own because a driver that crashes takes its process with it. Nothing runs.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from collections.abc import Iterator, Sequence
from ctypes import addressof, byref, c_char_p, c_uint32, c_uint64, c_void_p, create_string_buffer
from pathlib import Path
from typing import Any

from wgcc.isa.radv import structures as vk

COMPUTE = 0x20
STORAGE_CLASS, UNIFORM_KIND, STORAGE_KIND = 12, 6, 7
CAPTURE = 0x40 | 0x80
EXTENSIONS = (b"VK_KHR_pipeline_executable_properties", b"VK_EXT_robustness2")
VERSION_1_3 = 1 << 22 | 3 << 12
# Dawn passes small numbers so.
PUSH_BYTES = 128


class VulkanError(Exception):
    """A call that failed; the text is for the parent process."""


def main(files: Sequence[str]) -> None:
    try:
        device = VulkanDevice()
    except VulkanError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"device": device.name}), flush=True)
    for number, file in enumerate(files):
        print(json.dumps({"start": number}), flush=True)
        try:
            result = device.compile(Path(file).read_bytes())
        except VulkanError as error:
            result = {"error": str(error)}
        print(json.dumps({"kernel": number, **result}), flush=True)


class VulkanDevice:
    """A device of the first adapter, which keeps what it knows of the pipelines it compiles."""

    def __init__(self) -> None:
        self._library = _library()
        instance, application = (
            c_void_p(),
            vk.make(vk.ApplicationInfo, api_version=VERSION_1_3),
        )
        info = vk.make(vk.InstanceInfo, application=addressof(application))
        self._call("vkCreateInstance", byref(info), None, byref(instance))
        adapter, count = c_void_p(), c_uint32(1)
        self._call("vkEnumeratePhysicalDevices", instance, byref(count), byref(adapter))
        if not count.value:
            raise VulkanError("the driver has no adapter")
        self.name = self._adapter_name(adapter)
        self._device = c_void_p()
        self._open(adapter)

    def compile(self, code: bytes) -> dict[str, Any]:
        module = c_uint64()
        info = vk.make(vk.ModuleInfo, size=len(code), code=code)
        self._call("vkCreateShaderModule", self._device, byref(info), None, byref(module))
        entry, bindings = _interface(code)
        stage = vk.make(vk.StageInfo, stage=COMPUTE, module=module.value, name=entry)
        layout, pipeline = self._layout(bindings), c_uint64()
        made = vk.make(vk.PipelineInfo, flags=CAPTURE, stage=stage, layout=layout, parent_index=-1)
        create, none = "vkCreateComputePipelines", c_uint64(0)
        self._call(create, self._device, none, 1, byref(made), None, byref(pipeline))
        result = self._facts(pipeline.value)
        self._library.vkDestroyPipeline(self._device, pipeline, None)
        self._library.vkDestroyShaderModule(self._device, module, None)
        return result

    def _call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._library, name)(*arguments)
        if result < 0:
            raise VulkanError(f"{name} failed with {result}")

    def _adapter_name(self, adapter: c_void_p) -> str:
        # VkPhysicalDeviceProperties: five numbers, then the name; it has 824 bytes.
        properties = create_string_buffer(2048)
        self._library.vkGetPhysicalDeviceProperties(adapter, properties)
        return properties.raw[20 : 20 + vk.NAME_SIZE].split(b"\0")[0].decode(errors="replace")

    def _open(self, adapter: c_void_p) -> None:
        """Opens it with all features of the adapter, as the memory checks of browsers need some."""
        last = vk.make(vk.VULKAN_13)
        chain = [last]
        for kind in (vk.VULKAN_12, vk.VULKAN_11, vk.EXECUTABLES, vk.ROBUSTNESS, vk.CORE):
            chain.append(vk.make(kind, pNext=chain[-1]))
        self._library.vkGetPhysicalDeviceFeatures2(adapter, byref(chain[-1]))
        priority = ctypes.c_float(1.0)
        queue = vk.make(vk.QueueInfo, count=1, priorities=addressof(priority))
        names = (c_char_p * len(EXTENSIONS))(*EXTENSIONS)
        info = vk.make(
            vk.DeviceInfo, pNext=chain[-1], queue_count=1, queues=addressof(queue),
            extension_count=len(EXTENSIONS), extensions=addressof(names),
        )  # fmt: skip
        self._call("vkCreateDevice", adapter, byref(info), None, byref(self._device))

    def _layout(self, bindings: dict[int, list[tuple[int, int]]]) -> int:
        sets = (c_uint64 * (max(bindings, default=-1) + 1))()
        for number in range(len(sets)):
            slots = bindings.get(number, [])
            records = (vk.BindingSlot * len(slots))(
                *(vk.BindingSlot(at, kind, 1, COMPUTE) for at, kind in slots)
            )
            info = vk.make(vk.SetInfo, count=len(slots), bindings=addressof(records))
            slot = ctypes.cast(addressof(sets) + 8 * number, c_void_p)
            self._call("vkCreateDescriptorSetLayout", self._device, byref(info), None, slot)
        push = vk.PushRange(COMPUTE, 0, PUSH_BYTES)
        info_of_all = vk.make(
            vk.LayoutInfo, set_count=len(sets), sets=addressof(sets), push_count=1,
            push_ranges=addressof(push),
        )  # fmt: skip
        layout = c_uint64()
        self._call("vkCreatePipelineLayout", self._device, byref(info_of_all), None, byref(layout))
        return layout.value

    def _facts(self, pipeline: int) -> dict[str, Any]:
        of_pipeline = vk.make(vk.ExecutablePipeline, pipeline=pipeline)
        executables = self._list("Properties", vk.ExecutableProperties, of_pipeline)
        info = vk.make(vk.ExecutableInfo, pipeline=pipeline)
        statistics = self._list("Statistics", vk.Statistic, info)
        return {
            "subgroup": executables[0].subgroup_size,
            "statistics": {item.name.decode(): item.number() for item in statistics},
            "listing": self._listing(info),
        }

    def _list(self, name: str, kind: Any, info: Any) -> Any:
        call = f"vkGetPipelineExecutable{name}KHR"
        address = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_char_p)(
            ("vkGetDeviceProcAddr", self._library)
        )(self._device, call.encode())
        result, pointer = ctypes.c_int32, c_void_p
        function = ctypes.CFUNCTYPE(result, pointer, pointer, pointer, pointer)(address or 0)
        count = c_uint32()
        if function(self._device, addressof(info), addressof(count), None) < 0 or not count.value:
            raise VulkanError(f"{call} says nothing")
        items = (kind * count.value)()
        for item in items:
            item.sType = kind.TYPE
        self._second_call(function, info, count, items)
        return items

    def _second_call(self, function: Any, info: Any, count: c_uint32, items: Any) -> None:
        function(self._device, addressof(info), addressof(count), addressof(items))
        texts = []
        for item in items:
            if isinstance(item, vk.Representation):
                texts.append(create_string_buffer(item.size + 1))
                item.data = addressof(texts[-1])
        if texts:
            function(self._device, addressof(info), addressof(count), addressof(items))
            # The buffers live as long as what points at them.
            items.texts = texts

    def _listing(self, info: vk.ExecutableInfo) -> str:
        items = self._list("InternalRepresentations", vk.Representation, info)
        for item, text in zip(items, items.texts, strict=True):
            if item.name == b"Assembly":
                return str(text.value.decode(errors="replace"))
        raise VulkanError("the driver gives no assembly")


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libvulkan.so.1")
    except OSError as error:
        raise VulkanError(f"Vulkan's loader is missing: {error}") from None
    library.vkCreateComputePipelines.argtypes = [
        c_void_p, c_uint64, c_uint32, c_void_p, c_void_p, c_void_p,
    ]  # fmt: skip
    return library


def _interface(code: bytes) -> tuple[bytes, dict[int, list[tuple[int, int]]]]:
    """The name of the entry point; by set, bindings and their kinds."""
    entry, places, classes = b"main", dict[int, dict[int, int]](), dict[int, int]()
    for op, words in _instructions(code):
        if op == 15:
            entry = struct.pack(f"<{len(words) - 2}I", *words[2:]).split(b"\0")[0]
        elif op == 71 and words[1] in (33, 34):
            places.setdefault(words[0], {})[words[1]] = words[2]
        elif op == 59:
            classes[words[1]] = words[2]
    bindings: dict[int, list[tuple[int, int]]] = {}
    for name, place in places.items():
        kind = STORAGE_KIND if classes.get(name) == STORAGE_CLASS else UNIFORM_KIND
        bindings.setdefault(place.get(34, 0), []).append((place.get(33, 0), kind))
    return entry, bindings


def _instructions(code: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    words = struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4])
    at = 5
    while at < len(words) and words[at] >> 16:
        yield words[at] & 0xFFFF, words[at + 1 : at + (words[at] >> 16)]
        at += words[at] >> 16


if __name__ == "__main__":
    main(sys.argv[1:])
