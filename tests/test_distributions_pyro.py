"""Pyro takes the transform and the constraint as its own: NUTS on a polytope, from the prior's support."""

import pytest
import torch

import rayhull as rh

pyro = pytest.importorskip("pyro")
dist = pytest.importorskip("pyro.distributions")
infer = pytest.importorskip("pyro.infer")


def test_nuts_stays_in_the_set_and_finds_the_posterior():
    pyro.set_rng_seed(0)
    P = rh.parse("coal + gas + wind == 1; coal <= 2*gas; coal >= 0; gas >= 0; 0 <= wind <= 0.4")
    into = rh.distributions.IntoPolyhedron(P)
    truth = torch.tensor([0.3, 0.45, 0.25])
    data = truth + 0.02 * torch.randn(40, 3)

    def model(data):
        normal = dist.Normal(torch.zeros(into.coefficients), torch.ones(into.coefficients)).to_event(1)
        x = pyro.sample("x", dist.TransformedDistribution(normal, [into]))
        with pyro.plate("data", len(data)):
            pyro.sample("seen", dist.Normal(x, 0.02).to_event(1), obs=data)

    chain = infer.MCMC(infer.NUTS(model), num_samples=60, warmup_steps=40, disable_progbar=True)
    chain.run(data)
    x = chain.get_samples()["x"]
    assert P.contains(x).all()
    assert (x.mean(0) - truth).abs().max() < 0.02
