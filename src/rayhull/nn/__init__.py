"""Layers: modules whose outputs lie in a set. map_into.py and constrained.py are what a user meets."""
