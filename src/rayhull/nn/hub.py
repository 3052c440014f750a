"""Constrained on the Hugging Face hub: the set travels with the weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from rayhull.errors import MissingExtraError
from rayhull.nn.constrained import Constrained
from rayhull.sets.polyhedron import Polyhedron

if TYPE_CHECKING:
    from typing import Self

try:
    from huggingface_hub import ModelHubMixin
except ImportError:
    raise MissingExtraError("huggingface_hub", "hub", "Saving to the hub") from None


class HubConstrained(Constrained, ModelHubMixin):  # type: ignore[misc]
    """:class:`rayhull.Constrained` with ``save_pretrained``, ``from_pretrained`` and ``push_to_hub``.

    Options must be plain values (names, numbers), not functions of your own.

    Examples:
        >>> import tempfile, torch, rayhull as rh
        >>> from rayhull.nn.hub import HubConstrained
        >>> layer = HubConstrained(4, rh.monotone(5))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = layer.save_pretrained(folder)
        ...     again = HubConstrained.from_pretrained(folder)
        >>> h = torch.randn(2, 4)
        >>> bool((again(h) == layer(h)).all())
        True
    """

    def __init__(self, in_features: int, P: Polyhedron, **options: Any) -> None:
        super().__init__(in_features, P, **options)
        self.options = options

    def _save_pretrained(self, save_directory: Path) -> None:
        torch.save(self.state_dict(), save_directory / "layer.pt")
        np.savez(save_directory / "set.npz", **_arrays(self.polyhedron))
        text = json.dumps({"in_features": self.in_features, "options": self.options})
        (save_directory / "rayhull.json").write_text(text)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **download: Any) -> Self:
        known = ("revision", "cache_dir", "force_download", "local_files_only", "token")
        folder = _folder(model_id, {k: v for k, v in download.items() if k in known})
        saved = json.loads((folder / "rayhull.json").read_text())
        with np.load(folder / "set.npz") as arrays:
            layer = cls(saved["in_features"], _polyhedron(arrays), **saved["options"])
        layer.load_state_dict(torch.load(folder / "layer.pt", weights_only=True))
        return layer


def _folder(model_id: str, download: dict[str, Any]) -> Path:
    if Path(model_id).is_dir():
        return Path(model_id)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(model_id, **download))


def _arrays(P: Polyhedron) -> dict[str, Any]:
    """The set as plain arrays; fractions beyond float64 are refused rather than rounded."""
    out: dict[str, Any] = {"shape": np.array(P.shape)}
    for name in ("A", "A_eq"):
        matrix = sp.coo_array(getattr(P, name))
        out |= {f"{name}_{k}": getattr(matrix, k) for k in ("data", "row", "col")}
        out[f"{name}_size"] = np.array(matrix.shape)
    out |= {name: getattr(P, name) for name in ("b", "b_eq", "lower", "upper") if getattr(P, name) is not None}
    if any(value.dtype == object for value in out.values()):
        raise TypeError("a set of fractions cannot be saved to the hub without rounding: state it with floats.")
    return out


def _polyhedron(arrays: Any) -> Polyhedron:
    def matrix(name: str) -> Any:
        parts = (arrays[f"{name}_data"], (arrays[f"{name}_row"], arrays[f"{name}_col"]))
        return sp.csr_array(parts, shape=tuple(arrays[f"{name}_size"]))

    given = {name: arrays[name] for name in ("b", "b_eq", "lower", "upper") if name in arrays}
    return Polyhedron(matrix("A"), A_eq=matrix("A_eq"), shape=tuple(int(n) for n in arrays["shape"]), **given)
