"""A corpus from a finished build: the bitcode and the flags that clang embedded in its object files.

The build has to be made with `-Xclang -fembed-bitcode=all`; for distributed ThinLTO with
`-mllvm -lto-embed-bitcode=post-merge-pre-opt`; for local ThinLTO with `-Wl,--save-temps=import` and
`-Wl,--thinlto-emit-index-files`. Inputs, flags and results are those of LLVM's `extract_ir`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from mlgo_gym.corpus.allowed import check_arguments
from mlgo_gym.corpus.compilation import without_embedding
from mlgo_gym.corpus.description import UNSPECIFIED_OVERRIDE, parse_command, write_description
from mlgo_gym.corpus.flags import take_thinlto_index
from mlgo_gym.corpus.object_list import IMPORTED_SUFFIX, INDEX_SUFFIX, BuildObject, ObjectList
from mlgo_gym.corpus.sections import SectionReader, find_section_reader
from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.cache import write_atomically

THINLTO_BUILDS = ("distributed", "local")
"""The kinds of ThinLTO build that can be extracted."""

_THINLTO_INDEX = b"-fthinlto-index="


@dataclass(slots=True)
class Extraction:
    """What became of an extraction.

    Attributes:
        modules: the names of the modules of the corpus, in the order of the input.
        excluded: how many modules the filter left out.
        skipped: for each object that is missing in the corpus: which it is, and why.
    """

    modules: list[str] = field(default_factory=list)
    excluded: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Plan:
    output: Path
    thinlto_build: str | None
    matches: Callable[[str], object]
    sections: tuple[str, str]
    reader: SectionReader | None
    trust: bool


def extract_corpus(
    found: ObjectList,
    output: Path,
    *,
    thinlto_build: str | None = None,
    cmd_filter: str | None = None,
    llvm_objcopy: str | None = None,
    cmd_section: str = ".llvmcmd",
    bitcode_section: str = ".llvmbc",
    jobs: int | None = None,
    trust: bool = False,
    progress: Callable[[], object] = lambda: None,
) -> Extraction:
    """Make a corpus of the object files of a build, and say which are missing in it.

    Each module is written whole or not at all, and the description last. A call that was interrupted can be repeated;
    what is there and is what the object holds is kept, anything else is written again, and files that another kind of
    extraction has left beside a module are removed.

    Args:
        found: the object files.
        output: the corpus folder.
        thinlto_build: `"distributed"`: copy the index that each module's flags name; `"local"`: take what lld saved,
            which has no flags; None: no ThinLTO.
        cmd_filter: a regular expression; a module is taken if it matches in one of its flags.
        llvm_objcopy: the `llvm-objcopy` to use; None for pyelftools, where it is installed.
        cmd_section: the section with the flags.
        bitcode_section: the section with the bitcode.
        jobs: how many objects to work on at a time; all processors if None.
        trust: whether to take modules whatever their flags; else those that may do more than shape code are skipped.
        progress: called after each object.

    Raises:
        CorpusError: an argument is malformed, or there is nothing to extract.
        MissingExtraError: nothing is installed that reads sections.
    """
    if thinlto_build not in (None, *THINLTO_BUILDS):
        raise CorpusError(f"a ThinLTO build is one of {', '.join(THINLTO_BUILDS)}, found {thinlto_build!r}")
    if thinlto_build == "local" and cmd_filter is not None:
        raise CorpusError("a local ThinLTO build leaves no flags to filter by; leave --cmd_filter out")
    try:
        matches = re.compile(cmd_filter or "").search
    except re.error as error:
        raise CorpusError(f"--cmd_filter {cmd_filter!r} is no regular expression: {error}; correct it") from error
    reader = None if thinlto_build == "local" else find_section_reader(llvm_objcopy)
    plan = _Plan(output, thinlto_build, matches, (cmd_section, bitcode_section), reader, trust)
    extraction = Extraction(skipped=list(found.skipped))

    def extract(entry: BuildObject) -> bool | str:
        try:
            return _extract_local(entry, plan) if reader is None else _extract_embedded(entry, plan, reader)
        except (CorpusError, OSError) as error:
            return str(error)
        finally:
            progress()

    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        try:
            for entry, result in zip(found.objects, pool.map(extract, found.objects), strict=True):
                if isinstance(result, str):
                    extraction.skipped.append((entry.name, result))
                elif result:
                    extraction.modules.append(entry.name)
                else:
                    extraction.excluded += 1
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if not extraction.modules:
        first = f"; the first was skipped because {extraction.skipped[0][1]}" if extraction.skipped else ""
        raise CorpusError(
            f"no module came out of {len(found.objects)} objects, {extraction.excluded} of them left out by the filter"
            f"{first}"
        )
    write_description(
        output,
        extraction.modules,
        has_thinlto=thinlto_build is not None,
        global_command_override=UNSPECIFIED_OVERRIDE if thinlto_build == "local" else None,
    )
    return extraction


def _extract_embedded(entry: BuildObject, plan: _Plan, reader: SectionReader) -> bool:
    """Write a module of an object with embedded bitcode; return whether the filter takes it."""
    command, bitcode = reader.read(entry.path, plan.sections)
    flags = parse_command(command, entry.path)
    if flags.count("-cc1") > 1:
        raise CorpusError(
            f"{entry.path}: it holds {flags.count('-cc1')} modules; extract the objects it was linked from"
        )
    if not any(map(plan.matches, flags)):
        return False
    if not plan.trust:
        check_arguments(without_embedding(take_thinlto_index(flags)[0]), str(entry.path))
    if not bitcode:
        raise CorpusError(
            f"{entry.path}: the section with its bitcode is empty; build with -Xclang -fembed-bitcode=all"
        )
    if plan.thinlto_build == "distributed":
        _copy_index(entry, command, plan)
    else:
        (plan.output / f"{entry.name}{INDEX_SUFFIX}").unlink(missing_ok=True)  # of another kind of extraction
    _write(plan.output / f"{entry.name}.cmd", command)
    _write_bitcode(plan.output / f"{entry.name}.bc", bitcode, entry.path.stat().st_mtime_ns)
    return True


def _copy_index(entry: BuildObject, command: bytes, plan: _Plan) -> None:
    named = [flag for flag in command.split(b"\0") if flag.startswith(_THINLTO_INDEX)]
    if not named:
        raise CorpusError(
            f"{entry.path}: its flags have no -fthinlto-index=, so it is not of a distributed ThinLTO build"
        )
    index = entry.base / os.fsdecode(named[-1].removeprefix(_THINLTO_INDEX))
    try:
        data = index.read_bytes()
    except OSError as error:
        raise CorpusError(
            f"{entry.path}: its ThinLTO index is missing: {error}; give the right --obj_base_dir"
        ) from error
    _write(plan.output / f"{entry.name}{INDEX_SUFFIX}", data)


def _extract_local(entry: BuildObject, plan: _Plan) -> bool:
    """Copy a module that lld saved."""
    bitcode = Path(f"{entry.path}{IMPORTED_SUFFIX}")
    target = plan.output / f"{entry.name}.bc"
    (plan.output / f"{entry.name}.cmd").unlink(missing_ok=True)  # of another kind of extraction
    _write(plan.output / f"{entry.name}{INDEX_SUFFIX}", Path(f"{entry.path}{INDEX_SUFFIX}").read_bytes())
    _write_bitcode(target, bitcode.read_bytes(), bitcode.stat().st_mtime_ns)
    return True


def _write_bitcode(target: Path, data: bytes, modified: int) -> None:
    if not data:
        raise CorpusError(f"{target}: the section with its bitcode is empty; build with -Xclang -fembed-bitcode=all")
    if _write(target, data):
        os.utime(target, ns=(modified, modified))


def _write(target: Path, data: bytes) -> bool:
    """Write a file unless it holds just that already; return whether it was written."""
    if target.is_file() and target.stat().st_size == len(data) and target.read_bytes() == data:
        return False
    write_atomically(target, data)
    return True
