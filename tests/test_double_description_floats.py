"""Double description in floats: right, or refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayhull.conversion import verification
from rayhull.conversion.double_description import extreme_rays
from rayhull.core.reference import floats
from rayhull.errors import UnverifiedError
from tests.cones import (
    KNOWN,
    PATHS,
    agree,
    brute_force,
    core_or_reference,
    exactly,
    in_basis_coordinates,
    matrices,
    random_rows,
)


def without_rounding(C):
    """Entries that are only rounding beside their row become 0, as the slack form leaves them."""
    return np.where(np.abs(C) <= 2.0**-44 * np.abs(C).sum(axis=1, keepdims=True), 0.0, C)


@PATHS
@pytest.mark.parametrize("seed", range(3))
def test_generic_floats_give_the_exact_rays(seed, compiled):
    C = random_rows(12, 6, seed, float)
    Y = extreme_rays(C)
    assert np.all(Y.max(axis=1) == 1.0)
    assert agree(Y, extreme_rays(exactly(C)))


@PATHS
@pytest.mark.parametrize("name", ["cube 6", "metric 5", "isotonic 4", "cyclic 12,6"])
@pytest.mark.parametrize("noise", [0, 1e-16, 1e-15, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6])
def test_noisy_floats_are_right_or_refused(name, noise, compiled):
    A, count = KNOWN[name]
    C = in_basis_coordinates(A).astype(float)
    rng = np.random.default_rng(0)
    noisy = (C / np.abs(C).max(axis=1, keepdims=True) + noise * rng.standard_normal(C.shape)) * 10.0 ** rng.integers(
        -3, 4, (len(C), 1)
    )
    try:
        Y = extreme_rays(without_rounding(noisy))
    except UnverifiedError:
        assert noise > 1e-15 or name == "cyclic 12,6"  # ill-conditioned
    else:
        assert (len(Y) == count and noise <= 1e-12) or agree(Y, extreme_rays(exactly(noisy)))


@PATHS
@pytest.mark.parametrize("distance", [1e-6, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-14])
def test_nearly_parallel_rows_are_right_or_refused(distance, compiled):
    for seed in range(5):
        C = random_rows(6, 5, seed, float)
        near = np.concatenate([C, C + distance * np.random.default_rng(seed + 100).standard_normal(C.shape)])
        try:
            Y = extreme_rays(near)
        except UnverifiedError:
            continue
        as_one = distance <= 1e-12 and len(Y) == len(extreme_rays(C))
        assert as_one or agree(Y, extreme_rays(exactly(near)))


@PATHS
def test_small_slacks_of_ill_conditioned_rays_are_not_taken_for_zero(compiled):
    """Noise of 1e-8 on dependent rows: a zero level that grows with the error lost rays here, silently."""
    C = np.array(
        [[1, 1, 1, -1, 1, 1], [-1, 1, -1, -1, -1, 0], [0, 0, 0, 0, 0, 1], [-1, -1, 1, 1, 1, 0],
         [0, 0, 1, -1, -1, 0], [0, 0, 1, 1, 1, 0], [0, 0, 1, -1, -1, 0], [1, 1, -1, 0, 0, 0]]
    )  # fmt: skip
    for seed in (8, 29, 35, 36, 37, 39):
        noisy = C + 1e-8 * np.random.default_rng(seed).standard_normal(C.shape)
        try:
            Y = extreme_rays(noisy)
        except UnverifiedError:
            continue
        assert agree(Y, extreme_rays(exactly(noisy)))


def test_a_missing_float_ray_is_noticed():
    C = random_rows(12, 6, 0, float)
    scaled = floats.scaled(C)
    Y = extreme_rays(scaled)
    zeros = np.concatenate([Y == 0, np.abs(Y @ scaled.T) < 1e-12], axis=1)
    verification.check_edges(zeros, verification.packed(zeros), 6)
    for gone in (0, len(Y) // 2):
        rest = np.delete(zeros, gone, axis=0)
        with pytest.raises(UnverifiedError, match="no ray at its other end"):
            verification.check_edges(rest, verification.packed(rest), 6)


@settings(max_examples=150, deadline=None)
@given(matrices, st.booleans(), st.sampled_from([0.0, 1e-16, 1e-15]), st.integers(0, 2**32 - 1))
def test_any_small_float_cone_is_right_or_refused(C, compiled, noise, seed):
    rng = np.random.default_rng(seed)
    noisy = C * (1 + noise * rng.standard_normal(C.shape)) * 10.0 ** rng.integers(-3, 4, (len(C), 1))
    try:
        with core_or_reference(compiled):
            Y = extreme_rays(noisy)
    except UnverifiedError:
        return
    assert agree(Y, brute_force(C))
