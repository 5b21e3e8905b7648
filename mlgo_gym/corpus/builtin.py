"""The programs of this package, which the chosen clang compiles to the builtin corpus on first use.

The flags read nothing of the machine, so equal compilers give equal bitcode everywhere.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mlgo_clang.other_machines import library_headers
from mlgo_gym.cache import cache_directory, errors_name_cache, key_of, sha256_of
from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.driver import (
    BUILTIN_LEVELS,
    DEFAULT_TARGET,
    Target,
    cc1_line,
    check_attributes,
    check_level,
    code_generation_flags,
    find_target,
)
from mlgo_gym.corpus.folder import DESCRIPTION_FILE, write_command, write_description, write_metadata
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command, bundled_folder
from mlgo_gym.storage.temporary_folders import complete_folder, locked

PROGRAMS = Path(__file__).parent / "programs"
_REVISION = 2
_LOCK_SECONDS = 600.0  # the compile takes ten seconds, on a busy machine a minute
_LANGUAGES = {".c": "C", ".cpp": "C++"}
_MODERN = "modern"
"""Folder of the sources that use libc++ and exceptions."""
_FLAGS = {"C": ("-std=c11",), "C++": ("-std=c++17", "-nostdinc++", "-fno-exceptions", "-fno-rtti")}
_FLAGS[_MODERN] = ("-std=c++23",)
_PORTABLE_FLAGS = (
    "-fomit-frame-pointer", "-fno-stack-protector", "-fcf-protection=none", "-U_FORTIFY_SOURCE", "-fno-ident",
    "-nostdlibinc", "-w",
)  # fmt: skip
_TO_BITCODE = ("-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-working-directory")


def compile_builtin(toolchain: Toolchain, optimize: str, target: str) -> Path:
    """Return the folder of the builtin corpus at one of `BUILTIN_LEVELS` for a target, compiled if it is missing.

    Modules are named after their sources, such as `c/json`; the folder is the project.
    """
    folder = builtin_folder(toolchain, optimize, target)
    if not (folder / DESCRIPTION_FILE).exists():
        with errors_name_cache(), locked(folder, _LOCK_SECONDS):
            if not (folder / DESCRIPTION_FILE).exists():
                with complete_folder(folder) as staging:
                    _compile_all(staging, toolchain, optimize, find_target(target))
    return folder


def builtin_folder(toolchain: Toolchain, optimize: str, target: str = DEFAULT_TARGET) -> Path:
    """Return the folder of the builtin corpus in the cache; raise `CorpusError` for an unknown level or target."""
    check_level(optimize, BUILTIN_LEVELS)
    files = (*_sources().values(), *_program_files())
    digests = [(f"{file.parent.name}/{file.stem}", sha256_of(file)) for file in files]
    flags = _portable_flags(find_target(target))
    key = key_of(_REVISION, toolchain.identity, optimize, digests, flags, sorted(_FLAGS.items()))
    return cache_directory() / "builtin" / f"{toolchain.version_text}-{optimize}-{key[:16]}"


def _compile_all(folder: Path, toolchain: Toolchain, optimize: str, target: Target) -> None:
    sources = _sources()
    # The sources are the same for each target, since their digests tell which policies were trained on them.
    types = [] if "64" in target.architecture else ["-D__int128=_BitInt(128)"]
    libc = _libc_flags(toolchain, target)
    libcxx = ["-nostdinc", *library_headers(bundled_command()[0], target.zig)]
    driver_flags: dict[str, list[str]] = {}
    recorded: dict[str, tuple[str, ...]] = {}
    for kind, flags in _FLAGS.items():
        headers = libcxx if kind == _MODERN else libc
        words = [*_portable_flags(target), f"-{optimize}", *flags, *types, *headers]
        line = cc1_line(toolchain, [*words, "-c", "-x", "c" if kind == "C" else "c++", "-", "-o", "output"])
        driver_flags[kind], recorded[kind] = words, code_generation_flags(line)

    def compile_one(name: str) -> None:
        source = sources[name]
        language, project = _LANGUAGES[source.suffix], source.parent.name
        kind = _MODERN if project == _MODERN else language
        bitcode = folder / f"{name}.bc"
        bitcode.parent.mkdir(exist_ok=True)
        relative = source.relative_to(PROGRAMS).as_posix()
        command = [*toolchain.command, *driver_flags[kind], *_TO_BITCODE, str(PROGRAMS), relative, "-o", str(bitcode)]
        completed = run_bounded(command, writable=None, timeout=300)
        if completed.returncode != 0 or not bitcode.exists():
            raise CorpusError(
                f"clang {toolchain.version_text} cannot compile {relative}; it printed:\n"
                f"{completed.stderr.strip()[-4000:]}"
            )
        check_attributes(read_bitcode(bitcode), optimize)
        write_command(folder / f"{name}.cmd", recorded[kind])
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


def _portable_flags(target: Target) -> tuple[str, ...]:
    """Return driver flags that do not depend on the machine or on a distribution's defaults."""
    return ("--no-default-config", *target.flags, *_PORTABLE_FLAGS)


def _libc_flags(toolchain: Toolchain, target: Target) -> list[str]:
    """Return driver flags for the libc headers of the compiler wheel, and for clang's own of the bundled clang."""
    library = bundled_folder() / "lib"
    libc, kernel = target.headers
    folders = (libc, "generic-musl", kernel, f"any-{kernel.split('-', 1)[1]}")
    headers = [library / "libc" / "include" / folder for folder in folders]
    if toolchain.bundled:
        # The C library of WASI takes types from clang's headers.
        headers.insert(0 if target.is_webassembly else len(headers), library / "include")
    return [word for folder in headers for word in ("-isystem", str(folder))]


def _sources() -> dict[str, Path]:
    """Return the sources by module name."""
    paths = sorted(path for path in PROGRAMS.glob("*/*") if path.suffix in _LANGUAGES)
    return {f"{path.parent.name}/{path.stem}": path for path in paths}


def _program_files() -> list[Path]:
    """Return the description of the runnable programs, and the source of their `main()`."""
    return sorted(path for path in PROGRAMS.iterdir() if path.is_file())
