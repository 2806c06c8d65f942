"""The files of a bundle by name: plan, kernels, weights, source, and those for the web."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wgcc.bundle.plan import Planned, plan_text
from wgcc.bundle.safetensors import STORED, safetensors_bytes
from wgcc.bundle.web import web_files
from wgcc.ir.program import Program, Tensor
from wgcc.lazy_numpy import Array, np


def bundle_files(
    planned: Planned, program: Program, source: str, text: str, weights: Mapping[str, Array]
) -> dict[str, bytes]:
    """Every file of the bundle, in a fixed order."""
    files = {"plan.json": plan_text(planned.plan).encode("utf-8")}
    for kernel in planned.kernels:
        files[f"kernels/{kernel.file}"] = kernel.text.encode("utf-8")
    files["weights.safetensors"] = safetensors_bytes(
        {name: (tensor_of(program, name).type.dtype, array) for name, array in weights.items()}
    )
    if planned.constants:
        files["constants.safetensors"] = _constants_bytes(planned)
    files[source] = text.encode("utf-8")
    return {**files, **web_files(planned.plan, files)}


def tensor_of(program: Program, name: str) -> Tensor:
    return program.params.get(name) or program.state[name]


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write a bundle over an older one; kernels that are no longer used disappear."""
    for stale in folder.glob("kernels/*.wgsl"):
        if f"kernels/{stale.name}" not in files:
            stale.unlink()
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)


def initial_weights(program: Program) -> dict[str, Array]:
    """First values of parameters and state; moments start at zero and are not stored."""
    from wgcc_runtime.initial import initial_values

    found = {}
    for name, tensor in {**program.params, **program.state}.items():
        # What is `external` has no values until somebody gives them.
        if name.startswith("opt/") or tensor.init.kind in ("copy", "external"):
            continue
        record = {"kind": tensor.init.kind, "args": tensor.init.args, "values": tensor.init.values}
        found[name] = initial_values(
            record, tensor.type.shape, program.seed, name, tensor.type.dtype
        )
    return found


def _constants_bytes(planned: Planned) -> bytes:
    kinds = {"F32": "<f4", "I32": "<i4", "U32": "<u4"}
    tensors = {}
    for name, constant in planned.constants.items():
        dtype = constant.value.dtype
        array = np.frombuffer(constant.words, kinds[STORED[dtype]])
        tensors[name] = (dtype, array.reshape(constant.value.shape))
    return safetensors_bytes(tensors)
