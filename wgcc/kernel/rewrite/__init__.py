"""Rewrites of kernel trees, a file each. None knows what a kernel computes."""
