"""How a clang is called to record, and how the recordings of many processes become one corpus.

What a recording keeps of a build's flags, and what it does not, is told in `mlgo_gym.corpus.record.record_build`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from mlgo_gym.corpus.allowed import kept_arguments, refused_argument
from mlgo_gym.corpus.by_path import is_gcc, objects_made_since
from mlgo_gym.corpus.code_generation import code_generation_flags
from mlgo_gym.corpus.description import write_command, write_description, write_metadata
from mlgo_gym.corpus.driver_options import NATIVE, driver_options
from mlgo_gym.corpus.inputs import keep_inputs
from mlgo_gym.corpus.link_recording import ModuleIndex, write_links
from mlgo_gym.errors import CorpusError, NothingCompiledError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain, bundled_folder
from mlgo_gym.storage.leftovers import make_own_folder, whole_folder

LEVELS = ("Oz", "Os", "O2", "O3")
"""The optimisation levels that a corpus can be recorded at."""

_FOUND_AS = {"Oz": "Oz", "Os": "Os", "O2": "O1-O3", "O3": "O1-O3"}
_LANGUAGES = {"c": "C", "c++": "C++"}


@dataclass(frozen=True, slots=True)
class RecordFailure:
    """A source that was compiled and could not be recorded.

    Attributes:
        source: its path relative to the root of the build where it lies below that.
        message: what the compiler said, or what is wrong with the recording.
        killed: whether the compiler was killed, most likely for want of memory, so that another try may go well.
    """

    source: str
    message: str
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """What became of a recording.

    Attributes:
        corpus: the folder.
        modules: the names of its modules.
        failures: what was compiled and is not among them.
        replaced: how many recordings a later compile of the same source to the same object replaced.
        lines: source lines of the modules, counting each source once.
        languages: modules per source language, `C` and `C++`.
        duplicates: how many compiles gave the bitcode and the flags of another one, and are no modules of their own.
        left_out: how many compiles and links were seen and not recorded, by reason.
        links: how many link steps are recorded, see `mlgo_gym.corpus.links.read_links`.
        by_path: how many recorded compiles called their compiler by its path, by that path. What they made is the work
            of that compiler, which may be gcc; the modules are what the recording clang makes of the same arguments.
    """

    corpus: Path
    modules: tuple[str, ...]
    failures: tuple[RecordFailure, ...]
    replaced: int
    lines: int
    languages: Mapping[str, int]
    duplicates: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    links: int = 0
    by_path: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Seen:
    records: list[dict[str, Any]]
    links: list[dict[str, Any]]
    failures: list[RecordFailure]
    replaced: int
    left_out: Counter[str]


class Recorder:
    """The settings of one recording, and the folder in which its processes leave what they record.

    Args:
        toolchain: the clang that records.
        optimize: the level at which the front end runs, one of `LEVELS`, whatever the build asks for.
        root: the folder that names and sources are relative to.
        target: what the bundled compiler compiles for; `bundled_target()` if None. Another clang has its own. With
            `NATIVE` any clang records what `mlgo-clang` makes of the same command lines.
        parent: where to make the folder for recordings; among temporary files if None.
        probes: whether to record the questions of build systems to their compilers too.

    Attributes:
        settings: what `mlgo_gym.corpus.shim_compiles.record_compile` wants to know.

    Raises:
        CorpusError: there is no such level.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        optimize: str,
        root: Path,
        *,
        target: str | None = None,
        parent: Path | None = None,
        probes: bool = False,
    ) -> None:
        if optimize not in LEVELS:
            raise CorpusError(
                f"a corpus is recorded at {', '.join(LEVELS)}, not at {optimize!r}; choose one with optimize="
            )
        self._optimize = optimize
        self._compiler = f"clang {toolchain.version_text}"
        self._root = root.resolve()
        self._folder = make_own_folder(parent or Path(tempfile.gettempdir()), "mlgo-gym-record-")
        for name in ("records", "known", "files", "seen"):
            (self._folder / name).mkdir()
        options = driver_options(toolchain, target)
        level = [f"-{optimize}", "-w", "-g0", "-fno-lto", "-fintegrated-as"]
        self._native = target == NATIVE
        folders = [self._root, *([bundled_folder()] if toolchain.bundled else [])]
        maps = () if self._native else (f"-fmacro-prefix-map={folder}/=" for folder in folders)
        self.settings: dict[str, Any] = {
            "clang": list(toolchain.command),
            "before": list(options.before),
            "after": [*options.after, *level, *maps],
            "records": str(self._folder / "records"),
            "temporary": tempfile.gettempdir(),
            "root": str(self._root),
            "probes": probes,
        }

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def write_settings(self) -> Path:
        """Write the settings where a shim can read them, and return the path."""
        path = self._folder / "settings.json"
        path.write_text(json.dumps(self.settings), encoding="utf-8")
        return path

    def collect(
        self, output: Path, metadata: Mapping[str, object] | None = None, *, keep_duplicates: bool = False
    ) -> Recording:
        """Make a corpus of everything recorded so far. It appears at `output` whole, or not at all.

        Args:
            output: a folder that does not exist, or is empty.
            metadata: what to say of every module beside what is known of each: `project`, `licence`, ….
            keep_duplicates: whether compiles that gave the same bitcode and flags are modules of their own.

        Raises:
            NothingCompiledError: nothing was recorded.
            CorpusError: `output` holds files.
        """
        check_output(output)
        seen = self._read()
        failures = seen.failures
        if not seen.records and not failures:
            others = f" Seen and not recorded: {counted(seen.left_out)}." if seen.left_out else ""
            raise NothingCompiledError(
                "no compile of a C or C++ source was seen: the build was up to date, or it calls its compiler by a "
                f"path that no shim stands for; clean it first, and let it take the compiler from CC and CXX.{others}",
                0,
            )
        with whole_folder(output) as staging:
            kept = {}
            duplicates = 0
            known: dict[tuple[str, tuple[str, ...]], str] = {}
            modules = ModuleIndex()
            for name, record in self._named(seen.records):
                flags = code_generation_flags(record["command"])
                content = (hashlib.sha256(record["bitcode"].read_bytes()).hexdigest(), flags)
                if content in known and not keep_duplicates:
                    duplicates += 1
                    modules.add(record, known[content])
                    continue
                problem = self._write(staging, name, record, flags, metadata or {})
                if problem is None:
                    kept[name] = record
                    known[content] = name
                    modules.add(record, name)
                else:
                    failures.append(RecordFailure(self._relative(record["source"]), problem))
            write_description(staging, kept)
            links, not_linked = write_links(
                seen.links, modules, self._folder, staging, self._relative, native=self._native
            )
        lines = {record["source"]: record["lines"] for record in kept.values()}
        languages = Counter(_LANGUAGES[record["language"]] for record in kept.values())
        return Recording(
            output,
            tuple(kept),
            tuple(failures),
            seen.replaced,
            sum(lines.values()),
            languages,
            duplicates,
            seen.left_out + not_linked,
            links,
            Counter(record["by_path"] for record in kept.values() if record["by_path"]),
        )

    def count_unseen(self, start: float) -> int:
        """Return how many objects below the root, written since a time, none of the compiles made that were seen."""
        seen = {path.name for path in (self._folder / "seen").iterdir()}
        found = objects_made_since(self._root, start)
        return sum(hashlib.sha256(path.read_bytes()).hexdigest() not in seen for path in found)

    def _read(self) -> _Seen:
        failures: list[RecordFailure] = []
        records: dict[tuple[str, str], dict[str, Any]] = {}
        links: list[dict[str, Any]] = []
        number = 0
        left_out: Counter[str] = Counter()
        for folder in sorted((self._folder / "records").glob("[0-9]*")):
            failure = folder / "failure.json"
            if failure.exists():
                found = json.loads(failure.read_bytes())
                killed = bool(found.get("killed"))
                if found.get("by_path") and is_gcc(found["by_path"]):
                    left_out["a compile by gcc, which is no clang, that clang refuses"] += 1
                    continue
                failures.append(RecordFailure(self._relative(found["source"]), found["message"], killed))
                continue
            note = folder / "left-out.json"
            if note.exists():
                left_out[json.loads(note.read_bytes())["reason"]] += 1
                continue
            link = folder / "link.json"
            if link.exists():
                links.append(json.loads(link.read_bytes()))
                continue
            record = json.loads((folder / "record.json").read_bytes())
            record["bitcode"] = folder / "module.bc"
            records[record["object"] or "", record["source"]] = record
            number += 1
        return _Seen(list(records.values()), links, failures, number - len(records), left_out)

    def _write(
        self,
        folder: Path,
        name: str,
        record: Mapping[str, Any],
        flags: tuple[str, ...],
        metadata: Mapping[str, object],
    ) -> str | None:
        """Write the files of a module; return what is wrong with it instead, if anything is."""
        facts = read_bitcode(record["bitcode"])
        found = facts.prevailing_level
        if found not in ("no functions", _FOUND_AS[self._optimize]):
            return (
                f"it was to be recorded at -{self._optimize}, and the attributes of its {facts.functions} functions "
                f"show -{found} (minsize on {facts.minsize}, optsize on {facts.optsize}, optnone on {facts.optnone})"
            )
        try:
            flags = keep_inputs(flags, Path(record["folder"]), folder)
        except CorpusError as error:
            return str(error)
        refused = refused_argument(flags, tuple(file for _, file in kept_arguments(flags)))
        if refused is not None:
            return f"its flag {refused!r} may do more than shape code, so that a corpus cannot have it; build without"
        bitcode = folder / f"{name}.bc"
        bitcode.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(record["bitcode"], bitcode)
        write_command(folder / f"{name}.cmd", flags)
        known = {
            "source": self._relative(record["source"]),
            "source_sha256": record["source_sha256"],
            "bitcode_sha256": hashlib.sha256(bitcode.read_bytes()).hexdigest(),
            "language": _LANGUAGES[record["language"]],
            "lines": record["lines"],
            "optimize": self._optimize,
            "compiler": self._compiler,
        }
        write_metadata(folder, name, {**metadata, **known})
        return None

    def _named(self, records: Iterable[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
        """Return records under unique names in an order that does not depend on which compile ended first."""
        wanted = [(self._wanted_name(record), record) for record in records]
        wanted.sort(key=lambda pair: (pair[0], self._relative(pair[1]["source"]), pair[1]["source_sha256"]))
        used: set[str] = set()
        named = []
        for name, record in wanted:
            unique, number = name, 1
            while unique in used:
                number += 1
                unique = f"{name.removesuffix('.o')}.{number}.o"
            used.add(unique)
            named.append((unique, record))
        return named

    def _wanted_name(self, record: Mapping[str, Any]) -> str:
        path = record["object"]
        if path is None:
            path = str(PurePosixPath(record["source"]).with_suffix(".o"))
        relative = self._relative(path)
        if PurePosixPath(relative).is_absolute():
            relative = os.path.relpath(path, record["folder"])
        parts = [part for part in PurePosixPath(relative).parts if part not in {"/", "..", "."}]
        return "/".join(parts)

    def _relative(self, path: str) -> str:
        resolved = Path(os.path.normpath(path))
        return str(resolved.relative_to(self._root)) if resolved.is_relative_to(self._root) else str(resolved)


def counted(left_out: Mapping[str, int]) -> str:
    """Return numbers by reason in one line, the largest first."""
    return ", ".join(f"{number} of {reason}" for reason, number in Counter(left_out).most_common())


def check_output(output: Path) -> None:
    """Raise `CorpusError` when there are files where a corpus is to go, or it cannot go there."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise CorpusError(
            f"{output}: a new or an empty folder was wanted, and this is in use; remove it or name another"
        )
    above = next(folder for folder in output.absolute().parents if folder.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        raise CorpusError(f"{output} was to be made, and {above} cannot be written; name another folder")
