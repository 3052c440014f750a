"""For users' own test suites: is a module's output in the set, for inputs that try to get out?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

SCALES = (1e-30, 1e-6, 1.0, 1e6, 1e30)


def assert_feasible(
    module: Callable[..., Tensor],
    polyhedron: Polyhedron,
    in_features: int,
    *,
    exactly: bool = False,
    atol: float | None = None,
    samples: int = 64,
    ascent_steps: int = 20,
    scales: tuple[float, ...] = SCALES,
    seed: int = 0,
    **sides: Any,
) -> int:
    """Raise AssertionError if some output is outside the set; return how many outputs were judged.

    The inputs: random at every scale, zeros and single spikes, and inputs moved by gradient ascent on the violation,
    all in training and in evaluation mode (which is restored). ``exactly`` adds signs at the largest finite size, where
    an ordinary layer may overflow.

    Args:
        module: features → points; a torch module or any function of a tensor.
        polyhedron: the set.
        in_features: size of an input sample.
        exactly: judge in rational arithmetic, without a tolerance, as ``strict=True`` promises for inequalities.
        atol: tolerance of ``contains``; by default that of the outputs' dtype.
        samples: how many random inputs at each of the ``scales``, drawn from ``seed``.
        ascent_steps: how many steps of gradient ascent.
        sides: ``b=``, ``b_eq=``, ``lower=``, ``upper=``, ``A=`` or ``A_eq=``, the same for all samples: given to the
            module with each call, and to the set when it judges.

    Examples:
        >>> import torch, rayhull as rh
        >>> from rayhull.testing import assert_feasible
        >>> P = rh.monotone(5) & rh.box(-1, 1)
        >>> assert_feasible(rh.Constrained(4, P, strict=True), P, 4, exactly=True, samples=8) > 100
        True
        >>> try:
        ...     assert_feasible(torch.nn.Linear(4, 5), P, 4)
        ... except AssertionError as error:
        ...     print(" ".join(str(error).split()[3:6]))
        outputs are outside
    """
    like = _like(module)
    largest = torch.finfo(like.dtype).max
    start = torch.randn(samples, in_features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    judged = 0
    for mode in _modes(module):
        climbed = _climb(module, polyhedron, start.to(like), ascent_steps, sides)
        tried = [*_inputs(start, scales, largest if exactly else 0.0), ("inputs that climb the violation", climbed)]
        for name, features in tried:
            with torch.no_grad():
                x = module(features.clamp(-largest, largest).to(like), **sides)
            inside = polyhedron.contains_exactly(x, **sides) if exactly else polyhedron.contains(x, atol, **sides)
            judged += inside.numel()
            if not bool(inside.all()):
                worst = float(polyhedron.violation(x, **sides).max())
                raise AssertionError(
                    f"{int((~inside).sum())} of {inside.numel()} outputs are outside {polyhedron} for {name} in {mode} "
                    f"(largest violation {worst:.3g})."
                )
    return judged


def _modes(module: Any) -> Iterator[str]:
    if not isinstance(module, nn.Module):
        yield "one call"
        return
    before = module.training
    try:
        for training in (True, False):
            module.train(training)
            yield "training" if training else "evaluation"
    finally:
        module.train(before)


def _inputs(start: Tensor, scales: tuple[float, ...], extreme: float) -> Iterator[tuple[str, Tensor]]:
    for scale in scales:
        yield f"random inputs of scale {scale:g}", start * scale
    samples, n = start.shape
    yield "spikes", torch.eye(n, dtype=torch.float64).repeat(2, 1)[:samples] * 1e3
    yield "zeros", torch.zeros(2, n, dtype=torch.float64)
    if extreme:
        yield "the largest finite inputs", start.sign() * extreme


def _like(module: Any) -> Tensor:
    """The module's first floating weight, whose dtype and device its inputs have."""
    tensors = [*module.parameters(), *module.buffers()] if isinstance(module, nn.Module) else []
    return next((tensor for tensor in tensors if tensor.is_floating_point()), torch.empty(0))


def _climb(module: Any, P: Polyhedron, features: Tensor, steps: int, sides: dict[str, Any]) -> Tensor:
    """Gradient ascent on the violation, or where it is 0 on the rows' values: towards and along the boundary."""
    features = features.clone().requires_grad_()
    for _ in range(steps):
        x = module(features, **sides)
        objective = P.violation(x, **sides).sum() + x.abs().double().sum() * 1e-3
        if not objective.requires_grad:
            break
        (slope,) = torch.autograd.grad(objective, features, allow_unused=True, materialize_grads=True)
        size = slope.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(slope.dtype).tiny)
        features = (features + 0.5 * slope / size).detach().requires_grad_()
    return features.detach()
