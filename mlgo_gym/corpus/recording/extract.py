"""A corpus from a finished build, whose object files contain the bitcode and flags that clang embedded.

The build needs `-Xclang -fembed-bitcode=all`; for distributed ThinLTO `-mllvm -lto-embed-bitcode=post-merge-pre-opt`;
for local ThinLTO `-Wl,--save-temps=import` and `-Wl,--thinlto-emit-index-files`. Inputs, flags and results are those of
LLVM's `extract_ir`.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.compilation import without_embedding
from mlgo_gym.corpus.flags import check_arguments, take_thinlto_index
from mlgo_gym.corpus.folder import UNSPECIFIED_OVERRIDE, CorpusReport, parse_command, write_description
from mlgo_gym.corpus.recording.object_list import IMPORTED_SUFFIX, INDEX_SUFFIX, BuildObject, ObjectList
from mlgo_gym.errors import CorpusError, MissingExtraError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.temporary_folders import temporary_folder
from mlgo_gym.storage.untrusted_file import MAX_BYTES, open_untrusted

THINLTO_BUILDS = ("distributed", "local")
_THINLTO_INDEX = b"-fthinlto-index="


def extract_corpus(
    listed: ObjectList,
    output: Path,
    *,
    thinlto_build: str | None = None,
    cmd_filter: str | None = None,
    llvm_objcopy: str | None = None,
    cmd_section: str = ".llvmcmd",
    bitcode_section: str = ".llvmbc",
    jobs: int | None = None,
    trust_flags: bool = False,
    progress: Callable[[], object] = lambda: None,
) -> CorpusReport:
    """Write a corpus of the object files of a build.

    Each file is written atomically, and the description last. An interrupted call can be repeated: unchanged files
    stay, and files of another kind of extraction are removed.

    Args:
        listed: object files.
        output: corpus folder.
        thinlto_build: `"distributed"` copies the index that each module's flags name; `"local"` takes the files that
            lld saved, without flags; None for builds without ThinLTO.
        cmd_filter: regular expression; modules without a matching flag are excluded.
        llvm_objcopy: name or path of `llvm-objcopy`; by default pyelftools reads the sections.
        cmd_section: section with the flags.
        bitcode_section: section with the bitcode.
        jobs: number of threads; by default one per CPU.
        trust_flags: whether to take modules whatever their flags; else those with refused flags are skipped.
        progress: called after each object.

    Raises:
        CorpusError: an argument is invalid, or no module was extracted.
        MissingExtraError: neither pyelftools nor llvm-objcopy is installed.
    """
    if thinlto_build not in (None, *THINLTO_BUILDS):
        raise CorpusError(f"expected a ThinLTO build of {', '.join(THINLTO_BUILDS)}, got {thinlto_build!r}")
    if thinlto_build == "local" and cmd_filter is not None:
        raise CorpusError("expected no --cmd_filter with a local ThinLTO build, which has no flags; omit it")
    try:
        matches = re.compile(cmd_filter or "").search
    except re.error as error:
        raise CorpusError(f"expected a regular expression in --cmd_filter, got {cmd_filter!r}: {error}") from error
    if thinlto_build == "local":
        extract_one = partial(_extract_local, output=output)
    else:
        reader = find_section_reader(llvm_objcopy)
        extract_one = partial(
            _extract_embedded,
            output=output,
            read=lambda path: reader(path, (cmd_section, bitcode_section)),
            matches=matches,
            has_index=thinlto_build == "distributed",
            trust_flags=trust_flags,
        )
    report = CorpusReport(skipped=list(listed.skipped))

    def extract(entry: BuildObject) -> bool | str:
        try:
            return extract_one(entry)
        except (CorpusError, OSError) as error:
            return str(error)
        finally:
            progress()

    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        try:
            for entry, result in zip(listed.objects, pool.map(extract, listed.objects), strict=True):
                if isinstance(result, str):
                    report.skipped.append((entry.name, result))
                elif result:
                    report.modules.append(entry.name)
                else:
                    report.excluded += 1
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if not report.modules:
        first = f"; the first was skipped because {report.skipped[0][1]}" if report.skipped else ""
        raise CorpusError(
            f"expected modules in {len(listed.objects)} objects, got none ({report.excluded} excluded by the filter)"
            f"{first}"
        )
    write_description(
        output,
        report.modules,
        has_thinlto=thinlto_build is not None,
        global_command_override=UNSPECIFIED_OVERRIDE if thinlto_build == "local" else None,
    )
    return report


def _extract_embedded(
    entry: BuildObject,
    output: Path,
    read: Callable[[Path], tuple[bytes, ...]],
    matches: Callable[[str], object],
    *,
    has_index: bool,
    trust_flags: bool,
) -> bool:
    """Write a module of an object with embedded bitcode; return False if the filter excludes it."""
    command, bitcode = read(entry.path)
    flags = parse_command(command, entry.path)
    if flags.count("-cc1") > 1:
        raise CorpusError(
            f"{entry.path}: expected one module, got {flags.count('-cc1')}; extract the objects it was linked from"
        )
    if not any(map(matches, flags)):
        return False
    if not trust_flags:
        check_arguments(without_embedding(take_thinlto_index(flags)[0]), str(entry.path))
    index = None
    if has_index:
        named = [flag for flag in command.split(b"\0") if flag.startswith(_THINLTO_INDEX)]
        if not named:
            raise CorpusError(f"{entry.path}: expected -fthinlto-index= of a distributed ThinLTO build, got none")
        try:
            index = (entry.base / os.fsdecode(named[-1].removeprefix(_THINLTO_INDEX))).read_bytes()
        except OSError as error:
            raise CorpusError(f"{entry.path}: its ThinLTO index is missing: {error}; check --obj_base_dir") from error
    return _write_module(output / entry.name, bitcode, command, index, entry.path)


def _extract_local(entry: BuildObject, output: Path) -> bool:
    """Copy a module that lld saved."""
    bitcode = Path(f"{entry.path}{IMPORTED_SUFFIX}")
    index = Path(f"{entry.path}{INDEX_SUFFIX}").read_bytes()
    return _write_module(output / entry.name, bitcode.read_bytes(), None, index, bitcode)


def _write_module(name: Path, bitcode: bytes, command: bytes | None, index: bytes | None, origin: Path) -> bool:
    """Write the files of a module with the time of their origin, and remove those of another kind of extraction."""
    if not bitcode:
        raise CorpusError(f"{origin}: expected bitcode, got an empty section; build with -Xclang -fembed-bitcode=all")
    for suffix, data in ((INDEX_SUFFIX, index), (".cmd", command), (".bc", bitcode)):
        path = Path(f"{name}{suffix}")
        if data is None:
            path.unlink(missing_ok=True)
        elif _write(path, data) and data is bitcode:
            modified = origin.stat().st_mtime_ns
            os.utime(path, ns=(modified, modified))
    return True


def _write(target: Path, data: bytes) -> bool:
    """Write a file and return True, or return False if it has that content already."""
    if target.is_file() and target.stat().st_size == len(data) and target.read_bytes() == data:
        return False
    write_atomically(target, data)
    return True


SectionReader = Callable[[Path, tuple[str, ...]], tuple[bytes, ...]]
"""Returns the bytes of each named section of an object file; raises `CorpusError` if one is missing."""


def find_section_reader(llvm_objcopy: str | None = None) -> SectionReader:
    """Return a section reader: the named `llvm-objcopy`, else pyelftools, else `llvm-objcopy` on `PATH`.

    Raises `CorpusError` without the named program, and `MissingExtraError` if neither is installed.
    """
    if llvm_objcopy is None and find_spec("elftools") is not None:
        return read_elf_sections
    program = shutil.which(llvm_objcopy or "llvm-objcopy")
    if program is not None:
        return partial(read_with_objcopy, program)
    if llvm_objcopy is None:
        raise MissingExtraError("extraction without llvm-objcopy", "corpus")
    raise CorpusError(f"expected a program, got {llvm_objcopy!r}; omit --llvm_objcopy_path to use pyelftools")


def read_elf_sections(path: Path, names: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the bytes of each named section of an ELF file; raise `CorpusError` for a missing or damaged one."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with open_untrusted(path) as file:
            elf = ELFFile(file)
            return tuple(_content(path, name, elf.get_section_by_name(name)) for name in names)
    except OSError as error:
        raise CorpusError(f"{path}: the object file cannot be read: {error}") from error
    # Damage that pyelftools does not detect raises errors of Python and zlib.
    except (ELFError, zlib.error, MemoryError, OverflowError, ValueError) as error:
        raise CorpusError(
            f"{path}: expected an ELF object file: {error}; for other formats use llvm-objcopy"
        ) from error


def _content(path: Path, name: str, section: Any) -> bytes:
    if section is None:
        raise CorpusError(
            f"{path}: expected a section {name}, got none; build with -Xclang -fembed-bitcode=all (assembly has none)"
        )
    if section.data_size > MAX_BYTES:  # a compressed section can expand to any size
        raise CorpusError(
            f"{path}: expected at most {MAX_BYTES:,} bytes in {name}, got {section.data_size:,}; use llvm-objcopy"
        )
    return bytes(section.data())


def read_with_objcopy(program: str, path: Path, names: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the bytes of each named section of an object file; raise `CorpusError` if `llvm-objcopy` fails."""
    with temporary_folder() as folder:
        files = [Path(folder, str(number)) for number in range(len(names))]
        dumps = [f"--dump-section={name}={file}" for name, file in zip(names, files, strict=True)]
        command = [program, *dumps, str(path), "/dev/null"]
        answer = run_bounded(command, writable=(folder,), timeout=60, name="llvm-objcopy")
        if answer.returncode != 0:
            raise CorpusError(f"{path}: llvm-objcopy cannot read its sections; it printed: {answer.stderr.strip()}")
        return tuple(file.read_bytes() if file.exists() else b"" for file in files)
