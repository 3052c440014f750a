"""Compiled kernels, and in :mod:`rayhull.core.reference` the same algorithms in NumPy and torch.

The kernels are plain functions in C++ (``source/``). Conversion calls them through ctypes, a forward pass as operators
of torch. Where the binary is missing the reference runs, with the same answers.
"""


def status() -> str:
    """What runs, in a sentence; ``rayhull info`` prints it.

    Examples:
        >>> import rayhull as rh
        >>> rh.core.status().startswith("conversion: ")
        True
    """
    from rayhull.core import library

    return library.status()
