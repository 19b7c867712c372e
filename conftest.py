"""Kernels for GPUs can only be imported, and so searched for doctests, where Triton is installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["src/qubolearn/kernels/*_triton*.py"]
