"""A corpus from a finished build, whose object files contain the bitcode and flags that clang embedded.

The build needs `-Xclang -fembed-bitcode=all`; for distributed ThinLTO `-mllvm -lto-embed-bitcode=post-merge-pre-opt`;
for local ThinLTO `-Wl,--save-temps=import` and `-Wl,--thinlto-emit-index-files`. Inputs, flags and results are those of
LLVM's `extract_ir`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.compilation import without_embedding
from mlgo_gym.corpus.flags import check_arguments, take_thinlto_index
from mlgo_gym.corpus.folder import (
    UNSPECIFIED_OVERRIDE,
    CorpusReport,
    format_counts,
    parse_command,
    write_description,
)
from mlgo_gym.corpus.recording.object_list import IMPORTED_SUFFIX, INDEX_SUFFIX, BuildObject, ObjectList
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.llvm.object_file import read_elf
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.temporary_folders import temporary_folder
from mlgo_gym.storage.untrusted_file import read_untrusted

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
        llvm_objcopy: name or path of `llvm-objcopy`, which reads the sections of other formats than ELF.
        cmd_section: section with the flags.
        bitcode_section: section with the bitcode.
        jobs: number of threads; by default one per CPU.
        trust_flags: whether to take modules whatever their flags; else those with refused flags are skipped.
        progress: called after each object.

    Raises:
        CorpusError: an argument is invalid, or no module was extracted.
    """
    if thinlto_build not in (None, *THINLTO_BUILDS):
        raise CorpusError(f"expected a ThinLTO build of {', '.join(THINLTO_BUILDS)}, got {thinlto_build!r}")
    if thinlto_build == "local" and cmd_filter is not None:
        raise CorpusError("expected no --cmd_filter with a local ThinLTO build, which has no flags; omit it")
    try:
        matches = re.compile(cmd_filter or "").search
    except re.error as error:
        raise CorpusError(f"expected a regular expression in --cmd_filter, got {cmd_filter!r}: {error}") from error
    reader = read_elf_sections if llvm_objcopy is None else partial(read_with_objcopy, _find_program(llvm_objcopy))
    report = CorpusReport(skipped=list(listed.skipped))

    def extract(entry: BuildObject) -> bool | str:
        try:
            if thinlto_build == "local":
                return _extract_local(entry, output)
            sections = reader(entry.path, (cmd_section, bitcode_section))
            has_index = thinlto_build == "distributed"
            return _extract_embedded(entry, output, sections, matches, has_index=has_index, trust_flags=trust_flags)
        except OSError as error:
            return error.strerror or str(error)
        except CorpusError as error:
            return str(error).removeprefix(f"{entry.path}: ")
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
        reasons = f"; skipped: {format_counts(report.reasons)}" if report.skipped else ""
        raise CorpusError(
            f"expected modules in {len(listed.objects)} objects, got none ({report.excluded} excluded by the filter)"
            f"{reasons}"
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
    sections: tuple[bytes, ...],
    matches: Callable[[str], object],
    *,
    has_index: bool,
    trust_flags: bool,
) -> bool:
    """Write a module of an object with embedded bitcode; return False if the filter excludes it."""
    command, bitcode = sections
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


def _find_program(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        raise CorpusError(f"expected a program, got {name!r}; omit --llvm_objcopy_path to read ELF objects without it")
    return program


def read_elf_sections(path: Path, names: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the bytes of each named section of an ELF file; raise `CorpusError` for a missing or damaged one."""
    try:
        sections = read_elf(read_untrusted(path)).named_sections()
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror or error}; build it again") from error
    except MlgoError as error:
        raise CorpusError(
            f"{path}: expected a complete ELF object: {error}; for other formats use --llvm_objcopy_path"
        ) from error
    missing = next((name for name in names if name not in sections), None)
    if missing is not None:
        raise CorpusError(
            f"{path}: expected a section {missing}, got none; build with -Xclang -fembed-bitcode=all (assembly has "
            "none)"
        )
    return tuple(bytes(sections[name]) for name in names)


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
