"""The one place that meets numba's untyped decorators; imported only where numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba import types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile once, keep the machine code on disk, let other threads run meanwhile."""
    compiled: F = numba.njit(cache=True, nogil=True, boundscheck=False)(function)
    return compiled


@intrinsic  # type: ignore[misc, untyped-decorator, unused-ignore]
def popcount(context: Any, word: Any) -> Any:
    """Number of ones in a 64-bit word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic  # type: ignore[misc, untyped-decorator, unused-ignore]
def trailing_zeros(context: Any, word: Any) -> Any:
    """Position of the lowest one in a 64-bit word (64 for zero)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), codegen


@intrinsic  # type: ignore[misc, untyped-decorator, unused-ignore]
def sum_of_products(context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """``a b + c d`` of four int64 in 128 bits, as (high, low): it cannot overflow."""
    pair = types.UniTuple(types.int64, 2)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        a, b, c, d = (builder.sext(x, wide) for x in args)
        total = builder.add(builder.mul(a, b), builder.mul(c, d))
        high = builder.trunc(builder.ashr(total, ir.Constant(wide, 64)), word)
        return context.make_tuple(builder, signature.return_type, [high, builder.trunc(total, word)])

    return pair(types.int64, types.int64, types.int64, types.int64), codegen
