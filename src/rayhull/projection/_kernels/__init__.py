"""Compiled kernels. Import them only where numba is installed: ``rayhull.projection.compiled`` asks."""
