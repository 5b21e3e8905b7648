"""The link steps of a recorded build: `links.json` beside the description of its corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_text import check_values, parse_json

LINKS_FILE = "links.json"
"""What the link steps of a build were given, in a corpus."""

LINKS_FOLDER = "links"
"""Where a corpus keeps what was linked and is neither one of its modules nor made by one of its links."""

LTO = ("thin", "full")
"""The kinds of link time optimisation."""


@dataclass(frozen=True, slots=True)
class LinkPart:
    """An object, as it stands on its own in a link, or in an archive.

    Attributes:
        name: its name in the archive, or the path that the build gave.
        module: the module of the corpus that it was compiled from; None where it is none.
        file: where the corpus keeps it, relative to its folder; None where it is a module.
        sha256: the digest of the build's own object; None where a link compiled its source.
    """

    name: str
    module: str | None
    file: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class LinkInput:
    """A file that an argument of a link names.

    Attributes:
        position: which argument.
        named: the part of the argument that names it: all of it, or what comes after `-Wl,--version-script=`.
        kind: `object`, `archive`, `shared` (a library that the build made), `source` or `file` (a linker script).
        parts: one for an object, a source or a file; for an archive its members in order.
        link: the output of the link that made it, where it is a shared library of the same build; else None.
    """

    position: int
    named: str
    kind: str
    parts: tuple[LinkPart, ...]
    link: str | None = None

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules in it."""
        return tuple(part.module for part in self.parts if part.module is not None)


@dataclass(frozen=True, slots=True)
class Link:
    """One link step that went well.

    Attributes:
        output: what it made, relative to the root of the build.
        output_sha256: the digest of that.
        driver: `c` or `c++`: as which the compiler's driver linked.
        folder: where it ran, relative to the root.
        arguments: what the driver was given, response files expanded.
        output_position: which argument names the output; None where it is `a.out`.
        output_named: the part of that argument.
        lto: `thin` or `full` where the build optimised at this link, else None.
        inputs: the files that arguments name, in their order.
        native: whether the bundled clang linked with the machine's own libraries and linker.
    """

    output: str
    output_sha256: str
    driver: str
    folder: str
    arguments: tuple[str, ...]
    output_position: int | None
    output_named: str
    lto: str | None
    inputs: tuple[LinkInput, ...]
    native: bool = False

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of the corpus that are linked, each once, in the order of the link."""
        return tuple(dict.fromkeys(name for each in self.inputs for name in each.modules))


def read_links(folder: Path) -> tuple[Link, ...]:
    """Return the link steps of a recorded corpus, in the order in which they ended; none where none were recorded.

    Args:
        folder: the corpus.

    Raises:
        CorpusError: the file is not what a recording writes, or a file in it lies outside of the corpus.
    """
    path = folder / LINKS_FILE
    try:
        content = parse_json(read_foreign(path))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path}: a JSON object was wanted: {error}; record the build again") from error
    try:
        links = tuple(_link(entry, native=bool(content.get("native"))) for entry in content["links"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorpusError(f"{path}: this is no list of link steps: {error!r}; record the build again") from error
    for link in links:
        for part in (part for each in link.inputs for part in each.parts):
            _check_inside(path, part)
    return links


def _link(entry: dict[str, Any], *, native: bool) -> Link:
    inputs = tuple(
        LinkInput(
            each["position"],
            each["named"],
            each["kind"],
            tuple(
                LinkPart(part["name"], part.get("module"), part.get("file"), part.get("sha256"))
                for part in each["parts"]
            ),
            each.get("link"),
        )
        for each in entry["inputs"]
    )
    output = entry["output"]
    arguments = _words(entry["arguments"])
    positions = [each.position for each in inputs] + [output["position"] or 0]
    if not all(isinstance(position, int) and 0 <= position < max(len(arguments), 1) for position in positions):
        raise TypeError("a position has to be that of an argument")
    link = Link(
        output["path"],
        output["sha256"],
        entry["driver"],
        entry["folder"],
        arguments,
        output["position"],
        output["named"],
        entry["lto"],
        inputs,
        native,
    )
    for record in (link, *inputs, *(part for each in inputs for part in each.parts)):
        check_values(record)
    return link


def _words(value: Sequence[Any]) -> tuple[str, ...]:
    if not all(isinstance(word, str) for word in value):
        raise TypeError("arguments have to be texts")
    return tuple(value)


def _check_inside(path: Path, part: LinkPart) -> None:
    for name in (part.module, part.file):
        if name is not None and (PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts):
            raise CorpusError(f"{path}: {name!r} leads out of the corpus folder; correct or remove it")
