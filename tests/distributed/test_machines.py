"""What machines of a cluster have: the same bundle and version, and cores and GPUs to reserve."""

from __future__ import annotations

import pytest

from wgcc_runtime import WgccError
from wgcc_runtime.distributed.identity import Identity, check_equal
from wgcc_runtime.distributed.reserved import check_request, device_for, threads_for


class Adapter:
    def __init__(self, device: str, kind: str = "DiscreteGPU", backend: str = "Vulkan") -> None:
        self.info = {"device": device, "adapter_type": kind, "backend_type": backend}


def test_numbers_of_gpus_are_those_of_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Adapter("Radeon"), Adapter("Arc")
    soft, again = Adapter("llvmpipe", "CPU"), Adapter("Radeon", backend="OpenGL")
    monkeypatch.setattr(
        "wgcc_runtime.distributed.reserved.adapters", lambda: [one, two, soft, again]
    )
    assert device_for(None, [1]) is two and device_for("radeon", [0]) is one
    assert device_for("webgpu", [2]) is soft and device_for("lavapipe", [0]) is soft
    assert device_for(None, []) is None and device_for("wasm", [1]) == "wasm"
    with pytest.raises(WgccError, match=r"GPU 2 of this machine .* are: Radeon, Arc \(") as caught:
        device_for(None, [2])
    assert caught.value.code == "no-adapter"
    assert [threads_for(n, None) for n in (0.5, 1, 4, 500)] == [1, 1, 4, 64]
    assert threads_for(4, 2) == 2
    for cores, gpus, text in ((-1, 0, "`cores` is 0 or"), (1.5, 0, "whole"), (1, 2, "at most 1")):
        with pytest.raises(WgccError, match=text):
            check_request(cores, gpus)


def test_differences_between_machines_are_found() -> None:
    own = Identity("a" * 64, "1.0", "here", "gpu")
    check_equal([own, Identity("a" * 64, "1.0", "there", "wasm")])
    with pytest.raises(
        WgccError, match="worker 1 on there has another bundle than worker 0 on here"
    ):
        check_equal([own, Identity("b" * 64, "1.0", "there", "gpu")])
    with pytest.raises(WgccError, match=r"worker 1 on there has wgcc_runtime 1\.1") as caught:
        check_equal([own, Identity("a" * 64, "1.1", "there", "gpu")])
    assert caught.value.code == "version"
