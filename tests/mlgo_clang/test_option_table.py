"""All options of clang's own table: their reading by the wrapper, and compiles in two steps against those in one.

They take many minutes and run if `$CLANG_OPTIONS` names the table, `Options.inc` of Debian's `libclang-22-dev`. With
`-s` they print their figures.
"""

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from mlgo_clang.errors import PolicyError
from mlgo_clang.interactive import TwoSteps
from mlgo_clang.invocation import read_invocation
from tests.mlgo_clang.test_driver import meaning, meaning_by_the_driver

TABLE = os.environ.get("CLANG_OPTIONS", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not TABLE, reason="$CLANG_OPTIONS names no table"),
]

VALUES = ("1", "x.h", "all")
C = """
extern double sqrt(double); int other(int,...); extern int ext; _Thread_local int local; static double table[4];
int atomic(_Atomic int *p) { return (*p)++; }
static int sum(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i * n; return s; }
int twice(int n) { local += n; return sum(n) + sum(n + 1); }
double g(double x, int n) { double s = 0; for (int i = 0; i < n; i++) { s += sqrt(x * i + table[i & 3]); } return s; }
int sw(int n) { switch (n) { case 0: return 7; case 1: return other(n); case 2: return 19; case 3: return other(4);
    case 4: return 1; case 5: return 23; default: return n / 3; } }
float fma(float a, float b, float c) { return a * b + c; }
int vla(int n) { char b[n]; return other(n, b); }
int call(int (*f)(int)) { return f(3) + ext; }
"""
CXX = """
struct B { virtual ~B(); virtual int f(int); int x; }; struct D : B { int f(int) override; };
int D::f(int n) { if (n < 0) throw n; return n * x; } int may(int); extern B &b;
template <class T> T twice(T x) { return x + x; } static B *make() { static D d; return &d; }
int run(int n) { try { return b.f(n) + may(n) + twice(n); } catch (int e) { return e; } catch (...) { throw; } }
int cast(B *p) { return dynamic_cast<D *>(p) ? make()->f(1) : 0; } thread_local int t = may(3); int get() { return t; }
inline int more(int n) { static int c; return c += n; } int use(int n) { return more(n) + more(3); }
"""
SOURCES = [
    ("a.c", C, "--target=x86_64-linux-gnu -mfma"),
    ("a.c", C, "--target=thumbv6m-none-eabi"),
    ("a.cpp", CXX, "--target=x86_64-linux-gnu"),
]
OWN_WORK = (
    "-###", "-v", "--verbose", "-fproc-stat-report", "-frecord-command-line", "-grecord-command-line", "-MJ",
    "-fembed-bitcode", "-fno-integrated-cc1", "-flto-", "-sect", "-seg", "-print-", "--print-", "--dependencies",
)  # fmt: skip
"""Beginnings of options of one compile that the wrapper leaves to clang.

They print or keep the command line, name the wrapper's own work, or have several values for a linker of macOS.
"""


def forms(visible: str) -> list[tuple[str, ...]]:
    """Return words for each option that a driver or `-cc1` knows: one for each known value, or with some values."""
    specification = importlib.util.spec_from_file_location("option_tables", ".ci/option_tables.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["option_tables"] = module
    specification.loader.exec_module(module)
    options = [
        option
        for option in module.read_options(Path(TABLE).read_text(encoding="utf-8"))
        if visible in option.visible and option.name.startswith("-") and option.name != "--"
    ]
    sys.stdout.write(f"\n{len(options)} options\n")

    def words(kind: str, name: str, values: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if kind == "Flag":
            yield (name,)
        if "Joined" in kind and kind != "JoinedAndSeparate":
            yield from ((name + value,) for value in values)
        if kind in ("Separate", "JoinedOrSeparate"):
            yield from ((name, value) for value in values)
        if kind == "JoinedAndSeparate":
            yield f"{name}y", "-O2"
        if kind == "MultiArg":
            yield name, "a", "b", "c"

    return [form for option in options for form in words(option.kind, option.name, option.values[:6] or VALUES)]


def enter(folder: Path, name: str, text: str) -> None:
    folder = folder / str(os.getpid())
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    for path in folder.iterdir():
        path.unlink()
    for file, content in ((name, text), *((value, "int given;\n") for value in VALUES)):
        Path(file).write_text(content)


def contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path.cwd().iterdir()}


def reading(clang: list[str], name: str, target: str, folder: Path, words: tuple[str, ...]) -> str:
    """Return the difference between the wrapper's reading of words and that of clang's driver."""
    enter(folder, name, C)
    line = [*target.split(), *words]
    read, expected = meaning(clang, line, name), meaning_by_the_driver(clang, line, name)
    if read == expected:
        return "equal"
    if read is None:
        return "left to clang" if words[0].startswith(OWN_WORK) else f"{words}: left to clang without a reason"
    shown = subprocess.run([*clang, "-###", "-c", *line, name], capture_output=True, check=False)
    # Clang reports the error of the words, with and without a policy.
    return "refused by clang" if shown.returncode else f"{words}: {read} instead of {expected}"


def steps(clang: list[str], folder: Path, task: tuple[tuple[str, ...], int]) -> str:
    """Return the difference between the files of a compile in two steps and those of one."""
    words, number = task
    name, text, target = SOURCES[number]
    passed_on = [word for value in words for word in ("-Xclang", value)]
    line = [*target.split(), "-Oz", "-g", *passed_on, "-c", name, "-o", "out.o"]
    enter(folder, name, text)
    if read_invocation(line).reason:
        return "left to clang"
    result = subprocess.run([*clang, *line], capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    if result.returncode:
        return "refused by clang"
    if result.stdout:
        return f"{words}: clang prints"
    made = contents()
    enter(folder, name, text)
    try:
        two = TwoSteps(clang, line, 60)
        if not two.exact:
            return "decided in advance"
        status = two.compile(None, [])[0].status
    except PolicyError as error:
        return f"{words}: {error}"
    files = contents()
    different = [path for path in {**files, **made} if files.get(path) != made.get(path)]
    return f"{words} of {name}: status {status}, {different}" if status or different else "equal"


def assert_only(known: set[str], results: Counter[str]) -> None:
    sys.stdout.write(f"{results.total()} command lines: { ({name: results[name] for name in known}) }\n")
    assert sorted(results.keys() - known) == []


@pytest.mark.parametrize(("mode", "source"), [("gcc", 0), ("gcc", 1), ("g++", 2)])
def test_each_option_is_read_as_by_the_driver(
    mode: str, source: int, clang: dict[str, list[str]], tmp_path: Path
) -> None:
    name, _, target = SOURCES[source]
    with ProcessPoolExecutor() as pool:
        read = partial(reading, clang[mode], name, target, tmp_path)
        results = Counter(pool.map(read, forms("DefaultVis"), chunksize=16))
    assert_only({"equal", "left to clang", "refused by clang"}, results)


@pytest.mark.parametrize("source", range(len(SOURCES)))
def test_each_option_gives_the_files_of_one_step(source: int, clang: dict[str, list[str]], tmp_path: Path) -> None:
    tasks = [(form, source) for form in forms("CC1Option")]
    with ProcessPoolExecutor() as pool:
        results = Counter(pool.map(partial(steps, clang["gcc"], tmp_path), tasks, chunksize=16))
    assert_only({"equal", "left to clang", "refused by clang", "decided in advance"}, results)
