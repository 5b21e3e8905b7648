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

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class FolderKind:
    """A kind of results.

    Attributes:
        results: Plural noun for the results. The header, with everything that they depend on, is `RESULTS.json`.
        suffix: Suffix of the modules' files.
        command: Command that makes such a folder, for error messages.
    """

    results: str
    suffix: str
    command: str

    def header_file(self, folder: Path) -> Path:
        """Return the path of the header."""
        return folder / f"{self.results}.json"

    def read_header(self, folder: Path) -> dict[str, Any]:
        """Return the header of a folder; raise `MlgoError` if it has none of this format."""
        try:
            header = parse_json(read_untrusted(self.header_file(folder)))
            if not isinstance(header, dict) or header.get("format") != _FORMAT:
                raise ValueError(f"a header of another format than {_FORMAT}")
        except (OSError, ValueError) as error:
            raise MlgoError(
                f"expected a folder of {self.results}, got {str(folder)!r}: {error}; make one with `{self.command}`"
            ) from error
        return header

    def lines(self, folder: Path) -> Iterator[dict[str, Any]]:
        """Yield the line of each finished module; raise `MlgoError` if one is not JSON."""
        for _, line in read_json_lines(folder / "modules.jsonl"):
            yield line

    def part(self, folder: Path, module: str) -> Path:
        """Return the path of a module's file."""
        digest = hashlib.sha256(module.encode(errors="surrogateescape")).hexdigest()[:24]
        return folder / "parts" / f"{digest}{self.suffix}"


class ModuleFolder:
    """Adds results to a folder, which is created if necessary; the header is everything that the results depend on.

    Raises:
        MlgoError: The folder has another header or a damaged one, or another process writes to it.
    """

    def __init__(self, kind: FolderKind, folder: Path, header: Mapping[str, Any]) -> None:
        self._kind, self._folder = kind, folder
        self._lines = JsonLines(folder / "modules.jsonl")
        try:
            text = json.dumps({"format": _FORMAT, **header}, indent=1) + "\n"
            if self._lines.is_empty:
                write_atomically(kind.header_file(folder), text.encode())
            old, new = kind.read_header(folder), json.loads(text)
            if names := [name for name in {**old, **new} if old.get(name) != new.get(name)]:
                before, now = ({name: values.get(name) for name in names} for values in (old, new))
                raise MlgoError(
                    f"expected {kind.results} of {now} in {str(folder)!r}, got those of {before}; choose another output"
                )
        except BaseException:
            self._lines.close()
            raise

    @property
    def done(self) -> dict[str, dict[str, Any]]:
        """The line of each finished module, by module."""
        return {line["module"]: line for line in self._kind.lines(self._folder)}

    def add(self, line: Mapping[str, Any], part: bytes | None = None) -> None:
        """Add the line of a module, JSON-serializable with its name as `module`, and the contents of its file."""
        if part is not None:
            write_atomically(self._kind.part(self._folder, line["module"]), part)
        self._lines.append(dict(line))

    def close(self) -> None:
        """Release the folder for other processes. Idempotent."""
        self._lines.close()
