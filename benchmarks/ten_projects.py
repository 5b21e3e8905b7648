"""Ten programs that everybody knows, from benchmarks/sources/programs/projects.toml, and the inputs of their runs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import SOURCES

FLAGS = "-w -DNDEBUG -ffunction-sections -fdata-sections"
LINK = "-Wl,--gc-sections"

LONGEST_INPUT = 200_000


@dataclass(frozen=True)
class Project:
    """A program with its build.

    Attributes:
        name: Name of the program.
        archive: File name of its sources.
        sha256: Digest of that file in hexadecimal.
        get: Command that downloads the file.
        build: Builds the program, after `clean`.
        program: The linked program, a path in the build folder.
        runs: Arguments of each run of the workload.
        trained: Name of the dataset with code of the same project, on which bundled policies were trained; or empty.
        configure: Prepares the build with plain clang, once.
        clean: Removes the objects and the program.
        tests: Runs the project's own tests; empty if it has none here.
        files: Files of benchmarks/sources/programs that each run finds in its folder.
        input_file: File of the sources that is the file `input` of each run.
    """

    name: str
    archive: str
    sha256: str
    get: str
    build: str
    program: str
    runs: tuple[str, ...]
    trained: str = ""
    configure: str = "true"
    clean: str = "rm -rf o"
    tests: str = ""
    files: tuple[str, ...] = ()
    input_file: str = ""

    def input(self, source: Path) -> str:
        """Return the content of the file `input` of the runs; empty without one."""
        if self.input_file:
            return (source / self.input_file).read_text(encoding="utf-8", errors="replace")[:LONGEST_INPUT]
        return _yaml() if self.name == "yaml-cpp" else _curl(source) if self.name == "curl" else ""


def _yaml() -> str:
    """Return a document of YAML with scalars, flows, blocks, anchors and quoted text."""
    parts = []
    for i in range(400):
        parts += [
            f"entry{i}: &e{i}",
            f'  name: "text {i} \\t \\u00e9"',
            f"  list: [1, 2.5, {i}, 'single ''{i}''', plain text]",
            f"  map: {{a: {i}, b: [x, y], c: *e{max(i - 1, 0)}}}" if i else "  map: {a: 0}",
            "  block: |\n    first line\n    second line",
            "  folded: >\n    some\n    words\n",
        ]
    return "\n".join(parts) + "\n"


def _curl(source: Path) -> str:
    """Return a configuration of curl that reads a file by many addresses."""
    url = f'url = "file://{source}/include/../include/./curl/stdcheaders.h"'
    lines = [f'{url}\nheader = "X-Number: {i}"\nuser-agent = "agent/{i}"' for i in range(300)]
    return "\n".join(["silent", *lines]) + "\n"


def read_projects() -> list[Project]:
    """Return the projects; needs Python 3.11."""
    tables = importlib.import_module("tomllib").loads((SOURCES / "programs" / "projects.toml").read_text())
    projects = []
    for name, table in tables.items():
        fields: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in table.items()}
        projects.append(Project(name=name, **fields))
    return projects
