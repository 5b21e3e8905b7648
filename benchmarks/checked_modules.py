"""Checks of many modules that can be interrupted: one line of JSON per module, appended to a file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measuring import command_line
from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.json_lines import JsonLines, read_json_lines

_KEY = ("environment", "corpus", "module", "clang")
_MAX_ERROR = 300


def checking_parser(docstring: str | None, output: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all checking programs share.

    Args:
        docstring: the program's docstring.
        output: default of `--output`.
    """
    parser = command_line(docstring)
    parser.add_argument("--corpus", action="append", default=[], help="a corpus; repeatable")
    parser.add_argument("--environment", action="append", default=[], help="id of an environment; repeatable")
    parser.add_argument("--clang", help="the compiler (default: the bundled one)")
    parser.add_argument("--limit", type=int, help="number of modules per corpus (default: all)")
    parser.add_argument("--output", type=Path, default=Path(output), help=f"file of JSON lines (default: {output})")
    return parser


class CheckedModules(JsonLines):
    """Appends the result of each module to a file of JSON lines.

    Args:
        path: the file; created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._done = {tuple(entry[name] for name in _KEY) for _, entry in read_json_lines(path)}
        super().__init__(path)

    def check(self, environment: str, corpus: str, module: str, clang: str, find: Callable[[], dict[str, Any]]) -> None:
        """Call `find` and write its result, or its error, unless the file has this module."""
        key = (environment, corpus, module, clang)
        if key in self._done:
            return
        try:
            entry = find()
        except MlgoError as error:
            entry = {"error": str(error)[:_MAX_ERROR]}
        self.append({**dict(zip(_KEY, key, strict=True)), **entry})
        print(*key, entry, flush=True)
