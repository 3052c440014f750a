"""assert_feasible finds what is outside, and leaves the module as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import rayhull as rh
from rayhull.testing import assert_feasible

P = rh.box(-1, 1, 3)


class AlmostInside(nn.Module):
    """Inside for ordinary inputs, outside by a hair for one direction of large ones."""

    def __init__(self, only_in_training: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3))
        self.only_in_training = only_in_training

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        x = (h @ self.weight).clamp(-1, 1)
        return x * 1.001 if self.training or not self.only_in_training else x


def test_it_names_the_inputs_and_the_mode_of_a_violation() -> None:
    with pytest.raises(AssertionError, match=r"outside.*scale 1 in training.*violation 0.001"):
        assert_feasible(AlmostInside(only_in_training=True), P, 3)


def test_it_accepts_what_is_inside_and_restores_the_mode() -> None:
    layer = rh.Constrained(4, P).eval()
    assert assert_feasible(layer, P, 4) > 500
    assert not layer.training


def test_it_takes_functions_and_a_tolerance() -> None:
    assert assert_feasible(lambda h: h.clamp(-1.0005, 1.0005), P, 3, atol=1e-3) > 0
    with pytest.raises(AssertionError):
        assert_feasible(lambda h: h.clamp(-1.0005, 1.0005), P, 3)


def test_exactly_sees_one_ulp() -> None:
    above = float(torch.nextafter(torch.tensor(1.0), torch.tensor(2.0)))
    assert_feasible(lambda h: h.clamp(-above, above), P, 3)
    with pytest.raises(AssertionError):
        assert_feasible(lambda h: h.clamp(-above, above), P, 3, exactly=True)


def test_climbing_finds_a_way_out_that_random_inputs_miss() -> None:
    def narrow(h: torch.Tensor) -> torch.Tensor:
        bump = torch.relu(h.sum(-1, keepdim=True) - 6.0) * (h.abs().amax(-1, keepdim=True) < 50)
        return torch.tanh(h / 100) * 0.1 + bump

    with pytest.raises(AssertionError, match="climb"):
        assert_feasible(narrow, P, 3, scales=(0.1,), samples=8, ascent_steps=40)
