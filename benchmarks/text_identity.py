"""Whether a recorded module compiles to the code of its source, and which flags of a build get in the way.

    python benchmarks/text_identity.py zstd lz4 brotli snappy
    python benchmarks/text_identity.py --flags

The first takes each module of datasets: its bitcode is compiled with its recorded flags, its source is compiled by the
driver with the flags of the catalogue at the same level, in another folder, and the executable sections of both objects
are compared byte for byte. The second does so for builds of a C and a C++ source with one more flag each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from elftools.elf.elffile import ELFFile

from mlgo_gym.corpus.catalogue import find_dataset
from mlgo_gym.corpus.driver_options import PORTABLE_TARGET, driver_options
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.record import record_build
from mlgo_gym.corpus.sources import compile_commands, fetch_archives, unpack_sources
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

SOURCES = {
    "table.c": r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct entry { struct entry *next; unsigned key; char name[24]; };
static struct entry *table[64];
static unsigned hash(const char *text) {
  unsigned h = 5381;
  while (*text) h = h * 33 + (unsigned char)*text++;
  return h;
}
static struct entry *find(const char *name) {
  struct entry *e = table[hash(name) % 64];
  while (e && strcmp(e->name, name)) e = e->next;
  return e;
}
int insert(const char *name) {
  if (find(name)) return 0;
  struct entry *e = malloc(sizeof *e);
  if (!e) { fprintf(stderr, "%s: out of memory\n", __FILE__); abort(); }
  e->key = hash(name);
  strncpy(e->name, name, sizeof e->name - 1);
  e->next = table[e->key % 64];
  table[e->key % 64] = e;
  return 1;
}
double mean(const double *values, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += values[i] / count;
  return sum;
}
void swap(int *values, int count) {
  int copy[count];
  for (int i = 0; i < count; i++) copy[i] = values[count - 1 - i];
  memcpy(values, copy, sizeof copy);
}
#ifdef STAMP
int stamp(void) { return STAMP[0] * sizeof STAMP; }
#endif
""",
    "shapes.cpp": r"""
struct Shape { virtual ~Shape() {} virtual double area() const = 0; };
struct Square : Shape { double side = 0; double area() const override { return side * side; } };
template <typename T> struct List {
  T *items = nullptr; int count = 0, room = 0;
  ~List() { delete[] items; }
  void add(const T &item) {
    if (count == room) {
      T *larger = new T[room = room * 2 + 4];
      for (int i = 0; i < count; i++) larger[i] = items[i];
      delete[] items;
      items = larger;
    }
    items[count++] = item;
  }
};
static int next() { static int number = 7; return ++number; }
double total(Shape **shapes, int count) {
  List<double> areas;
  for (int i = 0; i < count; i++)
    if (auto *square = dynamic_cast<Square *>(shapes[i])) areas.add(square->area() * next());
  if (!areas.count) throw count;
  double sum = 0;
  auto add = [&](double area) { sum += area; };
  for (int i = 0; i < areas.count; i++) add(areas.items[i]);
  return sum;
}
int safely(Shape **shapes, int count) { try { return total(shapes, count) > 1; } catch (int) { return -1; } }
""",
}
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
"""What a build may be called with, one by one."""


def executable_sections(path: Path) -> Counter[tuple[str, bytes]]:
    """Return name and contents of each executable section of an object, as often as it is there."""
    with path.open("rb") as file:
        sections = (part for part in ELFFile(file).iter_sections() if part["sh_flags"] & 4)
        return Counter((part.name, part.data()) for part in sections)


def run(command: Sequence[str], folder: Path) -> str | None:
    """Run a compiler; return what it says where it fails."""
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return None if answer.returncode == 0 else answer.stderr.strip().splitlines()[0]


def compile_module(module: Module, toolchain: Toolchain, output: Path) -> str | None:
    """Compile recorded bitcode with its recorded flags and nothing else."""
    return run(
        [*toolchain.command, *(module.flags or ()), "-x", "ir", str(module.bitcode), "-o", str(output)], output.parent
    )


def driver(toolchain: Toolchain, language: str, target: str | None) -> tuple[list[str], tuple[str, ...]]:
    """Return the start of a driver's command line, and its end."""
    options = driver_options(toolchain, target)
    mode = "g++" if language == "C++" else "gcc"
    return [*toolchain.command, f"--driver-mode={mode}", *options.before], options.after


def compare_dataset(name: str, optimize: str, toolchain: Toolchain, jobs: int) -> dict[str, object]:
    """Compare every module of a dataset with its source."""
    corpus = open_corpus(f"{name}@{optimize}", toolchain=toolchain)
    dataset = find_dataset(name)
    with tempfile.TemporaryDirectory() as scratch:
        folder = unpack_sources(dataset, fetch_archives(dataset), Path(scratch) / "source")
        commands = {command[3]: command for command in compile_commands(dataset, folder)}

        def compare(module: Module) -> str:
            output = Path(scratch) / module.name.replace("/", "%")
            direct, again = output.with_suffix(".direct.o"), output.with_suffix(".again.o")
            start, end = driver(toolchain, "C", PORTABLE_TARGET)
            words = [word for word in commands[module.name] if word != module.name]
            words.remove("-o")
            problem = run([*start, *words, *end, "-w", f"-{optimize}", "-o", str(direct)], folder)
            problem = problem or compile_module(module, toolchain, again)
            return problem or verdict(direct, again)

        with ThreadPoolExecutor(jobs) as pool:
            verdicts = dict(zip(corpus.names, pool.map(compare, corpus), strict=True))
    differing = {module: said for module, said in verdicts.items() if said != "identical"}
    return {"dataset": name, "level": optimize, "modules": len(verdicts), "differing": differing}


def compare_flag(flag: str, optimize: str, toolchain: Toolchain) -> dict[str, str]:
    """Record the sources with a flag, and compare each module with its source compiled with the same flag."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        folder.mkdir()
        for name, text in SOURCES.items():
            (folder / name).write_text(text)
        return {name: compare_source(folder, name, flag, optimize, toolchain) for name in SOURCES}


def compare_source(folder: Path, name: str, flag: str, optimize: str, toolchain: Toolchain) -> str:
    """Record the compile of one source, and compare its module with the source."""
    compiler, language = ("cc", "C") if name.endswith(".c") else ("c++", "C++")
    corpus, log = folder.with_name(name), folder.with_name(f"{name}.log")
    direct, again = folder.with_name(f"{name}.direct.o"), folder.with_name(f"{name}.again.o")
    source = str(folder / name)
    command = [compiler, *flag.split(), "-c", source, "-o", f"{name}.o"]
    try:
        build = record_build(command, corpus, optimize=optimize, toolchain=toolchain, folder=folder, log=log)
    except CorpusError:
        said = log.read_text().strip().splitlines()
        return f"not compiled: {said[0]}" if said else "no compile to an object"
    if not build.recording.modules:
        return f"not recorded: {build.recording.failures[0].message.splitlines()[0]}"
    (module,) = open_corpus(corpus, toolchain=toolchain)
    start, end = driver(toolchain, language, None)
    problem = run([*start, *flag.split(), "-c", source, *end, "-w", f"-{optimize}", "-o", str(direct)], folder)
    return problem or compile_module(module, toolchain, again) or verdict(direct, again)


def verdict(direct: Path, again: Path) -> str:
    """Return whether two objects have equal executable sections, and how many have not."""
    if direct.read_bytes()[:4] != b"\x7fELF":
        return "the build makes no machine code"
    first, second = executable_sections(direct), executable_sections(again)
    return "identical" if first == second else f"{(first - second).total()} of {first.total()} sections differ"


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--flags", action="store_true", help="try the flags of builds that are listed here")
    parser.add_argument("--flag", action="append", default=[], help="try this flag, or these with blanks between")
    parser.add_argument("--optimize", default="Oz")
    parser.add_argument("--clang", default="bundled")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    toolchain = find_toolchain(arguments.clang)
    results: dict[str, object] = {"clang": toolchain.version_text}
    for name in arguments.datasets:
        outcome = compare_dataset(name, arguments.optimize, toolchain, arguments.jobs)
        differing = outcome["differing"]
        assert isinstance(differing, dict)
        print(f"{name} at -{arguments.optimize}: {outcome['modules']} modules, {len(differing)} differ", flush=True)
        for module, said in differing.items():
            print(f"    {module}: {said}")
        results[name] = outcome
    flags = [*(FLAGS if arguments.flags else ()), *arguments.flag]
    if flags:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            outcomes = pool.map(lambda flag: compare_flag(flag, arguments.optimize, toolchain), flags)
            for flag, verdicts in zip(flags, outcomes, strict=True):
                print(f"{flag or '(none)':55} {'; '.join(dict.fromkeys(verdicts.values()))}", flush=True)
                results[flag] = verdicts
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
