"""The steps into a set as short functions of tensors, each usable alone."""
