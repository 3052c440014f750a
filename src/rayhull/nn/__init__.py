"""Layers: modules whose outputs lie in a set. layers.py is what a user meets."""
