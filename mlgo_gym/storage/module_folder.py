"""A folder of results by module: a header, a file for each finished module, and a line about each in `modules.jsonl`.

Files are only ever added. A module counts once its line is there; what a kill left behind is written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.header import check_same_kind
from mlgo_gym.storage.json_lines import JsonLines, read_json_lines
from mlgo_gym.storage.json_text import parse_json

_LINES, _PARTS = "modules.jsonl", "parts"


@dataclass(frozen=True, slots=True)
class FolderKind:
    """What such folders hold, and how they are read.

    Attributes:
        results: what the results are called, in the plural.
        header: the name of the file of what they depend on.
        suffix: what the names of their files end in.
        format: the number of the format, which is in the header.
        command: what makes such a folder.
    """

    results: str
    header: str
    suffix: str
    format: int
    command: str

    def read_header(self, folder: Path) -> dict[str, Any]:
        """Return what the results of a folder depend on.

        Raises:
            MlgoError: it is no such folder.
        """
        try:
            header = parse_json(read_foreign(folder / self.header))
        except (OSError, ValueError) as error:
            raise MlgoError(
                f"{folder} was to be a folder of {self.results}, and is none: {error}; make one: {self.command}"
            ) from error
        if not isinstance(header, dict) or header.get("format") != self.format:
            raise MlgoError(
                f"{folder} was to have {self.results} of format {self.format}; make them again: {self.command}"
            )
        return header

    def lines(self, folder: Path) -> Iterator[dict[str, Any]]:
        """Yield the line about each finished module of a folder.

        Raises:
            MlgoError: a line is not JSON.
        """
        for _, line in read_json_lines(folder / _LINES):
            yield line

    def part(self, folder: Path, module: str) -> Path:
        """Return the path of the file of a module."""
        digest = hashlib.sha256(module.encode(errors="surrogateescape")).hexdigest()[:24]
        return folder / _PARTS / f"{digest}{self.suffix}"


class ModuleFolder:
    """Adds results to a folder.

    Args:
        kind: what they are.
        folder: the folder; made if need be.
        header: what they depend on, JSON-able.

    Raises:
        MlgoError: the folder has results that depend on something else, or none that can be read, or another process
            adds to it now.
    """

    def __init__(self, kind: FolderKind, folder: Path, header: Mapping[str, Any]) -> None:
        self._kind, self._folder = kind, folder
        self._lines = JsonLines(folder / _LINES)
        try:
            written = json.dumps({"format": kind.format, **header}, indent=1) + "\n"
            if self._lines.is_empty:
                write_atomically(folder / kind.header, written.encode())
            check_same_kind(folder, kind.results, kind.read_header(folder), json.loads(written))
        except BaseException:
            self._lines.close()
            raise

    @property
    def done(self) -> dict[str, dict[str, Any]]:
        """The line about each module that is finished."""
        return {line["module"]: line for line in self._kind.lines(self._folder)}

    def part(self, module: str) -> Path:
        """Return the path of the file of a module."""
        return self._kind.part(self._folder, module)

    def add(self, line: Mapping[str, Any], part: bytes | None = None) -> None:
        """Keep what was found of a module.

        Args:
            line: what is to be known of it, JSON-able; its name is `module`.
            part: its file; None where it has none.
        """
        if part is not None:
            write_atomically(self.part(line["module"]), part)
        self._lines.append(dict(line))

    def close(self) -> None:
        """Let others write. Idempotent."""
        self._lines.close()
