"""Where the rays of a pointed cone come from: the cache, our double description, or an optional engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rayhull.conversion import cache as ray_cache
from rayhull.conversion.double_description import extreme_rays
from rayhull.conversion.engines import ENGINES, engine_rays
from rayhull.conversion.limits import Limits
from rayhull.sets.rows import Array

Tell = Callable[[int, int, int, int], None]


@dataclass(frozen=True)
class RaySource:
    """Extreme rays of {y >= 0, C y >= 0}, by the chosen engine, remembered if asked."""

    engine: str
    limits: Limits
    tell: Tell | None = None
    cache: bool = True

    def __post_init__(self) -> None:
        if self.engine != "auto" and self.engine not in ENGINES:
            choices = ", ".join(["auto", *ENGINES])
            raise ValueError(f"unknown engine {self.engine!r}: choose one of {choices}.")

    def rays(self, C: Array) -> Array:
        """Rays (r, k) in lexicographic order."""
        if not len(C):
            return np.eye(C.shape[1], dtype=C.dtype)[::-1]
        key = ray_cache.key(C, self.engine) if self.cache else None
        known = None if key is None else ray_cache.load(key, C)
        if known is not None:
            self.limits.check(rays=len(known), row=len(C), rows=len(C))
            return known
        start = time.monotonic()
        if self.engine == "auto":
            found = extreme_rays(C, limits=self.limits, report=self.tell, rounded=False)  # rounding was cleared before
        else:
            found = engine_rays(self.engine, C)
        if key is not None:
            ray_cache.store(key, C, found, time.monotonic() - start)
        return found
