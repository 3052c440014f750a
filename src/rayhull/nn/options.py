"""The options that layers share: as users give them, and as they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self, TypedDict

import numpy as np
from torch import Tensor

from rayhull.conversion.budget import Limits
from rayhull.maps.coefficients import NonNegative, Weights, nonnegative_named, weights_named
from rayhull.nn.constants import Factory
from rayhull.projection.project import INFEASIBLE
from rayhull.sets.base_rule import read_ranges
from rayhull.sets.interior import scale_from
from rayhull.sets.polyhedron import MAX_GENERATORS
from rayhull.sets.products import units_of
from rayhull.sets.reading import as_array, refuse_axis
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

Ranges = Mapping[str, tuple[Any, Any]]  # of the sides that come with the call


class LayerOptions(TypedDict, total=False):
    """The options that layers share; :class:`rayhull.MapInto` says what they mean."""

    method: str
    steps: int | None
    base: Any
    scale: Any
    strict: bool
    smooth: bool
    varies: Ranges | None
    infeasible: str
    axis: int
    units: tuple[Any, Any] | None
    nonnegative: str | NonNegative
    simplex: str | Weights
    max_generators: int | None


@dataclass(frozen=True)
class Options:
    """What the user chose: the same for every block but the base point, which is then the block's own (n,)."""

    method: str = "auto"
    steps: int | None = None
    base: Any = None
    scale: Any = 1.0  # a number, once it is read
    strict: bool = False
    smooth: bool = False
    varies: Ranges | None = None
    infeasible: str = "raise"
    axis: int = -1
    units: tuple[Any, Any] | None = None  # mean and std as floats (d,), once they are read
    nonnegative: str | NonNegative = "softplus"
    simplex: str | Weights = "softmax"
    max_generators: int | None = MAX_GENERATORS
    factory: Factory = field(default_factory=Factory)

    @classmethod
    def read(cls, P: Polyhedron, given: LayerOptions, factory: Factory) -> Self:
        """Those that were given for a set; what is none is refused, used or not."""
        names = [own.name for own in fields(cls)][:-1]
        unknown = [name for name in given if name not in names]
        if unknown:
            raise TypeError(f"a layer has no option {unknown[0]!r}: it takes {', '.join(names)}.")
        own = cls(**given, factory=factory)
        nonnegative_named(own.nonnegative)
        weights_named(own.simplex)
        Limits(own.max_generators)
        refuse_unless_switch("strict", own.strict)
        refuse_unless_switch("smooth", own.smooth)
        steps = own.steps
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 0):
            raise ValueError(f"steps must be a number of steps, 0 or more, got {steps!r}.")
        if steps is not None and own.method not in ("auto", "steps"):
            raise ValueError(f'steps= go with method="steps" (or "auto"), got method={own.method!r}: leave one out.')
        if own.infeasible not in INFEASIBLE:
            raise ValueError(f"infeasible must be one of {', '.join(INFEASIBLE)}, got {own.infeasible!r}.")
        refuse_axis(P, own.axis)
        read_ranges(P, own.varies or {})
        return replace(own, scale=_scale_of(own.scale, P), units=None if own.units is None else own._mean_and_std(P))

    @property
    def weights(self) -> Array | None:
        """Of the squared distances (d,), where the data have units of their own."""
        return None if self.units is None else np.asarray(self.units[1] ** -2)

    def _mean_and_std(self, P: Polyhedron) -> tuple[Array, Array]:
        if self.method not in ("auto", "nearest") or self.steps is not None or self.base is not None:
            raise ValueError(
                "units= go with the nearest point, without steps= and base=: for other ways build the layer on "
                "P.in_units(mean, std) and take mean + std * z of what comes out."
            )
        pair: Any = self.units
        if not hasattr(pair, "__len__") or len(pair) != 2:
            got = tuple(pair.shape) if hasattr(pair, "shape") else repr(pair)
            raise ValueError(f"units must be a pair, (mean, std) of the data, got {got}.")
        mean, std = units_of(P, *map(_on_the_host, pair))
        return mean.astype(float), std.astype(float)


def refuse_unless_switch(name: str, on: object) -> None:
    """A word would count as True."""
    if not isinstance(on, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {on!r}.")


def _on_the_host(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, Tensor) else value


def _scale_of(scale: Any, P: Polyhedron) -> float:
    """The scale as a number; of data, the root mean square of their coordinates."""
    if isinstance(scale, int | float) and not isinstance(scale, bool):
        if not (scale > 0 and math.isfinite(scale)):
            raise ValueError(f"scale must be positive and finite, the size of the data, got {scale}.")
        return float(scale)
    data = as_array(_on_the_host(scale), "scale").astype(np.float64)
    if data.ndim <= len(P.shape) or data.shape[data.ndim - len(P.shape) :] != P.shape:
        raise ValueError(
            f"scale must be a number, or data of shape (n, {', '.join(map(str, P.shape))}), got shape {data.shape}. "
            "For coordinates of very different units give units=(mean, std) of the data."
        )
    return scale_from(data)
