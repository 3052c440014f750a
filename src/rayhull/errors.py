"""What rayhull raises. Every message says what was expected, what came, and what to do next."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any


class RayhullError(Exception):
    """Base of every error that rayhull raises on purpose."""


class EmptySetError(RayhullError, ValueError):
    """The stated rows have no common point (``message``); ``rows`` names a small group that contradicts itself,
    ``samples`` has the numbers of those of a batch whose own sets are empty.
    """

    def __init__(self, message: str, rows: Sequence[str] = (), samples: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.rows, self.samples = tuple(rows), tuple(samples)


class BudgetExceededError(RayhullError, RuntimeError):
    """A conversion would pass a limit; nothing was returned, and the message names what needs no generators."""


class UnverifiedError(RayhullError, ArithmeticError):
    """A result could not be verified, so it is not returned: floats too close to call, or no convergence."""


class MissingExtraError(RayhullError, ImportError):
    """An optional ``package`` is not installed: what it is needed for (``purpose``) and the ``extra`` that has it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'rayhull[{extra}]'.")


def optional(module: str, package: str, extra: str, purpose: str) -> Any:
    """The imported module, or the refusal: ``purpose`` needs the package, and the extra to install.

    >>> optional("no_such_module", "no-such-package", "plot", "This")
    Traceback (most recent call last):
    rayhull.errors.MissingExtraError: This needs no-such-package, which is not installed: pip install 'rayhull[plot]'.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(package, extra, purpose) from None


class FileFormatError(RayhullError, ValueError):
    """A file is cut short, damaged, or not what its name says."""
