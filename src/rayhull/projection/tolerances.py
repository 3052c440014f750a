"""When is an answer an answer: the numbers that solvers, kernels and certificate share."""

from __future__ import annotations

SOLVED, UNSOLVED, EMPTY = 0, 1, 2  # status of a sample
TOLERANCE = 1e-10  # a residual up to this is an answer; most are near 1e-15
ROUNDING = 256 * 2.0**-52  # what a sum of a point and multiples of rows may be off, relative to the point
FLOOR = 1e-280  # instead of 0 in a denominator; times ROUNDING it is still a normal number
