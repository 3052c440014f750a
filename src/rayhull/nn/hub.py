"""Constrained on the Hugging Face hub: the set travels with the weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rayhull.conversion.files import read, write
from rayhull.errors import FileFormatError, MissingExtraError
from rayhull.nn.layers import Constrained
from rayhull.sets.polyhedron import Polyhedron

if TYPE_CHECKING:
    from typing import Self

try:
    import huggingface_hub as hub
except ImportError:
    raise MissingExtraError("huggingface_hub", "hub", "Saving to the hub") from None


class HubConstrained(Constrained, hub.ModelHubMixin):  # type: ignore[misc]
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
        write(save_directory / "set.npz", self.polyhedron)
        text = json.dumps({"in_features": self.in_features, "options": self.options})
        (save_directory / "rayhull.json").write_text(text)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **download: Any) -> Self:
        folder = Path(model_id)
        if not folder.is_dir():
            known = ("revision", "cache_dir", "force_download", "local_files_only", "token")
            folder = Path(hub.snapshot_download(model_id, **{k: v for k, v in download.items() if k in known}))
        saved = json.loads((folder / "rayhull.json").read_text())
        P = read(folder / "set.npz")
        if not isinstance(P, Polyhedron):
            raise FileFormatError(f"set.npz of {model_id} holds generators; expected a Polyhedron.")
        layer = cls(saved["in_features"], P, **saved["options"])
        layer.load_state_dict(torch.load(folder / "layer.pt", weights_only=True))
        return layer
