"""Kernels as functions: loops, lanes, positions and memory."""
