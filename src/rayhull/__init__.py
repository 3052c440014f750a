"""Hard linear constraints on neural-network activations.

The names below are the whole public list. They are loaded when first used, so that ``import rayhull`` and the command
line stay light: torch is imported only by what needs it.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # for type checkers: the same names as below, which a test compares
    from rayhull import conversion as conversion
    from rayhull import distributions as distributions
    from rayhull import errors as errors
    from rayhull import nn as nn
    from rayhull import testing as testing
    from rayhull.conversion.convert import convert as convert
    from rayhull.conversion.files import read as read
    from rayhull.conversion.files import write as write
    from rayhull.conversion.generators import Generators as Generators
    from rayhull.errors import BudgetExceededError as BudgetExceededError
    from rayhull.errors import EmptySetError as EmptySetError
    from rayhull.errors import RayhullError as RayhullError
    from rayhull.errors import UnverifiedError as UnverifiedError
    from rayhull.nn.adapting import Parametrization as Parametrization
    from rayhull.nn.adapting import constrain as constrain
    from rayhull.nn.export import to_jax as to_jax
    from rayhull.nn.export import to_numpy as to_numpy
    from rayhull.nn.layers import Constrained as Constrained
    from rayhull.nn.layers import paper_layer as paper_layer
    from rayhull.nn.map_into import MapInto as MapInto
    from rayhull.projection.module import Projection as Projection
    from rayhull.projection.project import project as project
    from rayhull.sets.applied import capped_simplex as capped_simplex
    from rayhull.sets.applied import conserves as conserves
    from rayhull.sets.applied import corridor as corridor
    from rayhull.sets.applied import quantiles as quantiles
    from rayhull.sets.applied import reconciled as reconciled
    from rayhull.sets.applied import windows as windows
    from rayhull.sets.cones import ConvexSet as ConvexSet
    from rayhull.sets.cones import ball as ball
    from rayhull.sets.cones import ellipsoid as ellipsoid
    from rayhull.sets.cones import norm as norm
    from rayhull.sets.cones import quadratic as quadratic
    from rayhull.sets.parsing import parse as parse
    from rayhull.sets.polyhedron import Polyhedron as Polyhedron
    from rayhull.sets.products import along as along
    from rayhull.sets.products import product as product
    from rayhull.sets.ready_made import birkhoff as birkhoff
    from rayhull.sets.ready_made import box as box
    from rayhull.sets.ready_made import checkerboard as checkerboard
    from rayhull.sets.ready_made import concave as concave
    from rayhull.sets.ready_made import convex as convex
    from rayhull.sets.ready_made import flow as flow
    from rayhull.sets.ready_made import hierarchy as hierarchy
    from rayhull.sets.ready_made import lipschitz as lipschitz
    from rayhull.sets.ready_made import marginals as marginals
    from rayhull.sets.ready_made import monotone as monotone
    from rayhull.sets.ready_made import nonnegative as nonnegative
    from rayhull.sets.ready_made import ordered as ordered
    from rayhull.sets.ready_made import ramps as ramps
    from rayhull.sets.ready_made import simplex as simplex
    from rayhull.sets.ready_made import storage as storage
    from rayhull.sets.ready_made import sum_to as sum_to
    from rayhull.sets.ready_made import unimodal as unimodal
    from rayhull.sets.rules import at_most as at_most
    from rayhull.sets.rules import excludes as excludes
    from rayhull.sets.rules import from_cvxpy as from_cvxpy
    from rayhull.sets.rules import implies as implies
    from rayhull.sets.rules import rules as rules
    from rayhull.sets.rules import variables as variables

_ROOMS = ("conversion", "distributions", "errors", "nn", "testing")  # public as modules
_HOME = {
    "conversion.convert": "convert",
    "conversion.files": "read write",
    "conversion.generators": "Generators",
    "errors": "BudgetExceededError EmptySetError RayhullError UnverifiedError",
    "nn.adapting": "Parametrization constrain",
    "nn.export": "to_jax to_numpy",
    "nn.layers": "Constrained paper_layer",
    "nn.map_into": "MapInto",
    "projection.module": "Projection",
    "projection.project": "project",
    "sets.applied": "capped_simplex conserves corridor quantiles reconciled windows",
    "sets.cones": "ConvexSet ball ellipsoid norm quadratic",
    "sets.parsing": "parse",
    "sets.polyhedron": "Polyhedron",
    "sets.products": "along product",
    "sets.ready_made": "birkhoff box checkerboard concave convex flow hierarchy lipschitz marginals "
    "monotone nonnegative ordered ramps simplex storage sum_to unimodal",
    "sets.rules": "at_most excludes from_cvxpy implies rules variables",
}  # where each name lives
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = sorted(["__version__", *_ROOMS, *_MODULE_OF])


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"rayhull.{name}")
    if name not in _MODULE_OF:
        hint = " (it is rayhull.nn.export.to_onnx)" if name == "to_onnx" else ""
        raise AttributeError(f"module 'rayhull' has no attribute {name!r}{hint}", name=name, obj=sys.modules[__name__])
    value = getattr(importlib.import_module(f"rayhull.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
