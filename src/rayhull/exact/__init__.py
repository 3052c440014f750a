"""Integers of any size: numbers that stay exact, and elimination."""
