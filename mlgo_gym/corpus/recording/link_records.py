"""Records of links, with copies of the files that no recorded command wrote; `links` converts them to `links.json`.

A shim imports this file as it does `shim_records`.
"""

from __future__ import annotations

import hashlib
import os
from itertools import product

from mlgo_clang.archives import ARCHIVE, THIN_ARCHIVE, archive_members
from mlgo_clang.command_lines import named_output
from mlgo_clang.invocation import named_stream

from .shim_records import OPTION_WITH_VALUE, is_probe_of, lto_of, note_file, write_record

# ruff: noqa: PTH105, PTH110, PTH113, PTH118, PTH120, PTH123 - as in `shim_records`
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_SOURCES = (".c", ".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CPP", ".i", ".ii")
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_ELF, _RELOCATABLE, _SHARED = b"\x7fELF", 1, 3


def record_link(settings: dict[str, Any], arguments: Sequence[str], folder: str, mode: str) -> None:
    """Add a folder with `link.json` to `settings["records"]` for a link that wrote its output.

    Inputs that no recorded compile or link wrote are copied. Shared libraries outside of the root of the build belong
    to the machine. `mode` is the language of the driver, `c` or `c++`. The record has `folder`, `arguments`, `output`
    (`position` of the argument, `named` part of it, `path`) and `inputs` in order, with the same keys, a `kind` as in
    `LinkInput`, and a `sha256` or `members`.
    """
    position, name = named_output(arguments) or (None, "a.out")
    path = os.path.normpath(os.path.join(folder, name))
    digest = note_file(settings, path)
    if digest is None or is_probe_of(settings, path, path, folder):
        return
    output = {"position": position, "named": name, "path": path, "sha256": digest}
    store = os.path.dirname(settings["records"])
    inputs = []
    for position, named, path in _files(arguments, folder):
        kind = file_kind(path, is_word=arguments[position] == named)
        is_of_machine = kind == "shared" and not path.startswith(f"{settings['root']}/")
        if kind is None or is_of_machine or path == output["path"]:
            continue
        entry: dict[str, Any] = {"position": position, "named": named, "path": path, "kind": kind}
        if kind == "archive":
            entry["members"] = [{"name": name, "sha256": _keep(store, data)} for name, data in archive_members(path)]
        elif kind != "source":
            with open(path, "rb") as file:
                entry["sha256"] = _keep(store, file.read())
        inputs.append(entry)
    if named_stream([word for word in arguments if word != name]):
        write_record(settings, "skipped.json", {"source": path, "reason": "a link with an input that is read once"})
    elif inputs:
        content = {"folder": folder, "arguments": list(arguments), "output": output, "inputs": inputs, "driver": mode}
        write_record(settings, "link.json", {**content, "lto": lto_of(arguments)})


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
    folders = [word[2:] or value for word, value in zip(arguments, following, strict=True) if word.startswith("-L")]
    skip_value = False
    static = "-static" in arguments
    for position, word in enumerate(arguments):
        if word == "-Xlinker":
            continue
        to_linker = word.split(",")[1:] if word.startswith("-Wl,") else [word]
        for part in to_linker:
            if skip_value:
                skip_value = False
            elif part in OPTION_WITH_VALUE:
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
                if value and (not option or equals) and option not in OPTION_WITH_VALUE and os.path.isfile(path):
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
