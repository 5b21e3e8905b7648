"""Source distributions from the package index, downloaded and cached by their digest."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.errors import CorpusError, UnreachableError
from mlgo_gym.extras import library
from mlgo_gym.storage.cache import cache_directory
from mlgo_gym.storage.temporary_folders import process_folder
from mlgo_gym.storage.untrusted_file import sha256_of

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage, PyPISimple


DELAYS = (1.0, 4.0, 15.0)
"""Delays in seconds before a broken download is retried."""


@dataclass(frozen=True, slots=True)
class SourceArchive:
    """A source distribution on this machine, and its hexadecimal digest."""

    path: Path
    sha256: str


def fetch_source(package: str, version: str, sha256: str | None = None) -> SourceArchive:
    """Return the source distribution of a package, from the cache or from the index that pip is configured for.

    The expected digest is by default the one that the index lists.

    Raises:
        UnreachableError: the index does not answer.
        CorpusError: there is no such source distribution, or the download is damaged; nothing is kept.
        MissingExtraError: pypi-simple is not installed.
    """
    cached = None if sha256 is None else _cached(sha256)
    if cached is not None:
        return cached
    pypi_simple, requests = (
        library(name, "fetching source distributions", "corpus") for name in ("pypi_simple", "requests")
    )
    try:
        for endpoint in _indexes():
            with pypi_simple.PyPISimple(endpoint) as client:
                if certificates := os.environ.get("PIP_CERT") or _pip_setting("cert"):
                    client.s.verify = certificates
                found = _find(client, package, version)
                if found is not None:
                    return _download(client, found, sha256)
    except (requests.RequestException, pypi_simple.UnsupportedContentTypeError) as error:
        silent = isinstance(error, requests.ConnectionError | requests.Timeout)
        raise (UnreachableError if silent else CorpusError)(
            f"{package} {version} cannot be fetched from the package index: {error}; check the network and pip's "
            "settings (pip config list)"
        ) from error
    raise CorpusError(f"the package index has no source distribution of {package} {version}; check name and version")


def _find(client: PyPISimple, package: str, version: str) -> DistributionPackage | None:
    from pypi_simple import NoSuchProjectError

    try:
        page = client.get_project_page(package)
    except NoSuchProjectError:
        return None
    found = [file for file in page.packages if file.package_type == "sdist" and file.version == version]
    found.sort(key=lambda file: not file.filename.endswith(".tar.gz"))
    return found[0] if found else None


def _download(client: PyPISimple, file: DistributionPackage, sha256: str | None) -> SourceArchive:
    import requests

    expected = sha256 or file.digests.get("sha256")
    if expected is None:
        raise CorpusError(f"expected a sha256 digest of {file.filename} on the package index, got none; use another")
    cached = _cached(expected)
    if cached is not None:
        return cached
    folder = cache_directory() / "downloads" / expected
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for delay in DELAYS:
            try:
                return _download_once(client, file, expected, folder)
            except requests.RequestException as error:  # noqa: PERF203 - one iteration is a download
                if not _is_temporary(error):
                    raise
                sleep(delay)
        return _download_once(client, file, expected, folder)
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _download_once(client: PyPISimple, file: DistributionPackage, expected: str, folder: Path) -> SourceArchive:
    with process_folder(folder, ".part-") as scratch:
        path = scratch / file.filename
        client.download_package(file, path, verify=False, timeout=60)
        if (found := _digest(path)) != expected:
            raise CorpusError(
                f"{file.filename}: expected sha256 {expected}, got {found}; fetch it again, and if that changes "
                "nothing, the file on the index was replaced"
            )
        return SourceArchive(path.replace(folder / file.filename), expected)


def _is_temporary(error: Exception) -> bool:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status is None or status >= 500 or status == 429


def _cached(sha256: str) -> SourceArchive | None:
    for path in (cache_directory() / "downloads" / sha256).glob("[!.]*"):
        if _digest(path) == sha256:
            return SourceArchive(path, sha256)
        with suppress(OSError):  # the cache may be shared and read-only
            path.unlink()
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return sha256_of(file)


def _indexes() -> list[str]:
    """Return the index URLs of pip's configuration, in order; folders are skipped."""
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    first = os.environ.get("PIP_INDEX_URL") or _pip_setting("index-url") or PYPI_SIMPLE_ENDPOINT
    more = os.environ.get("PIP_EXTRA_INDEX_URL") or _pip_setting("extra-index-url") or ""
    return [url for url in (first, *more.split()) if url.startswith(("http://", "https://"))]


@lru_cache
def _pip_setting(name: str) -> str | None:
    command = [sys.executable, "-m", "pip", "config", "get", f"global.{name}"]
    answer = run_bounded(command, writable=None, timeout=60, name="pip")
    return answer.stdout.strip() or None if answer.returncode == 0 else None
