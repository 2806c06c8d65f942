"""The scheduler turns prepared graphs into kernels, buffers and an order of dispatches.

`steps.py` is the flow, as a list: `fuse/` decides what is materialised and what shares a kernel;
`memory/` orders the kernels and places every value; `kernels/` writes them, one module per family,
with the emitter of `codegen/`. `schedule.py` puts buffers and entries together.
"""
