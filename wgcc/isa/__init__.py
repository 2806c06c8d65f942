"""What real GPU compilers make of kernels, without a GPU: nothing here runs a kernel.

See README.md of this folder.
"""
