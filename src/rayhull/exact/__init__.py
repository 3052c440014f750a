"""Integers of any size: numbers, matrices, elimination."""
