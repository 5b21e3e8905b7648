"""Source distributions from the package index: found, downloaded by digest, and unpacked where they cannot escape."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mlgo_gym.errors import CorpusError, MissingExtraError, UnreachableError
from mlgo_gym.storage.cache import cache_directory

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage, PyPISimple

LARGEST_ARCHIVE = 4 << 30
"""The most bytes that an archive may unpack to."""


@dataclass(frozen=True, slots=True)
class SourceArchive:
    """A source distribution on this machine.

    Attributes:
        path: the file.
        sha256: its digest.
    """

    path: Path
    sha256: str


def fetch_source(package: str, version: str, sha256: str | None = None) -> SourceArchive:
    """Return the source distribution of a package, from the cache or from the index that pip uses.

    Args:
        package: the name of the distribution.
        version: its version.
        sha256: the digest that it must have; without it, the digest that the index gives.

    Raises:
        UnreachableError: the index does not answer.
        CorpusError: it has no such source distribution, or the download is not whole or has another digest. Nothing
            is kept then.
        MissingExtraError: pypi-simple is not installed.
    """
    known = None if sha256 is None else _cached(sha256)
    if known is not None and sha256 is not None:
        return SourceArchive(known, sha256)
    try:
        import pypi_simple
        import requests
    except ImportError as error:
        raise MissingExtraError("fetching source distributions", "corpus") from error

    wanted = f"{package} {version}"
    try:
        for endpoint in _indexes():
            with pypi_simple.PyPISimple(endpoint) as client:
                _configure(client)
                found = _find(client, package, version)
                if found is not None:
                    return _download(client, found, wanted, sha256)
    except (requests.RequestException, pypi_simple.UnsupportedContentTypeError) as error:
        silent = isinstance(error, requests.ConnectionError | requests.Timeout)
        raise (UnreachableError if silent else CorpusError)(
            f"{wanted} was to be fetched, and the package index cannot be used: {error}; look at the network and at "
            "pip's settings (pip config list)"
        ) from error
    raise CorpusError(f"the package index has no source distribution of {wanted}; check name and version")


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a new folder, and return its only top folder, or else the folder itself.

    Files, folders and links that stay inside are unpacked, without owners and special permissions; times are not kept.

    Raises:
        CorpusError: it is no archive or not whole, a member leads out of the folder or is a device, or it is too
            large. Nothing is left then.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, staging)
        else:
            _unpack_tar(archive, staging)
        staging.rename(folder)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, ValueError) as error:
        raise CorpusError(f"{archive.name}: a whole archive was wanted: {error}; remove it and fetch again") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _unpack_tar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        _check_size(archive, sum(member.size for member in members))
        for member in members:
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                raise CorpusError(f"{archive.name}: {member.name!r} is a device or a pipe; this archive is refused")
            _check_inside(archive, member.name)
            if member.issym():
                _check_inside(archive, f"{PurePosixPath(member.name).parent}/{member.linkname}", member.linkname)
            elif member.islnk():
                _check_inside(archive, member.linkname)
            member.uid = member.gid = os.getuid()
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & stat.S_IXUSR else 0o644
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, members, filter="data")
        else:
            tar.extractall(folder, members)  # noqa: S202 - every member was checked above


def _unpack_zip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as content:
        _check_size(archive, sum(member.file_size for member in content.infolist()))
        for member in content.infolist():
            _check_inside(archive, member.filename)
            if stat.S_ISLNK(member.external_attr >> 16):
                raise CorpusError(f"{archive.name}: {member.filename!r} is a link in a zip; this archive is refused")
        content.extractall(folder)  # noqa: S202 - every member was checked above


def _check_inside(archive: Path, name: str, link: str = "") -> None:
    depth = 0
    for part in PurePosixPath(name).parts:
        depth += {"..": -1, ".": 0}.get(part, 1)
        if depth < 0:
            break
    if depth < 0 or name.startswith("/") or link.startswith("/") or "\\" in name:
        raise CorpusError(f"{archive.name}: {name!r} leads out of the folder; this archive is refused")


def _check_size(archive: Path, size: int) -> None:
    if size > LARGEST_ARCHIVE:
        raise CorpusError(f"{archive.name}: it would unpack to {size >> 20} MiB; {LARGEST_ARCHIVE >> 20} are allowed")


def _find(client: PyPISimple, package: str, version: str) -> DistributionPackage | None:
    from pypi_simple import NoSuchProjectError

    try:
        page = client.get_project_page(package)
    except NoSuchProjectError:
        return None
    found = [file for file in page.packages if file.package_type == "sdist" and file.version == version]
    found.sort(key=lambda file: not file.filename.endswith(".tar.gz"))
    return found[0] if found else None


def _download(client: PyPISimple, file: DistributionPackage, wanted: str, sha256: str | None) -> SourceArchive:
    expected = sha256 or file.digests.get("sha256")
    if expected is None:
        raise CorpusError(f"{wanted}: the package index gives no sha256 digest for {file.filename}; use another index")
    known = _cached(expected)
    if known is not None:
        return SourceArchive(known, expected)
    folder = cache_directory() / "downloads" / expected
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=".part-", dir=folder)
    try:
        digest = hashlib.sha256()
        with client.s.get(file.url, stream=True, timeout=60) as answer, os.fdopen(descriptor, "wb") as out:
            answer.raise_for_status()
            for chunk in answer.iter_content(1 << 16):
                digest.update(chunk)
                out.write(chunk)
        if digest.hexdigest() != expected:
            raise CorpusError(
                f"{file.filename}: its sha256 was to be {expected}, and what came is {digest.hexdigest()}; the "
                "download is refused: fetch again, and if that changes nothing the file on the index is another"
            )
        target = folder / file.filename
        Path(temporary).replace(target)
    finally:
        Path(temporary).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()
    return SourceArchive(target, expected)


def _cached(sha256: str) -> Path | None:
    for path in (cache_directory() / "downloads" / sha256).glob("[!.]*"):
        if hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
            return path
        path.unlink()
    return None


def _configure(client: PyPISimple) -> None:
    certificates = os.environ.get("PIP_CERT") or _pip_setting("cert")
    if certificates:
        client.s.verify = certificates


def _indexes() -> list[str]:
    """Return the indexes that pip would ask, in its order; those that are folders are left out."""
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    first = os.environ.get("PIP_INDEX_URL") or _pip_setting("index-url") or PYPI_SIMPLE_ENDPOINT
    more = os.environ.get("PIP_EXTRA_INDEX_URL") or _pip_setting("extra-index-url") or ""
    return [url for url in (first, *more.split()) if url.startswith(("http://", "https://"))]


@lru_cache
def _pip_setting(name: str) -> str | None:
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", f"global.{name}"], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or None if answer.returncode == 0 else None
