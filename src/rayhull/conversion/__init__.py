"""Inequalities to generators, once: split into blocks, double description on each, verified, cached."""

from rayhull.conversion.convert import convert as convert

__all__ = ["convert"]
