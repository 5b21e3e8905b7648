"""`programs.toml` of a corpus: its runnable programs, their runs and the digests of their output."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.datasets.dataset import PROGRAMS_FILE, REPORT_FILE
from mlgo_gym.corpus.folder import is_outside
from mlgo_gym.errors import CorpusError, CorpusWarning
from mlgo_gym.extras import library
from mlgo_gym.storage.cache import cache_directory
from mlgo_gym.storage.json_text import check_values
from mlgo_gym.storage.untrusted_file import read_untrusted

__all__ = ["PROGRAMS_FILE", "Program", "Run", "read_programs"]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LANGUAGES = ("c", "c++")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program.

    Attributes:
        sha256: hexadecimal digest of its expected standard output.
        arguments: command-line arguments.
        files: files of the corpus folder that are copied to its working folder.
    """

    sha256: str
    arguments: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A runnable program of a corpus.

    Attributes:
        name: name of the program.
        runs: its runs; their instructions are added.
        modules: names of the modules that are linked into it, in the order of the corpus.
        link: output of a recorded link step instead of `modules`, or None.
        language: `c` or `c++`, the standard library that `modules` are linked with.
        driver: C source in the corpus folder with its `main()`, compiled without a policy, or None.
        options: driver options for that source.
        held_out: whether no bundled policy was trained on its project.
    """

    name: str
    runs: tuple[Run, ...]
    modules: tuple[str, ...] = ()
    link: str | None = None
    language: str = "c"
    driver: str | None = None
    options: tuple[str, ...] = ()
    held_out: bool = False


def read_programs(corpus: Corpus, *, trust: bool = False) -> tuple[Program, ...]:
    """Return the programs of a corpus, sorted by name; a warning names those with a source that does not compile.

    Args:
        corpus: a corpus that was opened from a folder with `programs.toml`, or a part of one; programs keep all their
            modules.
        trust: whether to accept programs of a folder outside of the cache; they run on this machine.

    Raises:
        CorpusError: the corpus describes no programs, the file is malformed, or the folder is not trusted.
        MissingExtraError: on Python 3.10, tomli is not installed.
    """
    path = None if corpus.path is None else corpus.path / PROGRAMS_FILE
    if path is None or not path.is_file():
        raise CorpusError(
            f"expected a corpus with {PROGRAMS_FILE}, got {corpus.name!r}; use builtin or programs, or describe the "
            "programs of your own build"
        )
    if not trust and not path.resolve().is_relative_to(cache_directory().resolve()):
        raise CorpusError(
            f"expected programs of a trusted corpus, got {path}; if you know its author, pass --trust-flags, "
            "trust_flags=True"
        )
    toml = library("tomllib" if sys.version_info >= (3, 11) else "tomli", "Reading programs.toml", "run-time")
    try:
        entries = toml.loads(read_untrusted(path).decode())["programs"]
        failed = _failed_sources(path.with_name(REPORT_FILE))
        lacking = [name for name, entry in entries.items() if _matches(entry.get("modules", ()), failed)]
        if lacking:
            warnings.warn(
                f"{corpus.name}: expected all sources of {len(entries)} programs to compile, got failures in "
                f"{', '.join(lacking)}; these are excluded",
                CorpusWarning,
                stacklevel=2,
            )
        entries = {name: entry for name, entry in entries.items() if name not in lacking}
        return tuple(_program(name, entry, corpus) for name, entry in sorted(entries.items()))
    except (toml.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorpusError(f"{path}: expected [programs.NAME] tables with runs: {error!r}; correct it") from error


def _failed_sources(report: Path) -> list[str]:
    """Return the sources of a dataset that do not compile, for instance for another target; none without a report."""
    if not report.is_file():
        return []
    return [failure["source"] for failure in json.loads(read_untrusted(report))["failures"]]


def _matches(patterns: Sequence[str], sources: Sequence[str]) -> bool:
    return any(fnmatchcase(source, pattern) for source in sources for pattern in patterns)


def _program(name: str, entry: Mapping[str, Any], corpus: Corpus) -> Program:
    values = _frozen(entry)
    runs = tuple(Run(**_frozen(run)) for run in values.pop("runs"))
    patterns = values.pop("modules", ())
    modules = tuple(corpus.whole().filter(names=patterns).names) if patterns else ()
    program = Program(name, runs, modules, **values)
    for record in (program, *runs):
        check_values(record)
    if not runs or not all(_DIGEST.fullmatch(run.sha256) for run in runs):
        raise ValueError(f"program {name}: expected runs, each with a sha256")
    if bool(modules) == bool(program.link):
        raise ValueError(f"program {name}: expected modules of the corpus or a link, got {patterns or program.link!r}")
    if program.language not in _LANGUAGES:
        raise ValueError(f"program {name}: expected a language of {', '.join(_LANGUAGES)}, got {program.language!r}")
    for file in (program.driver, *(file for run in runs for file in run.files)):
        if file is not None and is_outside(file):
            raise ValueError(f"program {name}: {file!r} leads out of the corpus folder")
    return program


def _frozen(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
