"""The WGSL of kernels as trees, and their expressions as instructions."""
