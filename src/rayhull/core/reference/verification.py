"""Whether rays are what they claim to be, in NumPy: computed afresh from the rows, in integers of any size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rayhull.core.reference.adjacency import Words, packed
from rayhull.core.reference.floats import Bools
from rayhull.exact.numbers import product

NO_FAULT, NEGATIVE, BROKEN = 0, 1, 2
PRODUCTS = 1_000_000  # entries of a product at a time


class Examined(NamedTuple):
    """What the rows say of some rays; with a fault, the rest says nothing."""

    fault: int  # NO_FAULT, or a coordinate is NEGATIVE, or a row is BROKEN
    zeros: Words  # (r, words): the coordinates, and from bit k on the rows, that are 0 at each ray
    extreme: Bools  # (r,): proved to be; what is not proved may still be, and here nothing is


def examine(C: NDArray[Any], Y: NDArray[Any]) -> Examined:
    """The rays Y (r, k) against the rows of {y >= 0, C y >= 0}, C (n, k)."""
    tight = np.zeros((len(Y), len(C)), bool)
    fault = NEGATIVE if (Y < 0).any() else NO_FAULT
    step = max(1, PRODUCTS // max(1, len(C)))
    for first in range(0, len(Y), step):
        slack = product(Y[first : first + step], C.T)
        tight[first : first + step] = slack == 0
        if not fault and (slack < 0).any():
            fault = BROKEN
    zeros = np.concatenate([(Y == 0).astype(bool), tight], axis=1)
    return Examined(fault, packed(zeros), np.zeros(len(Y), bool))
