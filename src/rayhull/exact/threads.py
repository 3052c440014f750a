"""One BLAS thread for the length of our own calls.

The products and factors of a set are small. NumPy's and SciPy's BLAS spreads them over threads that wait for each other
in a loop: on a machine whose cores are busy, building a layer takes thirty times as long. Torch's threads stay.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_inside: list[Any] = []  # one entry for each call under way; the first one undoes the limit


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context, and a decorator. The limit is the process's: the first to come sets it, the last to go undoes it."""
    with _lock:
        _inside.append(_inside[-1] if _inside else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limit = _inside.pop()
            if not _inside:
                limit.restore_original_limits()


@cache
def _controller() -> Any:
    """The libraries that are loaded; looking for them takes milliseconds."""
    import scipy.linalg  # noqa: F401  # brings a BLAS of its own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
