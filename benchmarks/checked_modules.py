"""What was found of each module, one line of JSON for each; a run that was cut off goes on where it was."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from typing_extensions import Self

from mlgo_gym.errors import MlgoError

_KEY = ("environment", "corpus", "module", "clang")
_LONGEST = 300


def checking_parser(description: str | None, output: str) -> argparse.ArgumentParser:
    """Return a parser of the options that every program of checks has.

    Args:
        description: the program's docstring.
        output: the file of lines, by default.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append", default=[])
    parser.add_argument("--environment", action="append", default=[])
    parser.add_argument("--clang")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--output", type=Path, default=Path(output))
    return parser


class CheckedModules:
    """The file of lines, open to be added to.

    Args:
        path: the file; made if need be.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        written = map(json.loads, path.read_text().splitlines() if path.exists() else ())
        self._done = {tuple(entry[name] for name in _KEY) for entry in written}
        self._file: IO[str] = path.open("a")

    def check(self, environment: str, corpus: str, module: str, clang: str, find: Callable[[], dict[str, Any]]) -> None:
        """Find something of a module, and write it, unless that was done before; an error is what was found, too."""
        key = (environment, corpus, module, clang)
        if key in self._done:
            return
        try:
            entry = find()
        except MlgoError as error:
            entry = {"error": str(error)[:_LONGEST]}
        self._file.write(json.dumps({**dict(zip(_KEY, key, strict=True)), **entry}) + "\n")
        self._file.flush()
        print(*key, entry, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
