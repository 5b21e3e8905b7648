"""The corpus of the programs of this package, which the chosen clang compiles on first use."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.driver import (
    check_attributes,
    compile_to_bitcode,
    libc_include_flags,
    libcxx_include_flags,
    portable_flags,
    recorded_flags,
)
from mlgo_gym.corpus.folder import (
    DESCRIPTION_FILE,
    FolderModules,
    write_command,
    write_description,
    write_metadata,
)
from mlgo_gym.corpus.specification import BUILTIN, CorpusSpec
from mlgo_gym.corpus.targets import BUILTIN_LEVELS, DEFAULT_LEVEL, DEFAULT_TARGET, Target, check_level, find_target
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import cache_directory, key_of, sha256_of
from mlgo_gym.storage.temporary_folders import complete_folder, locked

PROGRAMS = Path(__file__).parent / "programs"
_REVISION = 2
_LOCK_SECONDS = 600.0  # the compile takes ten seconds, on a busy machine a minute
_LANGUAGES = {".c": "C", ".cpp": "C++"}
_MODERN = "modern"
"""Folder of the sources that use libc++ and exceptions."""
_FLAGS = {"C": ("-std=c11",), "C++": ("-std=c++17", "-nostdinc++", "-fno-exceptions", "-fno-rtti")}
_FLAGS[_MODERN] = ("-std=c++23",)


def builtin_corpus(toolchain: Toolchain, *, optimize: str = DEFAULT_LEVEL, target: str = DEFAULT_TARGET) -> Corpus:
    """Return the builtin corpus at one of `BUILTIN_LEVELS` for a target; compiled on first use in about ten seconds.

    Modules are named after their sources, such as `c/json`; the folder is the project.
    """
    folder = builtin_folder(toolchain, optimize, target)
    if not (folder / DESCRIPTION_FILE).exists():
        with locked(folder, _LOCK_SECONDS):
            if not (folder / DESCRIPTION_FILE).exists():
                with complete_folder(folder) as staging:
                    _compile_all(staging, toolchain, optimize, find_target(target))
    return Corpus(str(CorpusSpec(BUILTIN, optimize, target).short), FolderModules(folder), path=folder)


def builtin_folder(toolchain: Toolchain, optimize: str, target: str = DEFAULT_TARGET) -> Path:
    """Return the folder of the builtin corpus in the cache; raise `CorpusError` for an unknown level or target."""
    check_level(optimize, BUILTIN_LEVELS)
    files = (*_sources().values(), *_program_files())
    digests = [(f"{file.parent.name}/{file.stem}", sha256_of(file)) for file in files]
    flags = portable_flags(find_target(target))
    key = key_of(_REVISION, toolchain.identity, optimize, digests, flags, sorted(_FLAGS.items()))
    return cache_directory() / "builtin" / f"{toolchain.version_text}-{optimize}-{key[:16]}"


def _compile_all(folder: Path, toolchain: Toolchain, optimize: str, target: Target) -> None:
    sources = _sources()
    # The sources are the same for each target, since their digests tell which policies were trained on them.
    types = [] if target.has_int128 else ["-D__int128=_BitInt(128)"]
    headers = libc_include_flags(toolchain, target)
    driver_flags = {
        kind: [*portable_flags(target), f"-{optimize}", *flags, *types, *headers] for kind, flags in _FLAGS.items()
    }
    driver_flags[_MODERN][-len(headers) :] = libcxx_include_flags(target)
    flags = {
        kind: recorded_flags("c" if kind == "C" else "c++", words, toolchain) for kind, words in driver_flags.items()
    }

    def compile_one(name: str) -> None:
        source = sources[name]
        language, project = _LANGUAGES[source.suffix], source.parent.name
        kind = _MODERN if project == _MODERN else language
        bitcode = folder / f"{name}.bc"
        bitcode.parent.mkdir(exist_ok=True)
        relative = source.relative_to(PROGRAMS).as_posix()
        compile_to_bitcode(relative, bitcode, driver_flags[kind], toolchain, folder=PROGRAMS)
        check_attributes(read_bitcode(bitcode), optimize)
        write_command(folder / f"{name}.cmd", flags[kind])
        metadata = {
            "source": f"{name}{source.suffix}",
            "source_sha256": sha256_of(source),
            "bitcode_sha256": sha256_of(bitcode),
            "lines": source.read_bytes().count(b"\n"),
            "language": language,
            "optimize": optimize,
            "project": project,
            "licence": "Apache-2.0",
            "compiler": f"clang {toolchain.version_text}",
        }
        write_metadata(folder, name, metadata)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # The slowest sources first, so that no core waits long for the last one.
        list(pool.map(compile_one, sorted(sources, key=lambda name: not name.startswith(_MODERN))))
    for file in _program_files():
        shutil.copyfile(file, folder / file.name)
    write_description(folder, sources)


def _sources() -> dict[str, Path]:
    """Return the sources by module name."""
    paths = sorted(path for path in PROGRAMS.glob("*/*") if path.suffix in _LANGUAGES)
    return {f"{path.parent.name}/{path.stem}": path for path in paths}


def _program_files() -> list[Path]:
    """Return the description of the runnable programs, and the source of their `main()`."""
    return sorted(path for path in PROGRAMS.iterdir() if path.is_file())
