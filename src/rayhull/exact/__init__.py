"""Integers of any size: numbers that stay exact, and elimination; threads and progress of what takes long."""
