"""MNIST and Fashion-MNIST as the paper uses them: 59000 / 1000 / 10000 images, pixels in [-1, 1]."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import zipfile
import zlib
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch

from experiments.errors import DataError, choose

VALIDATION = 1000  # the last of the 60000 training images, as in the paper
VARIABLE = "RAYHULL_DATA"
SHIPPED = Path(__file__).parent / "data" / "mnist-small.npz"

FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}

# SHA-256 of the decompressed files.
CHECKSUMS = {
    "mnist": {
        "train_images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train_labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "test_images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "test_labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    "fashion-mnist": {
        "train_images": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train_labels": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "test_images": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "test_labels": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
}
DATASETS = ("mnist", "fashion-mnist", "mnist-small")


@dataclass(frozen=True)
class Digits:
    """Images (n, 28, 28) in [-1, 1] and labels (n,), in three parts."""

    train: torch.Tensor
    train_labels: torch.Tensor
    validation: torch.Tensor
    validation_labels: torch.Tensor
    test: torch.Tensor
    test_labels: torch.Tensor

    def to(self, device: torch.device | str) -> Digits:
        return Digits(*(getattr(self, field.name).to(device) for field in fields(self)))


def load(name: str = "mnist", folder: str | Path | None = None, quiet: bool = False) -> Digits:
    """The dataset from ``folder``, else $RAYHULL_DATA, else the cache, else a download.

    ``mnist-small`` ships with the repository (5000 / 1000 / 1000 digits) and needs none of them.
    """
    choose("dataset", name, DATASETS)
    if name == "mnist-small":
        return _shipped()
    chosen = folder or os.environ.get(VARIABLE)
    if chosen:
        place = _folder_of(name, Path(chosen))
    else:
        from experiments import download

        place = download.cached(name, quiet=quiet)
    raw = {part: read_idx(_find(place, stem), CHECKSUMS[name][part]) for part, stem in FILES.items()}
    return _split(raw)


def read_idx(path: Path, sha256: str | None = None) -> np.ndarray:
    """The array in an idx or idx.gz file of unsigned bytes, checked against its header and its SHA-256."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}): remove it and fetch it again.") from error
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise DataError(f"{path} is not an idx file of bytes (it starts with {content[:4].hex() or 'nothing'}).")
    axes = content[3]
    shape = struct.unpack(f">{axes}I", content[4 : 4 + 4 * axes]) if len(content) >= 4 + 4 * axes else ()
    expected = 4 + 4 * axes + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        raise DataError(
            f"{path} is damaged: its header announces {expected} bytes {shape}, the file has {len(content)}."
        )
    got = hashlib.sha256(content).hexdigest()
    if sha256 and got != sha256:
        raise DataError(
            f"{path} is damaged or another dataset: expected SHA-256 {sha256[:16]}…, got {got[:16]}…. Fetch it again."
        )
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _folder_of(name: str, folder: Path) -> Path:
    """``folder`` or its subfolder for this dataset; a folder that was asked for is never passed over in silence."""
    place = folder / name if (folder / name).is_dir() else folder
    if not place.is_dir():
        raise DataError(f"the data folder {place} does not exist: give --data (or ${VARIABLE}) an existing folder.")
    return place


def _find(folder: Path, stem: str) -> Path:
    for name in (stem, f"{stem}.gz", stem.replace("-idx", ".idx"), f"{stem.replace('-idx', '.idx')}.gz"):
        if (folder / name).is_file():
            return folder / name
    present = ", ".join(sorted(p.name for p in folder.iterdir())[:6]) or "nothing"
    raise DataError(f"expected {stem} or {stem}.gz in {folder}, found {present}: put the four idx files there.")


def _split(raw: dict[str, np.ndarray]) -> Digits:
    for part in ("train", "test"):
        images, labels = raw[f"{part}_images"], raw[f"{part}_labels"]
        if images.shape[1:] != (28, 28) or len(images) != len(labels):
            raise DataError(f"expected {part} images (n, 28, 28) and n labels, got {images.shape} and {labels.shape}.")
    images, labels = raw["train_images"], raw["train_labels"]
    if len(images) <= VALIDATION:
        raise DataError(f"expected more than {VALIDATION} training images (the last validate), got {len(images)}.")
    cut = len(images) - VALIDATION
    return Digits(
        *(scaled(images[:cut]), _labels(labels[:cut])),
        *(scaled(images[cut:]), _labels(labels[cut:])),
        *(scaled(raw["test_images"]), _labels(raw["test_labels"])),
    )


def _shipped() -> Digits:
    try:
        with np.load(SHIPPED) as archive:
            parts = {key: archive[key] for key in archive.files}
        names = [field.name for field in fields(Digits)]
        return Digits(*(_labels(parts[n]) if n.endswith("labels") else scaled(parts[f"{n}_images"]) for n in names))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{SHIPPED} is missing or damaged ({error}): restore it with git.") from error


def scaled(images: np.ndarray) -> torch.Tensor:
    """Bytes 0..255 as float32 in [-1, 1]."""
    return torch.from_numpy(images.astype(np.float32) / 127.5 - 1)


def _labels(labels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(labels.astype(np.int64))
