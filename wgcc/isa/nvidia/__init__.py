"""Compiles kernels for NVIDIA cards, with the Python packages of NVRTC and nvdisasm."""
