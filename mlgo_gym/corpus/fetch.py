"""Source distributions from the package index: found, and downloaded by their digest."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from mlgo_gym.errors import CorpusError, MissingExtraError, UnreachableError
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.storage.cache import cache_directory
from mlgo_gym.storage.leftovers import abandoned, own_prefix

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage, PyPISimple


DELAYS = (1.0, 4.0, 15.0)
"""How long to wait, in seconds, before a download that broke off is tried again."""

_PART = ".part-"


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
    _sweep(folder)
    try:
        for delay in (*DELAYS, None):
            try:
                return SourceArchive(_download_once(client, file, expected, folder), expected)
            except _passing_errors() as error:  # noqa: PERF203 - an attempt is a download
                if delay is None or not _may_pass(error):
                    raise
                sleep(delay)
        raise AssertionError("the last attempt returns or raises")
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _download_once(client: PyPISimple, file: DistributionPackage, expected: str, folder: Path) -> Path:
    descriptor, temporary = tempfile.mkstemp(prefix=own_prefix(_PART), dir=folder)
    try:
        digest = hashlib.sha256()
        with os.fdopen(descriptor, "wb") as out, client.s.get(file.url, stream=True, timeout=60) as answer:
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
    return target


def _passing_errors() -> type[Exception]:
    import requests

    return requests.RequestException


def _may_pass(error: Exception) -> bool:
    """Return whether what went wrong with a download may go well the next time: no refusal, such as 404."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status is None or status >= 500 or status == 429


def _sweep(folder: Path) -> None:
    """Remove what killed processes have left of downloads."""
    for path in abandoned(folder, _PART):
        path.unlink(missing_ok=True)


def _cached(sha256: str) -> Path | None:
    for path in (cache_directory() / "downloads" / sha256).glob("[!.]*"):
        if hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
            return path
        with suppress(OSError):  # a shared cache may be one that others write
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
    answer = run_bounded(
        [sys.executable, "-m", "pip", "config", "get", f"global.{name}"], writable=None, timeout=60, name="pip"
    )
    return answer.stdout.strip() or None if answer.returncode == 0 else None
