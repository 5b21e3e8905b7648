"""Untrusted archives, unpacked safely, with the same checks on every version of Python."""

from __future__ import annotations

import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from typing_extensions import Self

from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.cache import UNWRITABLE
from mlgo_gym.storage.temporary_folders import complete_folder

MAX_UNPACKED_BYTES = 4 << 30
MAX_MEMBERS = 500_000
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)

MAX_HEADER_BYTES = 1 << 20
"""Maximum size of one entry's header in bytes; headers are read into memory."""


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

    Raises:
        CorpusError: the file is damaged or no archive, an entry is a device or leads out of the folder, the archive is
            too large, or the folder cannot be written. Nothing is kept.
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
