"""The products of a twin that a host with a BLAS library may compute."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.backends.wasm.panels.blas import BlasProduct, blas_product
from wgcc.backends.wasm.panels.by_threads import program_of
from wgcc.backends.wasm.wgsl.library import Library
from wgcc.backends.wasm.write_kernel import bindings_of, body_parts
from wgcc.schedule.kernel import DispatchWork, ProductTask


def blas_product_of(
    work: DispatchWork, starts: Sequence[int], free: int, library: Library
) -> BlasProduct | None:
    """A product as a host with a BLAS library can compute it; see `panels/blas.py`."""
    if not isinstance(work.task, ProductTask):
        return None
    program = program_of(work)
    env = bindings_of(work, program)
    return blas_product(work, starts, free, lambda: body_parts(work, "view", program, library, env))
