"""Hard linear constraints on neural-network activations.

The names below are the whole public list. They are loaded when first used, so that ``import rayhull`` and the command
line stay light: torch is imported only by what needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rayhull import core, distributions
    from rayhull.conversion.convert import convert
    from rayhull.conversion.files import read, write
    from rayhull.conversion.generators import Generators
    from rayhull.errors import (
        BudgetExceededError,
        EmptySetError,
        FileFormatError,
        MissingExtraError,
        RayhullError,
        UnverifiedError,
    )
    from rayhull.nn.extras import paper_layer
    from rayhull.nn.layers import Constrained, MapInto
    from rayhull.nn.training import FreeStart, Parametrization, constrain
    from rayhull.projection import project
    from rayhull.projection.module import ProjectedInEval, Projection
    from rayhull.sets.applied import capped_simplex, conserves, corridor, quantiles, reconciled, windows
    from rayhull.sets.interior import scale_from
    from rayhull.sets.parsing import parse
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.products import along, intersection, product
    from rayhull.sets.ready_made import (
        box,
        checkerboard,
        concave,
        convex,
        halfspaces,
        lipschitz,
        monotone,
        nonnegative,
        ordered,
        simplex,
        sum_to,
        unimodal,
    )
    from rayhull.sets.rules import from_cvxpy, rules, variables

_HOME = {
    "projection.module": ["Projection", "ProjectedInEval"],
    "projection": ["project"],
    "sets.polyhedron": ["Polyhedron"],
    "sets.rules": ["from_cvxpy", "rules", "variables"],
    "sets.parsing": ["parse"],
    "sets.applied": ["capped_simplex", "conserves", "corridor", "quantiles", "reconciled", "windows"],
    "sets.products": ["along", "intersection", "product"],
    "conversion.convert": ["convert"],
    "conversion.files": ["read", "write"],
    "conversion.generators": ["Generators"],
    "nn.layers": ["Constrained", "MapInto"],
    "sets.interior": ["scale_from"],
    "nn.training": ["FreeStart", "Parametrization", "constrain"],
    "nn.extras": ["paper_layer"],
    "sets.ready_made": [
        *("box", "checkerboard", "concave", "convex", "halfspaces", "lipschitz", "monotone"),
        *("nonnegative", "ordered", "simplex", "sum_to", "unimodal"),
    ],
    "errors": [
        *("RayhullError", "EmptySetError", "BudgetExceededError", "UnverifiedError", "MissingExtraError"),
        "FileFormatError",
    ],
}
_ROOMS = ("core", "distributions")  # public as modules
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "BudgetExceededError",
    "Constrained",
    "EmptySetError",
    "FileFormatError",
    "FreeStart",
    "Generators",
    "MapInto",
    "MissingExtraError",
    "Parametrization",
    "Polyhedron",
    "ProjectedInEval",
    "Projection",
    "RayhullError",
    "UnverifiedError",
    "__version__",
    "along",
    "box",
    "capped_simplex",
    "checkerboard",
    "concave",
    "conserves",
    "constrain",
    "convert",
    "convex",
    "core",
    "corridor",
    "distributions",
    "from_cvxpy",
    "halfspaces",
    "intersection",
    "lipschitz",
    "monotone",
    "nonnegative",
    "ordered",
    "paper_layer",
    "parse",
    "product",
    "project",
    "quantiles",
    "read",
    "reconciled",
    "rules",
    "scale_from",
    "simplex",
    "sum_to",
    "unimodal",
    "variables",
    "windows",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"rayhull.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rayhull' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"rayhull.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
