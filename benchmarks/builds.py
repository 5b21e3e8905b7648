"""Size, tests and CPU time of real projects, built by plain clang and with bundled policies, recipes or plugins.

    apt-get source --download-only pcre2 yaml-cpp; apt-get install googletest cmake make
    pip download --no-deps --no-binary :all: libsass==0.23.0
    python -m benchmarks.builds --pcre2 pcre2_10.42.orig.tar.gz --yaml-cpp yaml-cpp_0.7.0+dfsg.orig.tar.xz \
        --libsass libsass-0.23.0.tar.gz

Prints the bytes of the executable sections of all objects and of the linked programs, the outcome of the project's own
tests, and the CPU time of `-j2` builds: the least of several, in turn. PCRE2 is C with Autotools and make, yaml-cpp is
C++ with CMake, libsass is C++ with make and without tests. Each is configured once. `--files 12` also times the
compiles of the twelve files that plain clang compiles fastest, in turn with the other variants. With another clang,
plugins of policies can be compared:

    python -m benchmarks.builds --yaml-cpp yaml-cpp_0.7.0+dfsg.orig.tar.xz --variants plain --clang clang-22 \
        --llvm-config llvm-config-22 --plugins inline-oz inline-oz-fast
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, cpu_seconds, write_json
from mlgo_clang.compiler import compiler_command
from mlgo_clang.counters import parse
from mlgo_gym.deploy.decision_code import decision_code
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.llvm.object_file import object_sizes

RECIPES = "recipes"
POLICIES = {"fast": "inline-{level}-fast", "callees": "inline-{level}", "smallest": "smallest"}
VARIANTS = ("plain", *POLICIES, RECIPES)
GOOGLETEST = Path("/usr/src/googletest")
SECTIONS = "-ffunction-sections -fdata-sections"
LINK = "-Wl,--gc-sections"


@dataclass(frozen=True)
class Project:
    """The commands of a project, which run in its build folder.

    Attributes:
        name: its name.
        level: its level, for instance `Os`.
        configure: configures it; `{source}`, `{cc}`, `{cxx}` and `{flags}` are filled in.
        build: builds the library and its programs.
        build_tests: builds the remaining parts of the tests.
        test: runs its tests; empty if it has none.
        clean: removes the build.
        objects: patterns of the objects of the library and the programs.
        programs: the linked programs.
    """

    name: str
    level: str
    configure: str
    build: str
    build_tests: str
    test: str
    clean: str
    objects: tuple[str, ...]
    programs: tuple[str, ...]


PROJECTS = {
    "pcre2": Project(
        "pcre2",
        "Os",
        "{source}/configure --disable-shared --disable-dependency-tracking CC={cc} CFLAGS='{flags}' LDFLAGS={link}",
        "make -j2",
        "true",
        "make check",
        "make clean",
        ("src/*.o",),
        ("pcre2grep", "pcre2test"),
    ),
    "yaml-cpp": Project(
        "yaml-cpp",
        "Oz",
        "cmake {source} -DCMAKE_CXX_COMPILER={cxx} -DCMAKE_C_COMPILER={cc} -DCMAKE_BUILD_TYPE=None "
        "-DCMAKE_CXX_FLAGS='{flags} -DNDEBUG' -DCMAKE_EXE_LINKER_FLAGS={link} -DYAML_CPP_BUILD_TESTS=ON",
        "make -j2 yaml-cpp yaml-cpp-parse yaml-cpp-read yaml-cpp-sandbox",
        "make -j2",
        "ctest --output-on-failure",
        "find . -name *.o -not -path ./test/* -delete",
        ("CMakeFiles/yaml-cpp.dir/**/*.o", "util/**/*.o"),
        ("util/parse", "util/read", "util/sandbox"),
    ),
    "libsass": Project(
        "libsass",
        "Oz",
        "sh -c \"cp -r {source}/libsass/. . && printf '%s\\n' 'CC={cc}' 'CXX={cxx}' "
        "'override CFLAGS={flags} -fPIC -Iinclude' 'override CXXFLAGS={flags} -std=c++11 -fPIC -Iinclude' "
        "'override LDFLAGS={link}' 'include Makefile' > flags.mk\"",
        "make -f flags.mk -j2 lib/libsass.so",
        "true",
        "",
        "make -f flags.mk clean",
        ("src/*.o",),
        ("lib/libsass.so",),
    ),
}


@dataclass
class Outcome:
    """Results of one variant.

    Attributes:
        objects: number of objects.
        object_text: bytes of their executable sections.
        programs: bytes of the executable sections of each linked program.
        tests: whether the project's tests passed; None if they did not run.
        seconds: CPU time of each build.
        counters: counters of `mlgo-clang` in the first build.
    """

    objects: int = 0
    object_text: int = 0
    programs: dict[str, int] = field(default_factory=dict)
    tests: bool | None = None
    seconds: list[float] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


class Bench:
    """A configured project.

    Args:
        project: the project.
        source: its tar file.
        work: folder of all projects.
        clang: the compiler, as for `mlgo-clang`.
        plugins: pass plugins by name; each is a variant.
    """

    def __init__(self, project: Project, source: Path, work: Path, clang: str, plugins: Mapping[str, Path]) -> None:
        self.project = project
        self.clang = clang
        self.plugins = plugins
        self.folder = work / project.name
        self.build = self.folder / "build"
        self.cache = self.folder / "cache"
        self.recipes = self.folder / "recipes"
        self.compiles = self.folder / "compiles"
        work.mkdir(parents=True, exist_ok=True)
        self.log = (work / f"{project.name}.log").open("ab")
        if not self.build.exists():
            self._prepare(source)

    def _prepare(self, source: Path) -> None:
        self.folder.mkdir(parents=True)
        with tarfile.open(source) as archive:
            archive.extractall(self.folder / "unpacked", filter="tar")
        (unpacked,) = (self.folder / "unpacked").iterdir()
        unpacked.rename(self.folder / "source")
        if self.project.name == "yaml-cpp" and not (self.folder / "source/test/gtest-1.10.0").exists():
            # Debian removes the copy of a library that it has as a package.
            (self.folder / "source/test/gtest-1.10.0").symlink_to(GOOGLETEST)
        for name, variable in (("cc", "BENCH_CC"), ("c++", "BENCH_CXX")):
            script = self.folder / name
            # Each compile can be repeated: a line has its folder and its words.
            keep = f'printf "%s\\037" "$PWD" {variable} "$@" >> "$BENCH_LOG"; echo >> "$BENCH_LOG"'
            script.write_text(f'#!/bin/sh\n[ -z "$BENCH_LOG" ] || {{ {keep}; }}\nexec ${variable} "$@"\n')
            script.chmod(0o755)
        self.build.mkdir()
        level = f"-{self.project.level}"
        words = {"source": "../source", "cc": self.folder / "cc", "cxx": self.folder / "c++", "link": LINK}
        self.run(self.project.configure.format(**words, flags=f"{level} {SECTIONS}"), "plain")

    def environment(self, variant: str, search: int = 0) -> Mapping[str, str]:
        """Return the environment variables of a variant."""
        commands = [[*compiler_command(self.clang, mode)] for mode in ("gcc", "g++")]
        if variant in self.plugins:
            commands = [[*command, f"-fpass-plugin={self.plugins[variant]}"] for command in commands]
        elif variant != "plain":
            scripts = Path(sys.executable).parent
            commands = [[str(scripts / "mlgo-clang")], [str(scripts / "mlgo-clang++")]]
        extra = {}
        if variant == RECIPES:
            extra = {"MLGO_RECIPES": str(self.recipes), "MLGO_SEARCH": str(search)}
        elif variant in POLICIES:
            extra = {"MLGO_POLICY": POLICIES[variant].format(level=self.project.level.lower())}
        cc, cxx = map(shlex.join, commands)
        variables = {
            "BENCH_LOG": str(self.compiles),
            "BENCH_CC": cc,
            "BENCH_CXX": cxx,
            "MLGO_CACHE": str(self.cache),
            "MLGO_CLANG": self.clang,
        }
        return {**os.environ, **variables, **extra}

    def run(self, command: str, variant: str, search: int = 0, *, check: bool = True) -> tuple[int, float]:
        """Run a command in the build folder; return its exit status and its CPU seconds."""
        start = cpu_seconds()
        words, variables = shlex.split(command), self.environment(variant, search)
        done = subprocess.run(
            words,
            cwd=self.build,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            check=check,
        )
        return done.returncode, cpu_seconds() - start

    def make(self, variant: str, outcome: Outcome, search: int = 0, jobs: int = 2) -> None:
        """Clean and build, and add the time to the outcome."""
        self.run(self.project.clean, variant)
        command = self.project.build.replace("-j2", f"-j{jobs}")
        outcome.seconds.append(self.run(command, variant, search)[1])

    def measure(self, variant: str, outcome: Outcome, *, tests: bool) -> None:
        """Add the sizes of the last build and the outcome of the tests."""
        objects = [path for pattern in self.project.objects for path in self.build.glob(pattern)]
        outcome.objects = len(objects)
        outcome.object_text = sum(object_sizes(path.read_bytes()).text for path in objects)
        outcome.programs = {name: object_sizes((self.build / name).read_bytes()).text for name in self.project.programs}
        outcome.counters = self.counters()
        if tests and self.project.test:
            self.run(self.project.build_tests, variant)
            outcome.tests = self.run(self.project.test, variant, check=False)[0] == 0

    def file_seconds(self, variants: Sequence[str], number: int, rounds: int = 5) -> dict[str, dict[str, float]]:
        """Return the CPU seconds of each variant for some files: those that plain clang compiles fastest.

        Each figure is the least of several, in turn.
        """
        compiles: dict[str, list[str]] = {}
        for line in self.compiles.read_text().splitlines():
            words = line.split("\037")[:-1]
            sources = [word for word in words if word.endswith((".c", ".cpp"))]
            folder = Path(words[0]) if words else Path()
            if "-c" in words and len(sources) == 1 and folder.is_dir() and (folder / sources[0]).exists():
                compiles[Path(sources[0]).name] = words
        environments = {variant: self.environment(variant) for variant in variants}

        def seconds(variant: str, words: Sequence[str]) -> float:
            compiler = shlex.split(environments[variant][words[1]])
            start = cpu_seconds()
            command = [*compiler, *words[2:]]
            subprocess.run(command, cwd=words[0], env=environments[variant], stderr=self.log, check=True)
            return cpu_seconds() - start

        plain = {name: seconds("plain", words) for name, words in compiles.items()}
        found = {}
        for name in sorted(plain, key=plain.__getitem__)[:number]:
            times = [{variant: seconds(variant, compiles[name]) for variant in variants} for _ in range(rounds)]
            found[name] = {variant: min(each[variant] for each in times) for variant in variants}
        return found

    def counters(self) -> dict[str, int]:
        """Return and reset the counters of `mlgo-clang`."""
        path = self.cache / "mlgo-clang" / "counters"
        counts = parse(path.read_bytes()) if path.exists() else {}
        path.unlink(missing_ok=True)
        return counts


def build_plugins(work: Path, options: argparse.Namespace) -> dict[str, Path]:
    """Build the plugins of the named policies."""
    plugins = {f"plugin {policy}": work / f"{policy}.so" for policy in options.plugins}
    for policy, path in zip(options.plugins, plugins.values(), strict=True):
        build_plugin(decision_code(policy, callee_features=True), installed_llvm(options.llvm_config), path)
    return plugins


def measure_all(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """Build a project in all variants; return the outcomes."""
    variants = [variant for variant in VARIANTS if variant in ("plain", *options.variants)]
    outcomes = {variant: Outcome() for variant in (*variants, *bench.plugins)}
    first = Outcome()
    # The first build also compiles the policy's native code, and searches for recipes.
    if RECIPES in outcomes:
        bench.make(RECIPES, first, options.search, options.search_jobs)
        print(f"{bench.project.name}: searched in {first.seconds[0]:.0f} s of CPU time", flush=True)
    else:
        bench.make(variants[-1], first)
    bench.counters()
    for number in range(options.rounds):
        for variant, outcome in outcomes.items():
            bench.make(variant, outcome)
            if number == 0:
                bench.measure(variant, outcome, tests=not options.no_tests)
    return {
        "level": bench.project.level,
        "search": options.search,
        "search_seconds": first.seconds[0] if RECIPES in outcomes else None,
        "variants": {variant: vars(outcome) for variant, outcome in outcomes.items()},
        "files": bench.file_seconds([name for name in outcomes if name != RECIPES], options.files)
        if options.files
        else {},
    }


def show(title: str, row: Mapping[str, Any]) -> None:
    """Print the table of a project."""
    variants: Mapping[str, Mapping[str, Any]] = row["variants"]
    plain = variants["plain"]
    print(f"\n{title}, {plain['objects']} objects: bytes of executable sections, CPU time against plain")
    columns = {name.rpartition("/")[2]: ">18" for name in plain["programs"]}
    table = Table({"": "<24", "objects": ">18", **columns, "time": ">5.2f", "tests": "<5"})
    for variant, found in variants.items():
        cells = [_cell(found["object_text"], plain["object_text"])]
        cells += [_cell(found["programs"][name], size) for name, size in plain["programs"].items()]
        tests = {True: "pass", False: "FAIL", None: "-"}[found["tests"]]
        table.row(variant, *cells, min(found["seconds"]) / min(plain["seconds"]), tests)
    if row["files"]:
        print("\nfastest files: CPU milliseconds of plain clang, and more of the others")
        others = [variant for variant in variants if variant != RECIPES][1:]
        table = Table({"": "<28", "plain": ">8.0f", **dict.fromkeys(others, ">+18.0f")})
        for name, found in row["files"].items():
            table.row(name, *[1000 * (found[other] - found["plain"] * (other != "plain")) for other in found])


def _cell(value: int, plain: int) -> str:
    return f"{value:,} {value / plain - 1:+.2%}"


def main() -> None:
    """Build each project in all variants, print, write."""
    if shutil.which("make") is None:
        sys.exit("make is not installed; install it, for instance with apt-get install make")
    parser = command_line(__doc__)
    for name in PROJECTS:
        parser.add_argument(f"--{name}", type=Path, metavar="TAR", help=f"the sources of {name}")
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS, help="`plain` is always built")
    parser.add_argument("--search", type=int, default=10, help="compiles per module of a search (default: 10)")
    parser.add_argument("--search-jobs", type=int, default=2, help="searches at the same time (default: 2)")
    parser.add_argument("--rounds", type=int, default=2, help="timed builds per variant (default: 2)")
    parser.add_argument("--files", type=int, default=0, help="files whose compiles are timed (default: 0)")
    parser.add_argument("--clang", default="bundled", help="the compiler of all builds")
    parser.add_argument("--plugins", nargs="+", default=[], metavar="POLICY", help="also build with their plugins")
    parser.add_argument("--llvm-config", default="llvm-config", help="the compiler's llvm-config, for plugins")
    parser.add_argument("--level", help="another level than the project's own")
    parser.add_argument("--no-tests", action="store_true", help="do not run the projects' tests")
    parser.add_argument("--work", type=Path, help="folder of the builds; an existing one is resumed")
    parser.add_argument("--output", type=Path, help="JSON file to extend")
    options = parser.parse_args()
    rows: dict[str, Any] = json.loads(options.output.read_bytes()) if options.output and options.output.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)).absolute()
        for name, project in PROJECTS.items():
            source = getattr(options, name.replace("-", "_"))
            if source is None:
                continue
            project = replace(project, level=options.level or project.level)
            work.mkdir(parents=True, exist_ok=True)
            plugins = build_plugins(work, options)
            bench = Bench(project, source.absolute(), work / project.level, options.clang, plugins)
            title = f"{name} -{project.level}" + ("" if options.clang == "bundled" else f", {options.clang}")
            rows[title] = row = measure_all(bench, options)
            show(title, row)
            write_json(options.output, rows)


if __name__ == "__main__":
    main()
