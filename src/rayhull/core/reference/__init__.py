"""The kernels' algorithms in NumPy and torch: to read, to compare with, and for machines without the binary."""
