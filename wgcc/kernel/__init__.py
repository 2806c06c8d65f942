"""Kernels as trees of WGSL: the nodes, and the parser of our own templates."""
