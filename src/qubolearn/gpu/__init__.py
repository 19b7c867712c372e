"""Kernels for NVIDIA GPUs in Triton, imported when a tensor is on one."""
