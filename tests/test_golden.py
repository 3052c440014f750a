"""What users meet again in checkpoints, caches and answers has not changed by accident."""

import numpy as np
import pytest
import torch

import rayhull as rh
from tests import golden
from tests.zoo import ZOO

KNOWN = golden.read()
ROUNDING = 1e-12  # the order of the sums decides digits below; the promise is 1e-10


def test_every_set_of_the_zoo_has_golden_values():
    assert set(KNOWN) == set(ZOO)


@pytest.mark.parametrize("name", ZOO)
def test_a_set_has_its_fingerprint_and_its_generators(name):
    P = ZOO[name]()
    assert P.fingerprint == KNOWN[name]["fingerprint"]
    assert golden.generators(P) == KNOWN[name]["generators"]


@pytest.mark.parametrize("name", ZOO)
def test_a_nearest_point_is_where_it_was_and_as_well_certified(name):
    now, known = golden.nearest(ZOO[name]()), KNOWN[name]["nearest"]
    assert np.allclose(now["point"], known["point"], rtol=1e-9, atol=1e-9)
    assert now["residual_below"] <= max(known["residual_below"], ROUNDING)


@pytest.mark.parametrize("name", ZOO)
def test_a_checkpoint_has_its_names_and_shapes(name):
    P = ZOO[name]()
    assert golden.parameters(rh.Constrained(4, P, method="shrink")) == KNOWN[name]["state_dict"]["Constrained"]
    assert golden.parameters(rh.Projection(P)) == KNOWN[name]["state_dict"]["Projection"]


def test_golden_values_notice_a_change():
    P, Q = rh.Polyhedron([[1, 1]], 1, lower=0), rh.Polyhedron([[1, 2]], 1, lower=0)
    assert golden.generators(P)["exact"] != golden.generators(Q)["exact"]
    assert golden.nearest(P)["point"] != golden.nearest(Q)["point"]
    assert golden.parameters(torch.nn.Linear(2, 3)) == {"weight": "float32 (3, 2)", "bias": "float32 (3,)"}
