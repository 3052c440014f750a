"""The field's problems are the published ones: the same draws, and the optima that the papers report."""

import pytest

from benchmarks.field_problems import dc3_data, fingerprint, hardnet_data, quadratic_problem


def test_the_data_are_drawn_as_published():
    """The first digest was compared with the file that Pi-net ships of DC3's data."""
    for data, digest in ((dc3_data(), "a4b8bc086a4e"), (hardnet_data(), "57a6c0013689")):
        assert fingerprint(data.Q, data.p, data.C, data.G, data.X) == digest


@pytest.mark.parametrize(("convex", "published"), [(True, -15.047), (False, -11.592)])
def test_the_optimum_is_the_published_one(convex, published):
    problem = quadratic_problem("DC3", dc3_data(), convex=convex)
    assert problem.optimum is not None
    assert float(problem.optimum(problem.splits["test"]).mean()) == pytest.approx(published, abs=5e-4)
