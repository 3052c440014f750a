"""Greatest common divisors and exact division on 128-bit integers, given as (high, low) words."""

from __future__ import annotations

from typing import Any

import numpy as np

from rayhull.conversion._jit import jit, sum_of_products, trailing_zeros

ZERO, ONE, TWO, THREE, WORD = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(64)


@jit
def shift_out_twos(high: Any, low: Any) -> Any:
    """Divide (high, low) != 0 by its largest power of two; also returns the exponent."""
    if low == ZERO:
        twos = trailing_zeros(high)
        return ZERO, high >> twos, twos + WORD
    twos = trailing_zeros(low)
    if twos == ZERO:
        return high, low, twos
    return high >> twos, (low >> twos) | (high << (WORD - twos)), twos


@jit
def gcd64(a: Any, b: Any) -> Any:
    """Binary gcd of two unsigned words; gcd(a, 0) = a."""
    if a == ZERO:
        return b
    if b == ZERO:
        return a
    twos = min(trailing_zeros(a), trailing_zeros(b))
    a >>= trailing_zeros(a)
    while b != ZERO:
        b >>= trailing_zeros(b)
        if a > b:
            a, b = b, a
        b -= a
    return a << twos


@jit
def gcd128(a_high: Any, a_low: Any, b_high: Any, b_low: Any) -> Any:
    """Binary gcd of two non-zero unsigned 128-bit integers, as (high, low)."""
    a_high, a_low, a_twos = shift_out_twos(a_high, a_low)
    b_high, b_low, b_twos = shift_out_twos(b_high, b_low)
    twos = min(a_twos, b_twos)
    while a_high != ZERO or b_high != ZERO:
        if a_high > b_high or (a_high == b_high and a_low > b_low):
            a_high, a_low, b_high, b_low = b_high, b_low, a_high, a_low
        borrow = ONE if b_low < a_low else ZERO
        b_low -= a_low
        b_high -= a_high + borrow
        if b_high == ZERO and b_low == ZERO:
            break
        b_high, b_low, _ = shift_out_twos(b_high, b_low)
    low = a_low
    if a_high == ZERO and b_high == ZERO:
        low = gcd64(a_low, b_low)
    if twos == ZERO:
        return a_high, low
    if twos >= WORD:
        return low << (twos - WORD), ZERO
    return (a_high << twos) | (low >> (WORD - twos)), low << twos


@jit
def odd_inverse(odd: Any) -> Any:
    """Inverse of an odd word modulo 2^64: Newton doubles the right bits, from 5 to 80."""
    x = (odd * THREE) ^ TWO
    for _ in range(4):
        x *= TWO - odd * x
    return x


@jit
def divide_exactly(high: Any, low: Any, divisor: Any, twos: Any, inverse: Any) -> Any:
    """``(True, q)`` if the signed (high, low) is q * divisor with |q| < 2^62; else ``(False, 0)``.

    ``divisor`` = odd * 2^twos < 2^62 and ``inverse`` is that of the odd part. The product modulo 2^64 is the only
    quotient there can be, so one multiplication back proves or refutes it: no division anywhere.
    """
    shifted = np.uint64(low)
    if twos != ZERO:
        shifted = (shifted >> twos) | (np.uint64(high) << (WORD - twos))
    quotient = np.int64(shifted * inverse)
    back_high, back_low = sum_of_products(quotient, divisor, np.int64(0), np.int64(0))
    fits = -(1 << 62) < quotient < (1 << 62)
    return fits and back_high == high and back_low == low, quotient
