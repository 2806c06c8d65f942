"""How kernels use memory and registers of real GPUs, found without one.

`model.py` runs a few workgroups of a kernel on integers alone and counts what a subgroup touches.
It knows WGSL and grids, nothing of graphs.
"""
