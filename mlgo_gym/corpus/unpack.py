"""Archives from strangers, unpacked where they cannot escape: the same check on every version of Python."""

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
from mlgo_gym.storage.leftovers import whole_folder

LARGEST_ARCHIVE = 4 << 30
"""The most bytes that an archive may unpack to."""

MOST_MEMBERS = 500_000
"""The most files that an archive may have."""

_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)

LONGEST_HEADER = 1 << 20
"""The most bytes of a name, or of whatever else an archive says of one file: all of them are held in memory."""


class _Member(tarfile.TarInfo):
    """An entry of a tar archive, refused before a header of its own is read that would fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _HEADERS and member.size > LONGEST_HEADER:
            raise CorpusError(
                f"an entry says {member.size} bytes of a file's name and times, and {LONGEST_HEADER} are allowed; this "
                "archive is refused"
            )
        return member


_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a new folder, and return its only top folder, or else the folder itself.

    Files, folders and links that stay inside are unpacked, without owners and special permissions; times are not kept.

    Raises:
        CorpusError: it is no archive or not whole, a member leads out of the folder or is a device, it is too large,
            or cannot be written there. Nothing is left then.
    """
    try:
        with whole_folder(folder) as staging:
            if zipfile.is_zipfile(archive):
                _unpack_zip(archive, staging)
            else:
                _unpack_tar(archive, staging)
    except (OSError, ValueError, RuntimeError, EOFError, *_DAMAGED) as error:
        if isinstance(error, OSError) and error.errno in UNWRITABLE:
            raise CorpusError(
                f"{archive.name} was to be unpacked to {folder}: {error.strerror}; make room, or name another folder, "
                "as by $MLGO_CACHE"
            ) from error
        raise CorpusError(f"{archive.name}: a whole archive was wanted: {error}; remove it and fetch again") from error
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
        links = {_normal(member.name) for member in members if member.issym()}
        for member in members:
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                raise CorpusError(f"{archive.name}: {member.name!r} is a device or a pipe; this archive is refused")
            _check_inside(archive, member.name, links)
            if member.issym():
                _check_inside(archive, f"{PurePosixPath(member.name).parent}/{member.linkname}", links, member.linkname)
            elif member.islnk():
                _check_inside(archive, member.linkname, links)
                if _normal(member.linkname) in links:
                    raise CorpusError(f"{archive.name}: {member.name!r} links to a link; this archive is refused")
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
                raise CorpusError(f"{archive.name}: {member.filename!r} is a link in a zip; this archive is refused")
        content.extractall(folder)  # noqa: S202 - every member was checked above


def _check_inside(archive: Path, name: str, links: Collection[str], link: str = "") -> None:
    """Refuse a path that leads out of the folder, also one that would by way of a link of the archive.

    Args:
        archive: for the message.
        name: the path.
        links: the names of all symbolic links in the archive: through one, `..` means another folder than it seems to.
        link: the target as the link has it, where the path is one.
    """
    depth = 0
    parts = PurePosixPath(name).parts
    for position, part in enumerate(parts):
        depth += {"..": -1, ".": 0}.get(part, 1)
        if depth < 0:
            break
        if links and position + 1 < len(parts) and _normal("/".join(parts[: position + 1])) in links:
            raise CorpusError(f"{archive.name}: {name!r} goes through a link; this archive is refused")
    if depth < 0 or name.startswith("/") or link.startswith("/") or "\\" in name or "\0" in name:
        raise CorpusError(f"{archive.name}: {name!r} leads out of the folder; this archive is refused")


def _normal(name: str) -> str:
    return os.path.normpath(name)


def _check_size(archive: Path, size: int, members: int) -> None:
    if size > LARGEST_ARCHIVE:
        raise CorpusError(
            f"{archive.name}: it would unpack to {size >> 20} MiB or more; {LARGEST_ARCHIVE >> 20} are allowed; this "
            "archive is refused"
        )
    if members > MOST_MEMBERS:
        raise CorpusError(f"{archive.name}: it has more than {MOST_MEMBERS} files; this archive is refused")
