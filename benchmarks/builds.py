"""Two real projects built by plain clang, with the policy in the box, with the smallest of four, and with recipes.

PCRE2 is C with Autotools and make, yaml-cpp is C++ with CMake. Each is configured once, and built again and again with
nothing changed but who decides: the executable sections of all objects and of the linked programs, the project's own
test suite (its own sources are compiled once), and the processor time of `-j2` builds, interleaved, of which the least
of several counts. Prints tables, and writes JSON with --output.

    apt-get source --download-only pcre2 yaml-cpp; apt-get install googletest cmake make
    python benchmarks/builds.py --pcre2 pcre2_10.42.orig.tar.gz --yaml-cpp yaml-cpp_0.7.0+dfsg.orig.tar.xz

With another clang, which may load plugins (`mlgo-gym export plugin`), one for each policy that is named:

    python benchmarks/builds.py --yaml-cpp yaml-cpp_0.7.0+dfsg.orig.tar.xz --variants plain calls --clang clang-22 \
        --llvm-config llvm-config-22 --plugins inline-oz-calls inline-oz-plain
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlgo_clang.compiler import compiler_command
from mlgo_clang.counters import parse
from mlgo_gym.deploy.decision_code import decision_code
from mlgo_gym.deploy.exported_policy import network_path
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.llvm.object_file import object_sizes

RECIPES = "recipes"
POLICIES = {"smallest": "smallest", "calls": "inline-{level}-calls"}
VARIANTS = ("plain", "policy", *POLICIES, RECIPES)
GOOGLETEST = Path("/usr/src/googletest")
SECTIONS = "-ffunction-sections -fdata-sections"
LINK = "-Wl,--gc-sections"


@dataclass(frozen=True)
class Project:
    """How a project is configured, built and tested.

    Attributes:
        name: the project's name.
        level: the level that it is built at, for instance `Os`.
        configure: the command, in the build folder; `{source}`, `{cc}`, `{cxx}` and `{flags}` are put in.
        build: what builds the library and its programs.
        build_tests: what builds what only the tests need.
        test: what runs the project's own tests.
        clean: what removes all that was built.
        objects: a pattern of the library's and the programs' objects.
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
}


@dataclass
class Outcome:
    """What became of one way to build.

    Attributes:
        objects: how many objects there are.
        object_text: the bytes of their executable sections.
        programs: those of each linked program.
        tests: whether the project's own tests passed.
        seconds: the processor time of each build.
        counters: what `mlgo-clang` counted in the first of them.
    """

    objects: int = 0
    object_text: int = 0
    programs: dict[str, int] = field(default_factory=dict)
    tests: bool | None = None
    seconds: list[float] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


class Bench:
    """One project in a folder of its own.

    Args:
        project: what to build.
        source: the project's tar file.
        work: the folder.
        clang: the compiler, as `mlgo-clang` takes it.
        plugins: the plugins that it is to load, each in a build of its own, by name.
    """

    def __init__(self, project: Project, source: Path, work: Path, clang: str, plugins: Mapping[str, Path]) -> None:
        self.project = project
        self.clang = clang
        self.plugins = plugins
        self.folder = work / project.name
        self.build = self.folder / "build"
        self.cache = self.folder / "cache"
        self.recipes = self.folder / "recipes"
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
            # Debian leaves out the copy of a library that it has as a package.
            (self.folder / "source/test/gtest-1.10.0").symlink_to(GOOGLETEST)
        for name, variable in (("cc", "BENCH_CC"), ("c++", "BENCH_CXX")):
            script = self.folder / name
            script.write_text(f'#!/bin/sh\nexec ${variable} "$@"\n')
            script.chmod(0o755)
        self.build.mkdir()
        level = f"-{self.project.level}"
        words = {"source": "../source", "cc": self.folder / "cc", "cxx": self.folder / "c++", "link": LINK}
        self.run(self.project.configure.format(**words, flags=f"{level} {SECTIONS}"), "plain")

    def environment(self, variant: str, search: int = 0) -> Mapping[str, str]:
        """Return the variables of one way to build."""
        commands = [[*compiler_command(self.clang, mode)] for mode in ("gcc", "g++")]
        if variant in self.plugins:
            commands = [[*command, f"-fpass-plugin={self.plugins[variant]}"] for command in commands]
        elif variant != "plain":
            scripts = Path(sys.executable).parent
            commands = [[str(scripts / "mlgo-clang")], [str(scripts / "mlgo-clang++")]]
        extra = {"MLGO_RECIPES": str(self.recipes), "MLGO_SEARCH": str(search)} if variant == RECIPES else {}
        extra |= (
            {"MLGO_POLICY": POLICIES[variant].format(level=self.project.level.lower())} if variant in POLICIES else {}
        )
        cc, cxx = map(shlex.join, commands)
        own = {"BENCH_CC": cc, "BENCH_CXX": cxx, "MLGO_CACHE": str(self.cache), "MLGO_CLANG": self.clang}
        return {**os.environ, **own, **extra}

    def run(self, command: str, variant: str, search: int = 0, *, check: bool = True) -> tuple[int, float]:
        """Run a command in the build folder; return its exit status and its processor time in seconds."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run(
            shlex.split(command),
            cwd=self.build,
            env=self.environment(variant, search),
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            check=check,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return result.returncode, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def make(self, variant: str, outcome: Outcome, search: int = 0, jobs: int = 2) -> None:
        """Build from nothing, and add the time to the outcome."""
        self.run(self.project.clean, variant)
        command = self.project.build.replace("-j2", f"-j{jobs}")
        outcome.seconds.append(self.run(command, variant, search)[1])

    def measure(self, variant: str, outcome: Outcome, *, tests: bool) -> None:
        """Add to the outcome what the last build made, and whether the project's tests pass with it."""
        objects = [path for pattern in self.project.objects for path in self.build.glob(pattern)]
        outcome.objects = len(objects)
        outcome.object_text = sum(object_sizes(path.read_bytes()).text for path in objects)
        outcome.programs = {name: object_sizes((self.build / name).read_bytes()).text for name in self.project.programs}
        outcome.counters = self.counters()
        if tests:
            self.run(self.project.build_tests, variant)
            outcome.tests = self.run(self.project.test, variant, check=False)[0] == 0

    def counters(self) -> dict[str, int]:
        """Return what `mlgo-clang` counted since it was last asked."""
        path = self.cache / "mlgo-clang" / "counters"
        found = parse(path.read_bytes()) if path.exists() else {}
        path.unlink(missing_ok=True)
        return found


def main() -> None:
    """Build each project in each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in PROJECTS:
        parser.add_argument(f"--{name}", type=Path, metavar="TAR")
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS, help="`plain` is always built")
    parser.add_argument("--search", type=int, default=10, help="the compiles of a search in each module")
    parser.add_argument("--search-jobs", type=int, default=2, help="how many searches at once")
    parser.add_argument("--rounds", type=int, default=2, help="how many builds are timed")
    parser.add_argument("--clang", default="bundled", help="the compiler of all builds")
    parser.add_argument("--plugins", nargs="+", default=[], metavar="POLICY", help="built with plugins of these, too")
    parser.add_argument("--llvm-config", default="llvm-config", help="the llvm-config of the compiler, for plugins")
    parser.add_argument("--level", help="another level than each project's own")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--work", type=Path, help="where to build; a folder that is there is gone on with")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows: dict[str, Any] = json.loads(options.output.read_bytes()) if options.output and options.output.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)).absolute()
        for name, project in PROJECTS.items():
            source = getattr(options, name.replace("-", "_"))
            if source is None:
                continue
            project = Project(**{**vars(project), "level": options.level or project.level})
            bench = Bench(project, source.absolute(), work / project.level, options.clang, built_plugins(work, options))
            title = f"{name} -{project.level}" + ("" if options.clang == "bundled" else f", {options.clang}")
            rows[title] = row = measure_all(bench, options)
            show(title, row)
            if options.output is not None:
                options.output.write_text(json.dumps(rows, indent=1) + "\n")


def built_plugins(work: Path, options: argparse.Namespace) -> dict[str, Path]:
    """Return the plugins of the policies that are named."""
    plugins = {f"plugin {policy}": work / f"{policy}.so" for policy in options.plugins}
    for policy, path in zip(options.plugins, plugins.values(), strict=True):
        build_plugin(decision_code(policy, network_path(policy, calls=True)), installed_llvm(options.llvm_config), path)
    return plugins


def measure_all(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """Return what becomes of a project in each way to build it."""
    variants = [variant for variant in VARIANTS if variant in ("plain", *options.variants)]
    outcomes = {variant: Outcome() for variant in (*variants, *bench.plugins)}
    searching = Outcome()
    # A first build also makes what is made once: the policy's native code, recipes.
    if RECIPES in outcomes:
        bench.make(RECIPES, searching, options.search, options.search_jobs)
        print(f"{bench.project.name}: searched in {searching.seconds[0]:.0f} s of processor time", flush=True)
    else:
        bench.make(variants[-1], searching)
    bench.counters()
    for number in range(options.rounds):
        for variant, outcome in outcomes.items():
            bench.make(variant, outcome)
            if number == 0:
                bench.measure(variant, outcome, tests=not options.no_tests)
    return {
        "level": bench.project.level,
        "search": options.search,
        "search_seconds": searching.seconds[0] if RECIPES in outcomes else None,
        "variants": {variant: vars(outcome) for variant, outcome in outcomes.items()},
    }


def show(title: str, row: Mapping[str, Any]) -> None:
    """Print what became of one project."""
    variants: Mapping[str, Mapping[str, Any]] = row["variants"]
    plain = variants["plain"]
    print(f"\n{title}, {plain['objects']} objects, text bytes, processor time against plain")
    names: Sequence[str] = list(plain["programs"])
    print(f"{'':24} {'objects':>18} " + " ".join(f"{name.rpartition('/')[2]:>18}" for name in names) + "   time  tests")
    for variant, found in variants.items():
        cells = [_cell(found["object_text"], plain["object_text"])]
        cells += [_cell(found["programs"][name], plain["programs"][name]) for name in names]
        ratio = min(found["seconds"]) / min(plain["seconds"])
        tests = {True: "pass", False: "FAIL", None: "-"}[found["tests"]]
        print(f"{variant:24} {' '.join(cells)}  {ratio:5.2f}  {tests}", flush=True)


def _cell(value: int, plain: int) -> str:
    return f"{f'{value:,} {value / plain - 1:+.2%}':>18}"


if __name__ == "__main__":
    if shutil.which("make") is None:
        sys.exit("make is wanted, and is not there")
    main()
