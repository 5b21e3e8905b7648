"""Members of System V archives (ar(5)), also of thin ones."""

from __future__ import annotations

import os

from mlgo_clang.files import read_untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHIVE, THIN_ARCHIVE = b"!<arch>\n", b"!<thin>\n"
"""First bytes of an archive."""


def archive_members(path: str | os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each member of an archive, without its tables; the rest of a damaged one is lost.

    Headers have 60 bytes, long names are in the member `//`, and a thin archive names the files of its members.
    """
    data = read_untrusted(path)
    is_thin = data.startswith(THIN_ARCHIVE)
    names = b""
    position = len(ARCHIVE)
    while position + 60 <= len(data) and (digits := data[position + 48 : position + 58].strip()).isdigit():
        name = data[position : position + 16].rstrip(b" ")
        size = int(digits)
        start = position + 60
        is_table = name in (b"/", b"/SYM64/", b"//") or name.startswith(b"__.SYMDEF")
        inside = not is_thin or is_table
        content = data[start : start + size] if inside else b""
        position = start + (size + size % 2 if inside else 0)
        if name == b"//":
            names = content
        if is_table:
            continue
        if name[:1] == b"/" and name[1:].isdigit():
            name = names[int(name[1:]) :].split(b"\n", 1)[0]
        elif name.startswith(b"#1/") and name[3:].isdigit():  # a long name in BSD's format
            length = int(name[3:])
            name, content = content[:length].rstrip(b"\0"), content[length:]
        text = os.fsdecode(name.removesuffix(b"/"))
        if is_thin:
            content = read_untrusted(os.path.join(os.path.dirname(path), text))
        yield os.path.basename(text), content
