"""Builds of whole programs: sources by digest, variants of a build, outputs that must be equal, and one table."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import math
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.measuring import RESULTS, SOURCES, Table, command_line, read_json, write_json
from mlgo_gym.episode.metrics.counters import count_program, find_counter
from mlgo_gym.episode.metrics.programs import Program, modules_of
from mlgo_gym.evaluation.linking import PolicyObjects
from mlgo_gym.evaluation.runner import PLAIN, EvaluatedPolicies, RunnerSettings

FIRST = "Oz"
"""The variant that the others are compared with; it gives the expected output."""


@dataclass(frozen=True)
class Variant:
    """How programs are compiled.

    Attributes:
        level: Optimisation level.
        policy: Policy of the wrapper; empty for plain clang.
        plugin: Policy of a pass plugin; empty for none.
        facts: Whether the policy gets the link facts of the plain build of this level.
    """

    level: str
    policy: str = ""
    plugin: str = ""
    facts: bool = False


@dataclass(frozen=True)
class Sources:
    """Sources of a program in a file of benchmarks/sources.

    Attributes:
        name: Name of the program.
        archive: File name of its sources.
        sha256: Digest of that file in hexadecimal.
        get: Command that downloads the file to the current folder; `{python}` is this interpreter.
    """

    name: str
    archive: str
    sha256: str
    get: str

    def unpack(self, archives: Path, folder: Path) -> None:
        """Unpack the sources to an empty folder; download the archive if the folder of archives lacks it.

        Raises:
            SystemExit: the archive has another digest.
        """
        archives.mkdir(parents=True, exist_ok=True)
        path = archives / self.archive
        if not path.exists():
            subprocess.run(shlex.split(self.get.format(python=sys.executable)), cwd=archives, check=True)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != self.sha256:
            raise SystemExit(f"expected {path.name} with the SHA-256 {self.sha256}, got {digest}; remove the file")
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.parent.mkdir(parents=True)
        with tarfile.open(path) as file:
            file.extractall(folder.with_name("unpacked"), filter="tar")
        (unpacked,) = folder.with_name("unpacked").iterdir()
        unpacked.rename(folder)


AnySources = TypeVar("AnySources", bound=Sources)


def read_sources(path: str, kind: type[AnySources]) -> dict[str, AnySources]:
    """Return the programs of a file of benchmarks/sources by name; needs Python 3.11."""
    tables: dict[str, dict[str, Any]] = importlib.import_module("tomllib").loads((SOURCES / path).read_text())
    programs = {}
    for name, table in tables.items():
        fields: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in table.items()}
        programs[name] = kind(name=name, **fields)
    return programs


def count_run(program: Path, arguments: str, folder: Path) -> tuple[int, str]:
    """Run a program in a folder; return its executed instructions, and the digest of its output."""
    counted = count_program([str(program), *shlex.split(arguments)], folder, find_counter())
    return counted.instructions or 0, hashlib.sha256(counted.output).hexdigest()


class PolicyBuilds:
    """Objects of the programs of a corpus, by plain clang and by policies of inlining.

    Args:
        corpus: Name of the corpus.
        policies: The policies.
        resources: Closes the environment and removes the folders.
    """

    def __init__(self, corpus: str, policies: Sequence[str], resources: ExitStack) -> None:
        settings = RunnerSettings("mlgo/Inline-v0", corpus, policies={name: name for name in policies})
        evaluated = resources.enter_context(closing(EvaluatedPolicies(settings)))
        self.env = evaluated.env
        assert self.env.corpus.path is not None
        self.path = self.env.corpus.path
        self.objects = {
            name: PolicyObjects(evaluated, name, Path(resources.enter_context(tempfile.TemporaryDirectory())))
            for name in (PLAIN, *policies)
        }

    def files(self, program: Program, policy: str) -> dict[str, Path]:
        """Return the objects of a program by module, which are compiled if they are missing."""
        return {module: self.objects[policy].file(module) for module in modules_of(program, self.path)}


Measure = Callable[[str], tuple[dict[str, Any], list[str]]]
"""Builds a variant; returns sizes, instructions and CPU seconds by name, and the digest of each output."""


def options_of(
    docstring: str | None, programs: Sequence[str], variants: Sequence[str], result: str
) -> argparse.ArgumentParser:
    """Return the command line of a benchmark of builds."""
    parser = command_line(docstring)
    parser.add_argument("--work", type=Path, required=True, help="folder of the sources and builds")
    parser.add_argument("--only", nargs="+", choices=programs, default=programs, help="programs (default: all)")
    parser.add_argument("--variants", nargs="+", choices=variants, default=variants, help="builds (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="concurrent compiles of a build (default: 2)")
    parser.add_argument("--again", action="store_true", help="measure again what the results have")
    parser.add_argument("--output", type=Path, default=RESULTS / result, help="JSON file of the results")
    return parser


def measure_missing(
    start: Callable[[str], Measure], facts: Mapping[str, Mapping[str, Any]], keys: Sequence[str], options: Any
) -> None:
    """Measure the variants that the results lack, print them against the first one, and write them.

    Args:
        start: Returns the function that builds and measures a program.
        facts: The facts that the results of each program start with.
        keys: Keys of the printed figures.
        options: The command line of `options_of()`.

    Raises:
        SystemExit: an output differs from that of the first variant.
    """
    results = read_json(options.output, {})
    table = Table({"program": "<10", "variant": "<15", **dict.fromkeys(keys, ">+12.2%")})
    for name in options.only:
        row = results.setdefault(name, {**facts[name], "variants": {}})
        builds = row["variants"]
        missing = [variant for variant in options.variants if options.again or variant not in builds]
        measure = start(name) if missing else None
        for variant in missing:
            assert measure is not None
            builds[variant], digests = measure(variant)
            expected = row.setdefault("outputs", digests)
            if variant == FIRST:
                row["outputs"] = digests
            elif digests != expected:
                raise SystemExit(f"{name}, {variant}: expected outputs {expected}, got {digests}")
            write_json(options.output, results)
        for variant, found in builds.items() if FIRST in builds else ():
            plain = builds[FIRST]
            table.row(name, variant, *(found[key] / plain[key] - 1 if plain.get(key) else math.nan for key in keys))
