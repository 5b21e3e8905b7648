"""The inputs of a link step by content: objects, archives with members, libraries of the build, and scripts.

The shim loads this file by path during a build, so it imports only the standard library. `links` converts its
results to `links.json`.
"""

from __future__ import annotations

import hashlib
import os
from itertools import product

from mlgo_clang.archives import ARCHIVE, THIN_ARCHIVE, archive_members
from mlgo_clang.driver_commands import named_output

# Importing pathlib and typing would take longer than this file needs for most links.
# ruff: noqa: PTH105, PTH110, PTH113, PTH118, PTH123
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_OPTION_WITH_VALUE = frozenset(
    """
    -L -I -D -U -F -B -x -u -e -h -z -target -MF -MT -MQ -MJ -isystem -idirafter -iquote -include -imacros -arch
    -soname --soname -rpath --rpath -rpath-link --rpath-link -Map --Map -dynamic-linker --dynamic-linker -m -o --output
    --undefined --entry --defsym --dependency-file --out-implib --plugin-opt -plugin-opt --wrap -y --param
    """.split()  # noqa: SIM905 - a word list
)
_SOURCES = (".c", ".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CPP", ".i", ".ii")
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_ELF, _RELOCATABLE, _SHARED = b"\x7fELF", 1, 3


def describe_link(arguments: Sequence[str], folder: str, root: str, store: str) -> dict[str, Any]:
    """Return the inputs of a successful link, and copy those that no recorded compile or link wrote.

    Shared libraries outside of the `root` of the build belong to the machine. `store` is the folder of the recording,
    with `known` and `files`: empty files and copies, named by digests. The result has `folder`, `arguments`, `output`
    (`position` of the argument, `named` part of it, `path`) and `inputs` in order, with the same keys, a `kind` as in
    `LinkInput`, and a `sha256` or `members`.
    """
    position, name = named_output(arguments) or (None, "a.out")
    output = {"position": position, "named": name, "path": os.path.normpath(os.path.join(folder, name))}
    inputs = []
    for position, named, path in _files(arguments, folder):
        kind = file_kind(path, is_word=arguments[position] == named)
        if kind is None or (kind == "shared" and not path.startswith(f"{root}/")) or path == output["path"]:
            continue
        entry: dict[str, Any] = {"position": position, "named": named, "path": path, "kind": kind}
        if kind == "archive":
            entry["members"] = [{"name": name, "sha256": _keep(store, data)} for name, data in archive_members(path)]
        elif kind != "source":
            with open(path, "rb") as file:
                entry["sha256"] = _keep(store, file.read())
        inputs.append(entry)
    return {"folder": folder, "arguments": list(arguments), "output": output, "inputs": inputs}


def _keep(store: str, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    copy = os.path.join(store, "files", digest)
    if not os.path.exists(os.path.join(store, "known", digest)) and not os.path.exists(copy):
        scratch = f"{copy}.{os.getpid()}"
        with open(scratch, "wb") as file:
            file.write(data)
        os.replace(scratch, copy)
    return digest


def _files(arguments: Sequence[str], folder: str) -> Iterator[tuple[int, str, str]]:
    """Yield position of the argument, part that names the file, and path of each input file."""
    following = [*arguments[1:], ""]
    # The last word has none after it.
    folders = [word[2:] or value for word, value in zip(arguments, following) if word.startswith("-L")]  # noqa: B905
    skip_value = False
    static = "-static" in arguments
    for position, word in enumerate(arguments):
        if word == "-Xlinker":
            continue
        to_linker = word.split(",")[1:] if word.startswith("-Wl,") else [word]
        for part in to_linker:
            if skip_value:
                skip_value = False
            elif part in _OPTION_WITH_VALUE:
                skip_value = True
            elif part in ("-Bstatic", "-dn", "-non_shared", "-Bdynamic", "-dy", "-call_shared"):
                static = part in ("-Bstatic", "-dn", "-non_shared")
            elif part.startswith("-l") and len(part) > 2:
                name = part[2:]
                names = [f"lib{name}.a"] if static else [f"lib{name}.so", f"lib{name}.a"]
                candidates = [name[1:]] if name.startswith(":") else names
                paths = (os.path.normpath(os.path.join(folder, *pair)) for pair in product(folders, candidates))
                library = next(filter(os.path.isfile, paths), None)
                if library is not None:
                    yield position, part, library
            else:
                option, equals, value = part.partition("=") if part.startswith("-") else ("", "", part)
                path = os.path.normpath(os.path.join(folder, value))
                if value and (not option or equals) and option not in _OPTION_WITH_VALUE and os.path.isfile(path):
                    yield position, value, path


def file_kind(path: str, *, is_word: bool) -> str | None:
    """Return the kind of an input file; None for a file that is not linked."""
    with open(path, "rb") as file:
        beginning = file.read(20)
    if beginning.startswith(_ELF) and len(beginning) >= 18:
        kind = int.from_bytes(beginning[16:18], "big" if beginning[5] == 2 else "little")
        return {_RELOCATABLE: "object", _SHARED: "shared"}.get(kind)
    if beginning.startswith(_BITCODE):
        return "object"
    if beginning.startswith((ARCHIVE, THIN_ARCHIVE)):
        return "archive"
    if is_word and path.endswith(_SOURCES):
        return "source"
    return "file"
