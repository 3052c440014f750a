"""Models that are there already, and their training: a head, a weight, and a start without the set."""

from __future__ import annotations

from typing import TypeVar, Unpack

import torch
from torch import Tensor, nn

from rayhull.nn.layers import Constrained, is_linear, keeping_map
from rayhull.nn.options import LayerOptions
from rayhull.sets.polyhedron import Polyhedron

Model = TypeVar("Model", bound=nn.Module)


def constrain(model: Model, name: str, P: Polyhedron, **options: Unpack[LayerOptions]) -> Model:
    """Replace a Linear of a model, by its name, with a head whose outputs lie in the set; returns the model.

    The head starts with the Linear's weights and equals it wherever its output is feasible.

    Args:
        model: changed in place.
        name: of a Linear or a 1 x 1 convolution, as in ``model.named_modules()``: ``"head"`` or ``"decoder.2"``.
        P: the set; its coordinates are the Linear's outputs.
        options: as for :class:`rayhull.MapInto`.

    Examples:
        >>> import torch, rayhull as rh
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5))
        >>> P = rh.monotone(5)
        >>> x = rh.constrain(model, "2", P)(torch.randn(8, 4))
        >>> bool(P.contains(x).all())
        True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"constrain takes the model first, constrain(model, name, P), got {type(model).__name__}.")
    found = {n: module for n, module in model.named_modules() if n and is_linear(module)}
    if name not in found:
        done = f"{name}.linear" in found and isinstance(model.get_submodule(name), Constrained)
        hint = " It is constrained already." if done else ""
        raise ValueError(f"the model has no Linear called {name!r}: it has {', '.join(found) or 'none'}.{hint}")
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, Constrained.from_linear(found[name], P, **options))
    return model


class Parametrization(nn.Module):
    """A weight that stays in the set, whatever the optimiser does to the tensor behind it.

    The tensor behind has the weight's own shape, and a weight inside the set is kept as it is: "auto" takes the
    nearest point in place of vertices.

    Args:
        P: a set of the weight's shape.
        device, dtype, options: as for :class:`rayhull.MapInto`.

    Shape: (event shape) → (event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> from torch.nn.utils import parametrize
        >>> P = rh.nonnegative((3, 5)) & rh.box(0, 2)    # a layer that is monotone in every feature
        >>> lin = parametrize.register_parametrization(torch.nn.Linear(5, 3), "weight", rh.Parametrization(P))
        >>> bool(P.contains(lin.weight))
        True
    """

    def __init__(
        self,
        P: Polyhedron,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__()
        self.map = keeping_map(P, device=device, dtype=dtype, **options)

    def forward(self, coefficients: Tensor) -> Tensor:
        """The weight for its ``coefficients``, the tensor behind it."""
        return self.map(coefficients.flatten())

    @torch.no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        """Coefficients of a weight: exact for one inside the set; one outside is first mapped into it."""
        if tuple(weight.shape) != self.map.polyhedron.shape:
            raise ValueError(
                f"the set has shape {self.map.polyhedron.shape}, the weight {tuple(weight.shape)}: both must be the "
                "same. For a rule on every row or column of a weight, rayhull.along repeats a set."
            )
        return self.map.coefficients_of(weight).reshape(weight.shape)


class FreeStart:
    r"""Training begins without the set and ends inside it; evaluation is inside at any time.

    While ``layer.training``, what comes out is :math:`(1 - s)\, x + s\, u`, the point x of the set and u as it was
    before it was moved there, and s falls from ``start`` to 0 along a line in ``steps`` steps. It is for ways that keep
    points of the set (``layer.map.keeps_inside``); the others have no such point.

    Args:
        layer: the layer.
        steps: how many calls of ``step()`` until the set is closed.
        start: the first share of the unconstrained point.

    Examples:
        >>> import torch, rayhull as rh
        >>> layer = rh.Constrained(4, rh.monotone(5), method="nearest")
        >>> schedule = rh.nn.adapting.FreeStart(layer, steps=2)
        >>> h = 10 * torch.randn(64, 4)
        >>> bool(layer.polyhedron.contains(layer(h)).all()), bool(layer.polyhedron.contains(layer.eval()(h)).all())
        (False, True)
        >>> for _ in range(2):
        ...     schedule.step()
        >>> bool(layer.polyhedron.contains(layer.train()(h)).all())
        True
    """

    def __init__(self, layer: Constrained, steps: int, start: float = 1.0) -> None:
        if steps < 1 or not 0 < start <= 1:
            raise ValueError(f"steps must be at least 1 and start in (0, 1], got {steps} and {start}.")
        layer.map._need_identity()
        self.layer, self.steps, self.start, self.done = layer, steps, start, 0
        layer.unconstrained_share = start

    def step(self) -> None:
        """After each step of the optimiser."""
        self.done += 1
        self.layer.unconstrained_share = self.start * max(0.0, 1 - self.done / self.steps)
