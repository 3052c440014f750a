"""What must hold: polyhedra as rows and bounds, and what can be asked of them. NumPy and SciPy, never torch."""
