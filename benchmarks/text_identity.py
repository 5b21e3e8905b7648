"""Compares the code of recorded modules with the code of their sources, and tries flags of builds.

    python -m benchmarks.text_identity zstd lz4 brotli snappy
    python -m benchmarks.text_identity --flags

The first command prints, for each dataset, the modules whose executable sections differ. The bitcode is compiled with
its recorded flags; the source is compiled by the driver with the flags of the catalogue, in another folder. The second
command does the same for recorded builds of a C and a C++ source with one more flag each.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from elftools.elf.elffile import ELFFile

from benchmarks.measuring import command_line, write_json
from mlgo_gym.corpus.commands.driver import PORTABLE_TARGET, driver_options
from mlgo_gym.corpus.datasets.catalogue import find_dataset
from mlgo_gym.corpus.datasets.sources import compile_commands, fetch_archives, unpack_sources
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

SOURCES = [Path(__file__).with_name("sources") / name for name in ("table.c", "shapes.cpp")]
FLAGS = (
    """
-O0|-O3|-Wall -Wextra|-DNDEBUG|-fPIC|-fno-pic|-fno-plt|-fvisibility=hidden|-fsemantic-interposition|-mcmodel=large
-fno-omit-frame-pointer|-ffunction-sections|-fdata-sections|-fno-unique-section-names|-funique-internal-linkage-names
-fbasic-block-sections=all|-fsplit-machine-functions|-falign-functions=64|-mstack-alignment=32|-mno-red-zone|-mrelax-all
-ffast-math|-fno-math-errno|-fveclib=libmvec|-fno-builtin|-fno-strict-aliasing|-fwrapv|-ftrapv|-fmerge-all-constants
-fno-delete-null-pointer-checks|-fstrict-vtable-pointers|-fno-threadsafe-statics|-fgnu89-inline|-fcommon|-pthread
-fno-inline|-fno-vectorize|-fslp-vectorize|-funroll-loops|-fno-jump-tables|-fno-optimize-sibling-calls|-fopenmp-simd
-mllvm -inline-threshold=5|-Xclang -disable-llvm-passes|-fno-discard-value-names|-fno-addrsig|-fno-integrated-as
-mavx2|-mno-avx|-march=haswell|-march=native|-mtune=native|-mharden-sls=all|-mspeculative-load-hardening
-D_FORTIFY_SOURCE=2|-fstack-protector-strong|-fstack-clash-protection|-fcf-protection|-ftrivial-auto-var-init=zero
-fzero-call-used-regs=all|-fpatchable-function-entry=4|-fno-asynchronous-unwind-tables|-fverbose-asm|-save-temps
-g|-g -gsplit-dwarf|-g -fstandalone-debug|-g3 -gdwarf-4 -fdebug-types-section|-fdebug-info-for-profiling
-fpseudo-probe-for-profiling|-ffile-prefix-map=/tmp=/t|-fembed-bitcode=all|-flto|-flto=thin
-fprofile-generate|-fcs-profile-generate|-fprofile-instr-generate|-fprofile-instr-generate -fcoverage-mapping|--coverage
-pg|-finstrument-functions|-fxray-instrument -fxray-instruction-threshold=1|-fsave-optimization-record
-fsanitize=address|-fsanitize=undefined|-fsanitize=thread|-fsanitize=safe-stack|-fsanitize-coverage=trace-pc
-fexperimental-sanitize-metadata=all|-DSTAMP=__TIME__|-DSTAMP=__DATE__|-DSTAMP=__FILE__
""".strip()
    .replace("\n", "|")
    .split("|")
)
"""Flags that builds use; each is tried alone."""


def executable_sections(path: Path) -> Counter[tuple[str, bytes]]:
    """Count the executable sections of an object by name and contents."""
    with path.open("rb") as file:
        sections = (part for part in ELFFile(file).iter_sections() if part["sh_flags"] & 4)
        return Counter((part.name, part.data()) for part in sections)


def run(command: Sequence[str], folder: Path) -> str | None:
    """Run a compiler; return the first line of its error, or None."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[0]


def compile_module(module: Module, toolchain: Toolchain, output: Path) -> str | None:
    """Compile recorded bitcode with its recorded flags only."""
    words = ["-x", "ir", str(module.bitcode), "-o", str(output)]
    return run([*toolchain.command, *(module.flags or ()), *words], output.parent)


def driver(toolchain: Toolchain, language: str, target: str | None) -> tuple[list[str], list[str]]:
    """Return the first and the last words of a driver's command line."""
    before, after = driver_options(toolchain, target)
    mode = "g++" if language == "C++" else "gcc"
    return [*toolchain.command, f"--driver-mode={mode}", *before], after


def compare_dataset(name: str, optimize: str, toolchain: Toolchain, jobs: int) -> dict[str, object]:
    """Compare every module of a dataset with its source."""
    corpus = open_corpus(f"{name}@{optimize}", toolchain=toolchain)
    dataset = find_dataset(name)
    with tempfile.TemporaryDirectory() as scratch:
        folder = unpack_sources(dataset, fetch_archives(dataset), Path(scratch) / "source")
        commands = {command[3]: command for command in compile_commands(dataset, folder)}

        def compare(module: Module) -> str:
            output = Path(scratch) / module.name.replace("/", "%")
            direct, recorded = output.with_suffix(".direct.o"), output.with_suffix(".recorded.o")
            start, end = driver(toolchain, "C", PORTABLE_TARGET)
            words = [word for word in commands[module.name] if word != module.name]
            words.remove("-o")
            problem = run([*start, *words, *end, "-w", f"-{optimize}", "-o", str(direct)], folder)
            problem = problem or compile_module(module, toolchain, recorded)
            return problem or verdict(direct, recorded)

        with ThreadPoolExecutor(jobs) as pool:
            verdicts = dict(zip(corpus.names, pool.map(compare, corpus), strict=True))
    differing = {module: found for module, found in verdicts.items() if found != "identical"}
    return {"dataset": name, "level": optimize, "modules": len(verdicts), "differing": differing}


def compare_flag(flag: str, optimize: str, toolchain: Toolchain) -> dict[str, str]:
    """Record the sources with a flag, and compare each module with its source compiled with the same flag."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        folder.mkdir()
        copies = [Path(shutil.copy(source, folder)) for source in SOURCES]
        return {copy.name: compare_source(copy, flag, optimize, toolchain) for copy in copies}


def compare_source(source: Path, flag: str, optimize: str, toolchain: Toolchain) -> str:
    """Record the compile of one source, and compare its module with the source."""
    compiler, language = ("cc", "C") if source.suffix == ".c" else ("c++", "C++")
    folder, name = source.parent, source.name
    direct, recorded, log = (folder.with_name(name + ending) for ending in (".direct.o", ".recorded.o", ".log"))
    command = [compiler, *flag.split(), "-c", str(source), "-o", f"{name}.o"]
    corpus = folder.with_name(name)
    try:
        recording = record_build(
            command,
            corpus,
            optimize=optimize,
            toolchain=toolchain,
            folder=folder,
            log=log,
            keep_interrupted=False,
        )
    except CorpusError:
        lines = log.read_text().strip().splitlines()
        return f"not compiled: {lines[0]}" if lines else "no compile to an object"
    if not recording.modules:
        return f"not recorded: {recording.failures[0].message.splitlines()[0]}"
    (module,) = open_corpus(corpus, toolchain=toolchain)
    start, end = driver(toolchain, language, None)
    words = [*start, *flag.split(), "-c", str(source), *end, "-w", f"-{optimize}", "-o", str(direct)]
    return run(words, folder) or compile_module(module, toolchain, recorded) or verdict(direct, recorded)


def verdict(direct: Path, recorded: Path) -> str:
    """Return `identical`, or the number of executable sections that differ."""
    if direct.read_bytes()[:4] != b"\x7fELF":
        return "no machine code"
    first, second = executable_sections(direct), executable_sections(recorded)
    return "identical" if first == second else f"{(first - second).total()} of {first.total()} sections differ"


def main() -> None:
    """Compare, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("datasets", nargs="*", help="datasets of the catalogue")
    parser.add_argument("--flags", action="store_true", help="try all flags of this program's list")
    parser.add_argument("--flag", action="append", default=[], help="try these flags, with blanks between; repeatable")
    parser.add_argument("--optimize", default="Oz", help="level (default: Oz)")
    parser.add_argument("--clang", default="bundled", help="the compiler (default: the bundled one)")
    parser.add_argument("--jobs", type=int, default=2, help="number of threads (default: 2)")
    parser.add_argument("--json", type=Path, help="JSON file to write")
    options = parser.parse_args()
    toolchain = find_toolchain(options.clang)
    results: dict[str, object] = {"clang": toolchain.version_text}
    for name in options.datasets:
        outcome = compare_dataset(name, options.optimize, toolchain, options.jobs)
        differing = outcome["differing"]
        assert isinstance(differing, dict)
        print(f"{name} at -{options.optimize}: {outcome['modules']} modules, {len(differing)} differ", flush=True)
        for module, found in differing.items():
            print(f"    {module}: {found}")
        results[name] = outcome
    flags = [*(FLAGS if options.flags else ()), *options.flag]
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = pool.map(lambda flag: compare_flag(flag, options.optimize, toolchain), flags)
        for flag, verdicts in zip(flags, outcomes, strict=True):
            print(f"{flag or '(none)':55} {'; '.join(dict.fromkeys(verdicts.values()))}", flush=True)
            results[flag] = verdicts
    write_json(options.json, results)


if __name__ == "__main__":
    main()
