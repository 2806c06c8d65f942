"""Readers of kernel trees: a folder for each form that kernels are written in."""
