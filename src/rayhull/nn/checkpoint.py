"""Which set a checkpoint belongs to: a fingerprint beside the weights, and the refusal of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

VERSION = 2  # of the layout of state_dict


class OfSet(nn.Module):
    """A module that belongs to a set: its state_dict says to which one, and another set's is refused.

    The mark is extra state (``_extra_state``: 2 bytes of version, 32 of fingerprint) and is computed from the set, so
    that no cast, average or empty allocation of buffers can spoil it.
    """

    polyhedron: Polyhedron

    def get_extra_state(self) -> Tensor:
        digest = VERSION.to_bytes(2) + bytes.fromhex(self.polyhedron.fingerprint)
        return torch.tensor(np.frombuffer(digest, np.uint8), device="cpu")

    def set_extra_state(self, state: Any) -> None:
        """Nothing to set: ``_load_from_state_dict`` has compared it."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        mark = state_dict.get(prefix + "_extra_state")
        if mark is not None and not mark.is_meta:
            self._refuse_another(bytes(mark.cpu().to(torch.uint8).tolist()))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _refuse_another(self, mark: bytes) -> None:
        if int.from_bytes(mark[:2]) > VERSION:
            raise RuntimeError(
                f"this state_dict has version {int.from_bytes(mark[:2])}; this rayhull reads up to {VERSION}: upgrade."
            )
        if mark[2:].hex() != self.polyhedron.fingerprint:
            raise RuntimeError(
                f"this state_dict was saved for another set than {self.polyhedron}: build the module with the set that "
                "it was trained for."
            )
