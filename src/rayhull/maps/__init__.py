"""The steps into a set as short functions of tensors, one idea a file, each usable alone."""
