"""Tests that pin what only the compiled kernels do; without them the reference answers more slowly, or refuses."""

import pytest

from rayhull.core import library

COMPILED = "operators: compiled" in library.status()
needs_core = pytest.mark.skipif(not COMPILED, reason="a promise of the compiled kernels; without them fallbacks answer")
