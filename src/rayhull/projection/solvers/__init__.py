"""What finds nearest points: one file for each closed form and each method, one interface."""
