"""Sources of a dataset: fetched from the package index by digest, unpacked safely and completed; and their compiles."""

from __future__ import annotations

import ast
import lzma
import os
import posixpath
import re
import shutil
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from time import sleep
from typing import TYPE_CHECKING

from typing_extensions import Self

from mlgo_gym.cache import UNWRITABLE, cache_directory, sha256_of
from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.datasets.catalogue import Dataset
from mlgo_gym.errors import CorpusError, UnreachableError
from mlgo_gym.extras import library
from mlgo_gym.storage.temporary_folders import complete_folder, process_folder

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage, PyPISimple

MAX_UNPACKED_BYTES = 4 << 30
MAX_MEMBERS = 500_000
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)

MAX_HEADER_BYTES = 1 << 20
"""Maximum size of one entry's header in bytes; headers are read into memory."""
_MARK = re.compile(r"/\*{4} (start inlining|ended inlining|skipping file:) (\S+) \*{4}/\n?")


def unpack_sources(dataset: Dataset, archives: Mapping[str, SourceArchive], folder: Path) -> Path:
    """Unpack the archives of a dataset, write the files of its entry, and return the top folder of its own archive.

    `archives` are by target folder, `""` for its own. A refused archive (see `unpack()`) is removed from the cache.
    """

    def unpacked(archive: SourceArchive, folder: Path) -> Path:
        try:
            return unpack(archive.path, folder)
        except CorpusError:
            archive.path.unlink(missing_ok=True)
            raise

    source = unpacked(archives[""], folder).resolve()
    if dataset.folder:
        root = folder.with_name(f"{folder.name}.root").resolve()
        (root / dataset.folder).parent.mkdir(parents=True)
        source = source.rename(root / dataset.folder).parents[len(Path(dataset.folder).parts) - 1]
    for path in dataset.needs:
        needed = folder.with_name(f"{folder.name}.needed")
        unpacked(archives[path], needed).rename(source / path)
        shutil.rmtree(needed, ignore_errors=True)
    for amalgamation, target in dataset.amalgamations.items():
        text = (source / amalgamation).read_text(encoding="utf-8")
        for path, content in split_amalgamation(text).items():
            _write(source / target / path, content)
    for path, content in dataset.files.items():
        _write(source / path, content)
    return source


def compile_commands(dataset: Dataset, source: Path) -> list[list[str]]:
    """Return the driver arguments of each compile in the folder `source`; raise `CorpusError` for an unused pattern."""
    excluded = {path for pattern in dataset.exclude for path in _matches(dataset, source, pattern)}
    commands: dict[Path, list[str]] = {}
    for part in dataset.parts:
        options = [f"-I{source / folder}" for folder in part.include]
        for path in {path for pattern in part.sources for path in _matches(dataset, source, pattern)} - excluded:
            name = path.relative_to(source)
            output = Path(part.prefix) / name.with_suffix(".o")
            commands[part.prefix / name] = ["-c", str(name), "-o", str(output), *part.options, *options]
    return [commands[path] for path in sorted(commands)]


def split_amalgamation(text: str) -> dict[str, str]:
    """Return the text by path of each file that zstd's `combine.py` merged into one; raise `CorpusError` without marks.

    The script writes `/**** start inlining PATH ****/` instead of an `#include`, `/**** ended inlining PATH ****/`
    after the file, and `/**** skipping file: PATH ****/` for a repeated one. PATH is relative to the including file.
    Text outside of all pairs is dropped.
    """
    files: dict[str, list[str]] = {}
    open_files: list[str] = []
    position = 0
    for mark in _MARK.finditer(text):
        if open_files:
            files[open_files[-1]].append(text[position : mark.start()])
        position = mark.end()
        kind, name = mark[1], mark[2]
        if kind == "ended inlining":
            if not open_files or not open_files[-1].endswith(name.rpartition("/")[2]):
                raise CorpusError(f"amalgamation: expected the end of {open_files[-1:]}, got that of {name}")
            open_files.pop()
            continue
        if open_files:
            files[open_files[-1]].append(f'#include "{name}"\n')
        if kind == "start inlining":
            parent = posixpath.dirname(open_files[-1]) if open_files else ""
            open_files.append(posixpath.normpath(posixpath.join(parent, name)))
            files[open_files[-1]] = []
    if open_files or not files:
        raise CorpusError(f"amalgamation: expected marks of its files, got {len(files)} files, {len(open_files)} open")
    return {path: "".join(parts) for path, parts in files.items()}


def _matches(dataset: Dataset, source: Path, pattern: str) -> list[Path]:
    matches = [path for path in source.glob(pattern) if path.is_file()]
    if not matches:
        raise CorpusError(
            f"{dataset.name}: expected a file of {dataset.archive.package} {dataset.archive.version} that matches "
            f"{pattern!r}, got none"
        )
    return matches


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


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
    if sha256 is not None and (cached := _cached(sha256)) is not None:
        return cached
    pypi_simple, requests = (
        library(name, "fetching source distributions", "corpus") for name in ("pypi_simple", "requests")
    )
    try:
        for endpoint in _indexes():
            with pypi_simple.PyPISimple(endpoint) as client:
                if certificates := os.environ.get("PIP_CERT") or _pip_setting("cert"):
                    client.s.verify = certificates
                file = _find(client, package, version)
                if file is not None:
                    return _download(client, file, sha256)
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
    files = [file for file in page.packages if file.package_type == "sdist" and file.version == version]
    return min(files, key=lambda file: not file.filename.endswith(".tar.gz"), default=None)


def _download(client: PyPISimple, file: DistributionPackage, sha256: str | None) -> SourceArchive:
    import requests

    expected = sha256 or file.digests.get("sha256")
    if expected is None:
        raise CorpusError(f"expected a sha256 digest of {file.filename} on the package index, got none; use another")
    if (cached := _cached(expected)) is not None:
        return cached
    folder = cache_directory() / "downloads" / expected
    folder.mkdir(parents=True, exist_ok=True)

    def download() -> SourceArchive:
        with process_folder(folder, ".part-") as scratch:
            path = scratch / file.filename
            client.download_package(file, path, verify=False, timeout=60)
            if (actual := sha256_of(path)) != expected:
                raise CorpusError(
                    f"{file.filename}: expected sha256 {expected}, got {actual}; fetch it again, and if that changes "
                    "nothing, the file on the index was replaced"
                )
            return SourceArchive(path.replace(folder / file.filename), expected)

    try:
        for delay in DELAYS:
            try:
                return download()
            except requests.RequestException as error:  # noqa: PERF203 - one iteration is a download
                status = getattr(error.response, "status_code", None)
                if status is not None and status < 500 and status != 429:
                    raise
                sleep(delay)
        return download()
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _cached(sha256: str) -> SourceArchive | None:
    for path in (cache_directory() / "downloads" / sha256).glob("[!.]*"):
        if sha256_of(path) == sha256:
            return SourceArchive(path, sha256)
        with suppress(OSError):  # the cache may be shared and read-only
            path.unlink()
    return None


def _indexes() -> list[str]:
    """Return the index URLs of pip's configuration, in order; folders are skipped."""
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    first = os.environ.get("PIP_INDEX_URL") or _pip_setting("index-url") or PYPI_SIMPLE_ENDPOINT
    more = os.environ.get("PIP_EXTRA_INDEX_URL") or _pip_setting("extra-index-url") or ""
    return [url for url in (first, *more.split()) if url.startswith(("http://", "https://"))]


def _pip_setting(name: str) -> str | None:
    value = _pip_settings(os.environ.get("PIP_CONFIG_FILE")).get(f"global.{name}")
    return None if value is None else str(ast.literal_eval(value))


@lru_cache
def _pip_settings(_file: str | None) -> dict[str, str]:
    """Return the settings of pip's files as it prints them; one that the environment names is the argument."""
    # `pip config get` reads one file alone, of the environment or the user.
    listed = run_bounded([sys.executable, "-m", "pip", "config", "list"], writable=None, timeout=60, name="pip").stdout
    return {name: value for name, _, value in (line.partition("=") for line in listed.splitlines())}


class _Member(tarfile.TarInfo):
    """An entry of a tar archive; an oversized extended header is refused before it is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _HEADERS and member.size > MAX_HEADER_BYTES:
            raise CorpusError(
                f"expected headers of at most {MAX_HEADER_BYTES} bytes, got {member.size}; the archive is refused"
            )
        return member


_HEADERS = (*tarfile.GNU_TYPES[:2], tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a new folder, and return its only top folder, or else the folder itself.

    Owners, special permissions and times are dropped.

    Raises `CorpusError` if the file is damaged or no archive, an entry is a device or leads out of the folder, the
    archive is too large, or the folder cannot be written. Nothing is kept.
    """
    try:
        with complete_folder(folder) as staging:
            if zipfile.is_zipfile(archive):
                _unpack_zip(archive, staging)
            else:
                _unpack_tar(archive, staging)
    except (OSError, ValueError, RuntimeError, EOFError, *_DAMAGED) as error:
        if isinstance(error, OSError) and error.errno in UNWRITABLE:
            raise CorpusError(
                f"{archive.name} cannot be unpacked to {folder}: {error.strerror}; free space, or choose another "
                "folder, as with $MLGO_CACHE"
            ) from error
        raise CorpusError(f"{archive.name}: expected a complete archive: {error}; remove it and fetch again") from error
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _unpack_tar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive, tarinfo=_Member) as tar:
        members: list[tarfile.TarInfo] = []
        size = 0
        for member in tar:
            members.append(member)
            size += member.size
            _check_size(archive, size, len(members))
        links = {os.path.normpath(member.name) for member in members if member.issym()}
        for member in members:
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                raise CorpusError(f"{archive.name}: {member.name!r} is a device or a pipe; the archive is refused")
            _check_inside(archive, member.name, links)
            if member.issym():
                _check_inside(archive, f"{PurePosixPath(member.name).parent}/{member.linkname}", links, member.linkname)
            elif member.islnk():
                _check_inside(archive, member.linkname, links)
                if os.path.normpath(member.linkname) in links:
                    raise CorpusError(f"{archive.name}: {member.name!r} links to a link; the archive is refused")
            member.uid = member.gid = os.getuid()
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & stat.S_IXUSR else 0o644
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, members, filter="data")
        else:
            tar.extractall(folder, members)  # noqa: S202 - every member was checked above


def _unpack_zip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as content:
        members = content.infolist()
        _check_size(archive, sum(member.file_size for member in members), len(members))
        for member in members:
            _check_inside(archive, member.filename, ())
            if stat.S_ISLNK(member.external_attr >> 16):
                raise CorpusError(f"{archive.name}: {member.filename!r} is a link in a zip; the archive is refused")
        content.extractall(folder)  # noqa: S202 - every member was checked above


def _check_inside(archive: Path, name: str, links: Collection[str], link: str = "") -> None:
    """Refuse the path of an entry, or of its `link` target, that leads out of the folder or through one of `links`."""
    depth = 0
    parts = PurePosixPath(name).parts
    for position, part in enumerate(parts):
        depth += {"..": -1, ".": 0}.get(part, 1)
        if depth < 0:
            break
        if links and position + 1 < len(parts) and os.path.normpath("/".join(parts[: position + 1])) in links:
            raise CorpusError(f"{archive.name}: {name!r} goes through a link; the archive is refused")
    if depth < 0 or name.startswith("/") or link.startswith("/") or "\\" in name or "\0" in name:
        raise CorpusError(f"{archive.name}: {name!r} leads out of the folder; the archive is refused")


def _check_size(archive: Path, size: int, members: int) -> None:
    if size > MAX_UNPACKED_BYTES:
        raise CorpusError(
            f"{archive.name}: expected at most {MAX_UNPACKED_BYTES >> 20} MiB unpacked, got {size >> 20} or more; the "
            "archive is refused"
        )
    if members > MAX_MEMBERS:
        raise CorpusError(f"{archive.name}: expected at most {MAX_MEMBERS} entries, got more; the archive is refused")
