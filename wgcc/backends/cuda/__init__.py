"""Kernel trees as CUDA C++, to ask a real GPU compiler about them. Bundles do not hold it."""
