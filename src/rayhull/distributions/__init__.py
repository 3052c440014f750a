"""Densities on sets: bijections onto the interior with their log-determinants, and what is built on them."""

from rayhull.distributions.of_sample import IntoRows
from rayhull.distributions.on_polyhedron import OnPolyhedron
from rayhull.distributions.transform import IntoPolyhedron, polyhedron
from rayhull.distributions.uniform import Uniform

__all__ = ["IntoPolyhedron", "IntoRows", "OnPolyhedron", "Uniform", "polyhedron"]
