"""Asks real GPU compilers about kernels, without a GPU: nothing here runs one. See README.md."""
