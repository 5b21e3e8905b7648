"""The settings of a recording, and the collection of its records into a corpus.

`record_build()` documents which flags of a build are kept.
"""

import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any

from mlgo_clang.files import file_identity
from mlgo_gym.cache import sha256_of
from mlgo_gym.corpus.driver import (
    NATIVE,
    check_attributes,
    check_level,
    code_generation_flags,
    driver_options,
    rust_flags,
)
from mlgo_gym.corpus.flags import copy_inputs, file_arguments, refused_argument
from mlgo_gym.corpus.folder import format_counts, write_command, write_description, write_metadata
from mlgo_gym.corpus.recording.link_records import file_kind
from mlgo_gym.corpus.recording.links import LinkWriter
from mlgo_gym.errors import CorpusError, NothingCompiledError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain, bundled_folder
from mlgo_gym.storage.temporary_folders import complete_folder, make_process_folder

_LANGUAGES = {"c": "C", "c++": "C++", "rust": "Rust"}
_PRODUCER = re.compile(r"LLVM(\d+)")
_RUST_LEVELS = {"Oz": "z", "Os": "s", "O2": "2", "O3": "3"}


@dataclass(frozen=True, slots=True)
class RecordFailure:
    """A compiled source that could not be recorded; the path of the source is relative to the root if below it.

    The message is that of the compiler, or the problem of the record. A compiler is most likely killed for lack of
    memory.
    """

    source: str
    message: str
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded corpus.

    Attributes:
        failures: compiled sources that are not among them.
        replaced: number of records that a later compile of the same source to the same object replaced.
        lines: source lines of the modules; each source counts once.
        languages: number of modules per language: `C`, `C++`, `Rust`.
        duplicates: number of compiles with the bitcode and flags of another one, which are not modules.
        skipped: number of compiles and links that were not recorded, by reason.
        links: number of recorded link steps, see `read_links()`.
        status: exit status of the build, negative for the number of a signal.
        compiler_paths: number of recorded compiles by path of the compiler, for compilers that the build called by
            path. The build keeps their objects; the modules come from the recording clang.
    """

    corpus: Path
    modules: tuple[str, ...]
    failures: tuple[RecordFailure, ...]
    replaced: int
    lines: int
    languages: Mapping[str, int]
    duplicates: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    links: int = 0
    status: int = 0
    compiler_paths: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Records:
    compiles: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    failures: list[RecordFailure] = field(default_factory=list)
    replaced: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


class Recorder:
    """The settings of one recording, and the folder for the records of its processes.

    Module names and sources are relative to `root`. `settings` are `clang`, `before` and `after`: the driver's command
    and the options around the build's; `records`: output folder; and `temporary`: folder whose sources are probes. The
    folder for records is in `parent`, by default that of temporary files.
    """

    def __init__(
        self, toolchain: Toolchain, optimize: str, root: Path, *, target: str | None = None, parent: Path | None = None
    ) -> None:
        check_level(optimize)
        self._optimize, self._toolchain, self._target = optimize, toolchain, target
        self._root = root.resolve()
        self._folder = make_process_folder(parent or Path(tempfile.gettempdir()), "mlgo-gym-record-")
        for name in ("records", "known", "files", "seen"):
            (self._folder / name).mkdir()
        before, after = driver_options(toolchain, target)
        level = [f"-{optimize}", "-w", "-g0", "-fno-lto", "-fintegrated-as"]
        folders = [self._root, *([bundled_folder()] if toolchain.bundled else [])]
        maps = () if target == NATIVE else (f"-fmacro-prefix-map={folder}/=" for folder in folders)
        self.settings: dict[str, Any] = {
            "clang": list(toolchain.command),
            "before": before,
            "after": [*after, *level, *maps],
            "records": str(self._folder / "records"),
            "temporary": tempfile.gettempdir(),
            "root": str(self._root),
            "rust_level": _RUST_LEVELS[optimize],
        }

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def compiles(self) -> int:
        """Number of compiles and links so far, recorded or skipped."""
        return len(list((self._folder / "records").iterdir()))

    def write_settings(self) -> Path:
        """Write the settings for shims and return the path."""
        path = self._folder / "settings.json"
        path.write_text(json.dumps(self.settings), encoding="utf-8")
        return path

    def collect(
        self, output: Path, metadata: Mapping[str, object] | None = None, *, keep_duplicates: bool = False
    ) -> Recording:
        """Write everything recorded so far as a corpus, atomically, to a folder that is new or empty.

        `metadata` is added to every module. With `keep_duplicates`, compiles with equal bitcode and flags are separate
        modules. Raises `NothingCompiledError` if nothing was recorded.
        """
        check_output(output)
        records = self._read()
        if not records.compiles and not records.failures:
            skipped = f" Skipped: {format_counts(records.skipped)}." if records.skipped else ""
            raise NothingCompiledError(
                "expected compiles of C, C++ or Rust sources, got none: the build was up to date, or it bypasses the "
                f"shims; clean it first, and let it take the compiler from CC, CXX and RUSTC_WRAPPER.{skipped}",
                0,
            )
        modules: dict[str, dict[str, Any]] = {}
        by_content: dict[tuple[str, tuple[str, ...]], str] = {}
        duplicates = 0
        with complete_folder(output) as staging:
            links = LinkWriter(self._folder, staging, self._relative)
            for name, record in self._named(records.compiles).items():
                flags = self._flags(record)
                content = (sha256_of(record["bitcode"]), flags)
                if content in by_content and not keep_duplicates:
                    duplicates += 1
                    links.add(record, by_content[content])
                    continue
                try:
                    self._write(staging, name, record, flags, {**(metadata or {}), "bitcode_sha256": content[0]})
                except CorpusError as error:
                    records.failures.append(RecordFailure(self._relative(record["source"]), str(error)))
                    continue
                modules[name] = record
                by_content[content] = name
                links.add(record, name)
            write_description(staging, modules)
            written = links.write(records.links, self._target)
        return Recording(
            corpus=output,
            modules=tuple(modules),
            failures=tuple(records.failures),
            replaced=records.replaced,
            lines=sum({record["source"]: record["lines"] for record in modules.values()}.values()),
            languages=Counter(_LANGUAGES[record["language"]] for record in modules.values()),
            duplicates=duplicates,
            skipped=records.skipped + links.skipped,
            links=written,
            compiler_paths=Counter(record["compiler_path"] for record in modules.values() if record["compiler_path"]),
        )

    def objects(self) -> dict[Path, str]:
        """Return the identity of each object below the root."""
        paths = (Path(folder, file) for folder, _, files in os.walk(self._root) for file in files)
        objects = (path for path in paths if path.suffix in (".o", ".obj") and path.is_file())
        return {path: file_identity(path.stat()) for path in objects}

    def count_unseen(self, before: Mapping[Path, str]) -> int:
        """Return the number of objects, not among those before the build, that no intercepted compile wrote."""
        seen = {path.name for path in (self._folder / "seen").iterdir()}
        written = (path for path, identity in self.objects().items() if before.get(path) != identity)
        return sum(file_kind(str(path), is_word=False) == "object" and sha256_of(path) not in seen for path in written)

    def _read(self) -> _Records:
        records = _Records()
        compiles: dict[tuple[str, str], dict[str, Any]] = {}
        for folder in sorted((self._folder / "records").glob("[0-9]*")):
            (path,) = folder.glob("*.json")
            content = json.loads(path.read_bytes())
            if path.name == "record.json":
                key = content["object"] or content.get("program") or "", content["source"]
                records.replaced += key in compiles
                compiles[key] = {**content, "bitcode": folder / "module.bc"}
            elif path.name == "link.json":
                records.links.append(content)
            elif path.name == "skipped.json":
                records.skipped[content["reason"]] += 1
            elif content.get("compiler_path") and is_gcc(content["compiler_path"]):
                records.skipped["a compile by gcc, which is no clang, that clang refuses"] += 1
            else:
                source = self._relative(content["source"])
                records.failures.append(RecordFailure(source, content["message"], bool(content.get("killed"))))
        records.compiles = list(compiles.values())
        return records

    def _write(
        self, folder: Path, name: str, record: Mapping[str, Any], flags: tuple[str, ...], metadata: Mapping[str, object]
    ) -> None:
        """Write the files of a module; raise `CorpusError` if it cannot be one."""
        facts = read_bitcode(record["bitcode"])
        producer = _PRODUCER.match(facts.producer)
        if producer is not None and int(producer[1]) > self._toolchain.version[0]:
            raise CorpusError(
                f"expected bitcode of LLVM {self._toolchain.version[0]} or older, got {facts.producer}; record with "
                "--clang and a newer clang"
            )
        check_attributes(facts, self._optimize)
        flags = copy_inputs(flags, Path(record["folder"]), folder)
        refused = refused_argument(flags, tuple(file for _, file in file_arguments(flags)))
        if refused is not None:
            raise CorpusError(f"expected flags that only shape code, got {refused!r}; build without it")
        bitcode = folder / f"{name}.bc"
        bitcode.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(record["bitcode"], bitcode)
        write_command(folder / f"{name}.cmd", flags)
        own: dict[str, object] = {
            "source": self._relative(record["source"]),
            "source_sha256": record["source_sha256"],
            "language": _LANGUAGES[record["language"]],
            "lines": record["lines"],
            "optimize": self._optimize,
            "compiler": f"clang {self._toolchain.version_text}",
        }
        if record["language"] == "rust":
            own |= {"project": record["package"], "version": record["version"], "compiler": facts.producer}
        write_metadata(folder, name, {**metadata, **own})

    def _flags(self, record: Mapping[str, Any]) -> tuple[str, ...]:
        if record["language"] == "rust":
            triple = read_bitcode(record["bitcode"]).triple
            return rust_flags(self._toolchain, triple, self._optimize, tuple(record["driver_flags"]))
        return code_generation_flags(record["command"])

    def _named(self, records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return records by unique names, in an order that does not depend on which compile ended first."""
        named = [(self._module_name(record), record) for record in records]
        named.sort(key=lambda pair: (pair[0], self._relative(pair[1]["source"]), pair[1]["source_sha256"]))
        unique: dict[str, dict[str, Any]] = {}
        for name, record in named:
            candidates = chain([name], (f"{name.removesuffix('.o')}.{number}.o" for number in count(2)))
            unique[next(candidate for candidate in candidates if candidate not in unique)] = record
        return unique

    def _module_name(self, record: Mapping[str, Any]) -> str:
        if "name" in record:
            return str(record["name"])
        path = record["object"] or str(PurePosixPath(record["source"]).with_suffix(".o"))
        relative = self._relative(path)
        if PurePosixPath(relative).is_absolute():
            relative = os.path.relpath(path, record["folder"])
        return "/".join(part for part in PurePosixPath(relative).parts if part not in {"/", "..", "."})

    def _relative(self, path: str) -> str:
        resolved = Path(os.path.normpath(path))
        return str(resolved.relative_to(self._root)) if resolved.is_relative_to(self._root) else str(resolved)


def check_output(output: Path) -> None:
    """Raise `CorpusError` if the folder of a new corpus contains files, or cannot be made."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise CorpusError(f"{output}: expected a new or empty folder; remove it, or choose another one")
    above = next(folder for folder in output.absolute().parents if folder.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        raise CorpusError(f"{output}: expected a folder that can be written, got {above}; choose another one")


def is_gcc(path: str) -> bool:
    """Return whether a compiler is gcc, by the name of the resolved program."""
    name = Path(os.path.realpath(path)).name
    return ("gcc" in name or "g++" in name) and "clang" not in name
