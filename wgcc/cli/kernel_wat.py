"""`wgcc show --kernel NAME --wat`: a kernel as WebAssembly text."""

from __future__ import annotations

from wgcc.backends.wasm.twin import kernel_text
from wgcc.cli.subject import Subject
from wgcc.errors import WgError


def kernel_wat(subject: Subject, name: str) -> str:
    """The twin's form of the dispatches that a WGSL kernel serves."""
    compiled = subject.compiled
    if compiled is None:
        raise WgError("a bundle has no names of variables; for --wat give wgcc show the model file")
    name, _ = subject.kernel(name)
    kernels = next(file.kernels for file in compiled.planned.kernels if file.name == name)
    for dispatch in compiled.schedule.dispatches:
        if any(launch.kernel in kernels for launch in dispatch.launches.values()):
            return kernel_text(dispatch)
    raise AssertionError(f"no dispatch runs {name}")
