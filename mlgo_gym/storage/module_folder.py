"""A folder of results by module: a header, a file per finished module, and a line per module in `modules.jsonl`.

Files are only added. A module is finished once its line is written; a kill before that repeats the module.
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
from mlgo_gym.storage.json_lines import JsonLines, read_json_lines
from mlgo_gym.storage.json_text import parse_json
from mlgo_gym.storage.untrusted_file import read_untrusted

_LINES, _PARTS = "modules.jsonl", "parts"


@dataclass(frozen=True, slots=True)
class FolderKind:
    """Format of a folder of results.

    Attributes:
        results: Plural noun for the results, for error messages.
        header: Name of the header file, with everything that the results depend on.
        suffix: Suffix of the modules' files.
        format: Number of the format, stored in the header.
        command: Command that makes such a folder, for error messages.
    """

    results: str
    header: str
    suffix: str
    format: int
    command: str

    def read_header(self, folder: Path) -> dict[str, Any]:
        """Return the header of a folder; raise `MlgoError` if it has none of this format."""
        try:
            header = parse_json(read_untrusted(folder / self.header))
        except (OSError, ValueError) as error:
            raise MlgoError(
                f"expected a folder of {self.results}, got {str(folder)!r}: {error}; make one with `{self.command}`"
            ) from error
        if not isinstance(header, dict) or header.get("format") != self.format:
            number = header.get("format") if isinstance(header, dict) else None
            raise MlgoError(
                f"expected {self.results} of format {self.format} in {str(folder)!r}, got {number!r}; reproduce them "
                f"with `{self.command}`"
            )
        return header

    def lines(self, folder: Path) -> Iterator[dict[str, Any]]:
        """Yield the line of each finished module; raise `MlgoError` if one is not JSON."""
        for _, line in read_json_lines(folder / _LINES):
            yield line

    def part(self, folder: Path, module: str) -> Path:
        """Return the path of a module's file."""
        digest = hashlib.sha256(module.encode(errors="surrogateescape")).hexdigest()[:24]
        return folder / _PARTS / f"{digest}{self.suffix}"


class ModuleFolder:
    """Adds results to a folder, which is created if necessary; the header is everything that the results depend on.

    Raises:
        MlgoError: The folder has another header or a damaged one, or another process writes to it.
    """

    def __init__(self, kind: FolderKind, folder: Path, header: Mapping[str, Any]) -> None:
        self._kind, self._folder = kind, folder
        self._lines = JsonLines(folder / _LINES)
        try:
            written = json.dumps({"format": kind.format, **header}, indent=1) + "\n"
            if self._lines.is_empty:
                write_atomically(folder / kind.header, written.encode())
            _check_header(folder, kind, json.loads(written))
        except BaseException:
            self._lines.close()
            raise

    @property
    def done(self) -> dict[str, dict[str, Any]]:
        """The line of each finished module, by module."""
        return {line["module"]: line for line in self._kind.lines(self._folder)}

    def part(self, module: str) -> Path:
        """Return the path of a module's file."""
        return self._kind.part(self._folder, module)

    def add(self, line: Mapping[str, Any], part: bytes | None = None) -> None:
        """Add the line of a module, JSON-serializable with its name as `module`, and the contents of its file."""
        if part is not None:
            write_atomically(self.part(line["module"]), part)
        self._lines.append(dict(line))

    def close(self) -> None:
        """Release the folder for other processes. Idempotent."""
        self._lines.close()


def _check_header(folder: Path, kind: FolderKind, expected: Mapping[str, Any]) -> None:
    written = kind.read_header(folder)
    if written != expected:
        names = [name for name in {**written, **expected} if written.get(name) != expected.get(name)]
        before, now = ({name: header.get(name) for name in names} for header in (written, expected))
        raise MlgoError(
            f"expected {kind.results} of {now} in {str(folder)!r}, got those of {before}; choose another output"
        )
