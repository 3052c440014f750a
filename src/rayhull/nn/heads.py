"""Heads for models that exist: a named Linear becomes a layer into a set."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from torch import nn

from rayhull.nn.constrained import Constrained

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

Model = TypeVar("Model", bound=nn.Module)


def constrain(model: Model, name: str, P: Polyhedron, *, method: str = "auto", strict: bool = False) -> Model:
    """Replace a Linear of a model, by its name, with a head whose outputs lie in the set; returns the model.

    The head starts with the Linear's weights and says what it said wherever that lies in the set.

    Args:
        model: changed in place.
        name: the submodule's name, as in ``model.named_modules()``: ``"head"`` or ``"decoder.2"``.
        P: the set; its coordinates are the Linear's outputs.
        method, strict: as for :class:`rayhull.Constrained`.

    Examples:
        >>> import torch, rayhull as rh
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5))
        >>> P = rh.monotone(5)
        >>> x = rh.constrain(model, "2", P)(torch.randn(8, 4))
        >>> bool(P.contains(x).all())
        True
    """
    names = [n for n, module in model.named_modules() if isinstance(module, nn.Linear)]
    if name not in names:
        raise ValueError(f"the model has no Linear called {name!r}: it has {', '.join(names) or 'none'}.")
    parent, _, child = name.rpartition(".")
    linear = model.get_submodule(name)
    assert isinstance(linear, nn.Linear)
    head = Constrained.from_linear(linear, P, method=method, strict=strict)
    setattr(model.get_submodule(parent), child, head)
    return model
