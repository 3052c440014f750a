"""The nearest point of a set: closed forms by structure, an exact active-set solver for the rest, derivatives."""

from rayhull.projection.project import Projector, project
from rayhull.projection.solve import Info

__all__ = ["Info", "Projector", "project"]
