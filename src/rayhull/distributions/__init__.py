"""Densities on sets: bijections onto the interior with their log-determinants, and what is built on them."""

from rayhull.distributions.on_polyhedron import OnPolyhedron, Uniform
from rayhull.distributions.transform import IntoPolyhedron, IntoRows, polyhedron

__all__ = ["IntoPolyhedron", "IntoRows", "OnPolyhedron", "Uniform", "polyhedron"]
