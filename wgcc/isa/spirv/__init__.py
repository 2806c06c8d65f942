"""Kernels as the SPIR-V that wgpu (naga) and Dawn (Tint) hand to Vulkan drivers."""
