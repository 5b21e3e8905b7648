"""The builtin corpus: programs of this package, compiled by the chosen clang on first use and kept on disk."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from mlgo_gym.corpus.corpus import DEFAULT_LEVEL, Corpus
from mlgo_gym.corpus.description import DESCRIPTION_FILE, write_command, write_description, write_metadata
from mlgo_gym.corpus.driver import PORTABLE_FLAGS, compile_to_bitcode, libc_include_flags, recorded_flags
from mlgo_gym.corpus.folder import FolderModules
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import cache_directory, key_of
from mlgo_gym.storage.leftovers import make_own_folder

PROGRAMS = Path(__file__).parent / "programs"
"""The sources: `FOLDER/NAME.c` and `FOLDER/NAME.cpp`."""

LEVELS = ("Oz", "Os", "O2")
"""The optimisation levels that the builtin corpus can be had at."""

_REVISION = 2
_LANGUAGES = {".c": "C", ".cpp": "C++"}
_BY_LANGUAGE = {
    "C": ("-std=c11",),
    "C++": ("-std=c++17", "-nostdinc++", "-fno-exceptions", "-fno-rtti"),
}


def builtin_corpus(toolchain: Toolchain, *, optimize: str = DEFAULT_LEVEL) -> Corpus:
    """Return the builtin corpus as the given clang makes it; compiled on first use, in about two seconds.

    Modules are called after their sources, such as `c/json`, and the folder is their project. Any number of processes
    can ask at once.

    Args:
        toolchain: the clang to compile with.
        optimize: the optimisation level, one of `LEVELS`.

    Raises:
        CorpusError: there is no such level, or a program does not compile; the text has the compiler's message.
    """
    folder = builtin_folder(toolchain, optimize)
    if not (folder / DESCRIPTION_FILE).exists():
        with _publishing(folder) as unfinished:
            if unfinished is not None:
                _compile_all(unfinished, toolchain, optimize)
    name = "builtin" if optimize == DEFAULT_LEVEL else f"builtin@{optimize}"
    return Corpus(name, FolderModules(folder), path=folder)


def builtin_folder(toolchain: Toolchain, optimize: str) -> Path:
    """Return where the builtin corpus lies, once it is compiled.

    Raises:
        CorpusError: there is no such level.
    """
    if optimize not in LEVELS:
        raise CorpusError(f"the builtin corpus comes at {', '.join(LEVELS)}, not at {optimize!r}; choose one of these")
    digests = [(_name(source), _digest(source)) for source in _sources()]
    key = key_of(_REVISION, toolchain.identity, optimize, digests, PORTABLE_FLAGS, sorted(_BY_LANGUAGE.items()))
    return cache_directory() / "builtin" / f"{toolchain.version_text}-{optimize}-{key[:16]}"


@contextmanager
def _publishing(folder: Path) -> Iterator[Path | None]:
    """Give a folder to fill that becomes `folder` at the end, or None when another process has made it meanwhile."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / DESCRIPTION_FILE).exists():
            yield None
            return
        unfinished = make_own_folder(folder.parent, f".{folder.name}.")
        try:
            yield unfinished
            unfinished.chmod(0o755)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _compile_all(folder: Path, toolchain: Toolchain, optimize: str) -> None:
    sources = _sources()
    driver_flags = {language: _driver_flags(language, toolchain, optimize) for language in _BY_LANGUAGE}
    flags = {language: recorded_flags(language.lower(), driver_flags[language], toolchain) for language in _BY_LANGUAGE}

    def compile_one(source: Path) -> None:
        name, language = _name(source), _LANGUAGES[source.suffix]
        bitcode = folder / f"{name}.bc"
        bitcode.parent.mkdir(exist_ok=True)
        relative = source.relative_to(PROGRAMS).as_posix()
        compile_to_bitcode(relative, bitcode, driver_flags[language], toolchain, folder=PROGRAMS)
        _check_level(bitcode, name, optimize)
        write_command(folder / f"{name}.cmd", flags[language])
        metadata = {
            "source": f"{name}{source.suffix}",
            "source_sha256": _digest(source),
            "bitcode_sha256": _digest(bitcode),
            "lines": source.read_bytes().count(b"\n"),
            "language": language,
            "optimize": optimize,
            "project": source.parent.name,
            "licence": "Apache-2.0",
            "compiler": f"clang {toolchain.version_text}",
        }
        write_metadata(folder, name, metadata)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # The largest first, so that no core waits long for the last one.
        list(pool.map(compile_one, sorted(sources, key=lambda source: -source.stat().st_size)))
    write_description(folder, [_name(source) for source in sources])


def _check_level(bitcode: Path, name: str, optimize: str) -> None:
    facts = read_bitcode(bitcode)
    shown = facts.level
    if shown != (optimize if optimize in ("Oz", "Os") else "O1-O3"):
        raise CorpusError(
            f"the builtin program {name} was to be compiled at -{optimize}, and of its {facts.functions} functions "
            f"{facts.minsize} have minsize, {facts.optsize} optsize and {facts.optnone} optnone; take the attribute "
            "out of the source, or choose another clang"
        )


def _driver_flags(language: str, toolchain: Toolchain, optimize: str) -> list[str]:
    return [*PORTABLE_FLAGS, f"-{optimize}", *_BY_LANGUAGE[language], *libc_include_flags(toolchain)]


def _sources() -> list[Path]:
    return sorted(path for path in PROGRAMS.glob("*/*") if path.suffix in _LANGUAGES)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _name(source: Path) -> str:
    return f"{source.parent.name}/{source.stem}"
