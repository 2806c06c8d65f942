"""The limits that every WebGPU device grants a kernel."""

from __future__ import annotations

from math import prod

from wgcc.kernel.abstract import Evaluation
from wgcc.kernel.tokenize import WgslError
from wgcc.kernel.types import BYTES, array_parts, bytes_of, element_of

Grid = tuple[int, int, int]
MAX_GRID = 65_535
MAX_THREADS = 256
MAX_SIZE = (256, 256, 64)
MAX_WORKGROUP_BYTES = 16_384
MAX_STORAGE, MAX_UNIFORM = 8, 12


def check_limits(evaluation: Evaluation, grid: Grid, size: Grid, max_storage: int) -> None:
    """`size` is that of a workgroup; `max_storage`: so many storage buffers are bound at most."""
    if prod(size) > MAX_THREADS or any(n > m for n, m in zip(size, MAX_SIZE, strict=True)):
        evaluation.fail(f"{prod(size)} threads in a workgroup")
    if max(grid) > MAX_GRID:
        evaluation.fail(f"{max(grid)} workgroups along an axis")
    variables = evaluation.module.variables.values()
    memory = workgroup_bytes(evaluation)
    if memory > MAX_WORKGROUP_BYTES:
        evaluation.fail(f"{memory} bytes of workgroup memory")
    for space, most in (("storage", max_storage), ("uniform", MAX_UNIFORM)):
        if sum(v.space == space for v in variables) > most:
            evaluation.fail(f"more than {most} bindings of {space}")


def workgroup_bytes(evaluation: Evaluation) -> int:
    """Each variable takes multiples of 16 bytes."""
    variables = evaluation.module.variables.values()
    sizes = (size_of(evaluation, v.kind) for v in variables if v.space == "workgroup")
    return sum(-(-size // 16) * 16 for size in sizes)


def size_of(evaluation: Evaluation, kind: str) -> int:
    """The bytes of a type; a struct is what its fields are together."""
    kind = evaluation.long(kind)
    array = array_parts(kind)
    if array is not None:
        return evaluation.length_of(kind) * size_of(evaluation, array[0])
    struct = evaluation.module.structs.get(kind)
    fields = [kind for _, kind in struct.fields] if struct else [kind]
    kinds = [evaluation.long(kind) for kind in fields]
    for inner in kinds:
        if element_of(inner) not in BYTES:
            raise WgslError(f"the size of {inner} inside {kind} is not known")
    return sum(map(bytes_of, kinds))
