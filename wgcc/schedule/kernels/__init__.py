"""One module per family of kernels, each with its templates."""
