"""A corpus from a finished build, whose object files contain the bitcode and flags that clang embedded.

The build needs `-Xclang -fembed-bitcode=all`; for distributed ThinLTO `-mllvm -lto-embed-bitcode=post-merge-pre-opt`.
Inputs, flags and results are those of LLVM's `extract_ir`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mlgo_clang.files import read_untrusted
from mlgo_gym.corpus.compilation import without_embedding
from mlgo_gym.corpus.flags import check_arguments, take_thinlto_index
from mlgo_gym.corpus.folder import CorpusReport, format_counts, parse_command, write_description
from mlgo_gym.corpus.recording.object_list import BuildObject, ObjectList
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.llvm.object_file import read_elf
from mlgo_gym.storage.cache import write_atomically

_THINLTO_INDEX = b"-fthinlto-index="


def extract_corpus(
    listed: ObjectList,
    output: Path,
    *,
    cmd_filter: str | None = None,
    jobs: int | None = None,
    trust_flags: bool = False,
    progress: Callable[[], object] = lambda: None,
) -> CorpusReport:
    """Write a corpus of the object files of a build.

    Each file is written atomically, and the description last. An interrupted call can be repeated: unchanged files
    stay. The index of a distributed ThinLTO build, which the flags of a module name, is copied.

    Args:
        listed: object files.
        output: corpus folder.
        cmd_filter: regular expression; modules without a matching flag are excluded.
        jobs: number of threads; by default one per CPU.
        trust_flags: whether to take modules whatever their flags; else those with refused flags are skipped.
        progress: called after each object.

    Raises:
        CorpusError: the filter is invalid, or no module was extracted.
    """
    try:
        matches = re.compile(cmd_filter or "").search
    except re.error as error:
        raise CorpusError(f"expected a regular expression in --cmd_filter, got {cmd_filter!r}: {error}") from error
    report = CorpusReport(skipped=list(listed.skipped))

    def extract(entry: BuildObject) -> bool | str:
        try:
            return _extract(entry, output, matches, trust_flags=trust_flags)
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
    has_thinlto = any((output / f"{name}.thinlto.bc").exists() for name in report.modules)
    write_description(output, report.modules, has_thinlto=has_thinlto)
    return report


def _extract(entry: BuildObject, output: Path, matches: Callable[[str], object], *, trust_flags: bool) -> bool:
    """Write the module of an object, with the time of the object; return False if the filter excludes it."""
    command, bitcode = read_elf_sections(entry.path, (".llvmcmd", ".llvmbc"))
    flags = parse_command(command, entry.path)
    if flags.count("-cc1") > 1:
        raise CorpusError(
            f"{entry.path}: expected one module, got {flags.count('-cc1')}; extract the objects it was linked from"
        )
    if not any(map(matches, flags)):
        return False
    plain, has_index = take_thinlto_index(flags)
    if not trust_flags:
        check_arguments(without_embedding(plain), str(entry.path))
    if not bitcode:
        raise CorpusError(
            f"{entry.path}: expected bitcode, got an empty section; build with -Xclang -fembed-bitcode=all"
        )
    index = output / f"{entry.name}.thinlto.bc"
    if has_index:
        named = [flag for flag in command.split(b"\0") if flag.startswith(_THINLTO_INDEX)]
        try:
            data = (entry.base / os.fsdecode(named[-1].removeprefix(_THINLTO_INDEX))).read_bytes()
        except OSError as error:
            raise CorpusError(f"{entry.path}: its ThinLTO index is missing: {error}; build it again") from error
        _write(index, data)
    else:
        index.unlink(missing_ok=True)
    _write(output / f"{entry.name}.cmd", command)
    if _write(output / f"{entry.name}.bc", bitcode):
        modified = entry.path.stat().st_mtime_ns
        os.utime(output / f"{entry.name}.bc", ns=(modified, modified))
    return True


def _write(target: Path, data: bytes) -> bool:
    """Write a file and return True, or return False if it has that content already."""
    if target.is_file() and target.stat().st_size == len(data) and target.read_bytes() == data:
        return False
    write_atomically(target, data)
    return True


def read_elf_sections(path: Path, names: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the bytes of each named section of an ELF file; raise `CorpusError` for a missing or damaged one."""
    try:
        sections = read_elf(read_untrusted(path)).named_sections()
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror or error}; build it again") from error
    except MlgoError as error:
        raise CorpusError(
            f"{path}: expected a complete ELF object: {error}; LLVM's extract_ir reads other formats"
        ) from error
    missing = next((name for name in names if name not in sections), None)
    if missing is not None:
        raise CorpusError(
            f"{path}: expected a section {missing}, got none; build with -Xclang -fembed-bitcode=all (assembly has "
            "none)"
        )
    return tuple(bytes(sections[name]) for name in names)
