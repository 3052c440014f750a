"""Compiled kernels, and in :mod:`rayhull.core.reference` the same algorithms in NumPy and torch.

The kernels are plain functions in C++ (``source/``). Conversion calls them through ctypes, a forward pass as operators
of torch. Where the binary is missing the reference runs, with the same answers.
"""
