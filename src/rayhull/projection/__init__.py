"""The nearest point of a set: closed forms by structure, an exact active-set solver for the rest, derivatives."""

from rayhull.projection.call import Info
from rayhull.projection.nearest import Projector, project

__all__ = ["Info", "Projector", "project"]
