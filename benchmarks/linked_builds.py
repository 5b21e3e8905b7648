"""The programs of `benchmarks.linked`, and the ways to build them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks.measuring import SOURCES


@dataclass(frozen=True)
class Build:
    """How programs are compiled and linked.

    Attributes:
        flags: Level, and kind of LTO.
        policy: Policy of the plugin; empty for none. Of several, with commas between, the smallest object is linked.
        facts: Identical code folding of the link facts, which are those of the plain build of the level; `older` for
            facts of an earlier version; empty for no facts.
        link: Further arguments of the link.
        compiler: A key of `COMPILERS`.
        compiles: Maximum number of compiles per module of a search in the link view. `mlgo-clang` replays its recipes,
            and the policy decides in the other modules.
    """

    flags: tuple[str, ...] = ("-Oz",)
    policy: str = ""
    facts: str = ""
    link: tuple[str, ...] = ()
    compiler: str = "clang"
    compiles: int = 0


PLAIN = "Oz"
NO_LIMIT = ("-mllvm", "-ml-advisor-size-increase-threshold=1000")
"""A size limit of the ML advisor that no module reaches."""

FOUR = "never,threshold:0,default,last-call"  # the smallest of the four objects is linked

BUILDS = {
    PLAIN: Build(),
    "internal": Build(policy="default", facts="none"),
    "rule": Build(policy="last-call", facts="none"),
    "internal, folding": Build(policy="default", facts="all"),
    "rule, folding": Build(policy="last-call", facts="all"),
    "recipes": Build(policy="last-call", facts="none", compiles=10),
    "recipes, folding": Build(policy="last-call", facts="all", compiles=10),
    "last-call": Build(policy="last-call"),
    "threshold:5": Build(policy="threshold:5"),
    "smallest": Build(policy=FOUR),
    "smallest with facts": Build(policy=FOUR, facts="none"),
    "smallest with facts, folding": Build(policy=FOUR, facts="all"),
    "rule, no size limit": Build(("-Oz", *NO_LIMIT), "last-call", "none"),
    "last-call, no size limit": Build(("-Oz", *NO_LIMIT), "last-call"),
    "g++": Build(compiler="gcc"),
    "Os": Build(("-Os",)),
    "Os rule": Build(("-Os",), "last-call", "none"),
    "Os recipes": Build(("-Os",), "last-call", "none", compiles=10),
    "O2": Build(("-O2",)),
    "O2 internal": Build(("-O2",), "default", "none"),
    "thin": Build(("-Oz", "-flto=thin")),
    "thin without imports": Build(("-Oz", "-flto=thin"), link=("-Wl,-mllvm,-import-instr-limit=0",)),
    "full": Build(("-Oz", "-flto=full")),
}
INSTRUMENTED = {
    f"rule, {name}": Build(("-Oz", *flags), "last-call", "none", link=flags)
    for name, flags in {
        "sanitizers": ("-fsanitize=address,undefined",),
        "coverage": ("-fprofile-instr-generate", "-fcoverage-mapping"),
        "profile": ("-fprofile-generate",),
        "split DWARF": ("-g", "-gsplit-dwarf"),
        "shared library": ("-fPIC", "-fvisibility=default"),
    }.items()
}
"""Builds whose own tests run, with the facts of plain -Oz."""

OLDER = "rule, older facts"
BUILDS_OF_NEWER = {PLAIN: BUILDS[PLAIN], "rule": BUILDS["rule"], OLDER: Build(policy="last-call", facts="older")}
"""Builds of newer versions."""

VIEW = ("", "never", "always", "random", "last-call")
"""Policies in the link view; the first is clang alone."""

VIEWS = {"view": "none", "view, folding": "all"}
"""Link views, by the folding of their link."""

WAYS = ("plain", *(f"{way}, {policy}" for way in ("plugin", "wrapper") for policy in ("default", "last-call")))
"""Ways to compile whose CPU time is compared."""

NETWORK = Path("runs/networks/link-view.safetensors")
"""Network of the labels in the link view that docs/results/negative_results.md describes, by `mlgo-gym train imitation
--models 2 --trees 60 --hidden 32,16 --steps 1500 --margin 0.7`; it is measured if the file exists."""

RANDOM = """static int mlgo_yes(const float *features) {
  unsigned hash = 1;
  for (int i = 0; i < 3; ++i)
    hash = (hash ^ (unsigned)(int)features[i]) * 2654435761u;
  return hash >> 31;
}"""
"""Decisions by a hash of features."""

CHECKED = (PLAIN, "internal", "rule", "Os rule", "Os recipes", "O2", "O2 internal", OLDER)
"""Builds whose programs and tests run."""


@dataclass(frozen=True)
class Program:
    """A library or program in benchmarks/sources/linked.toml.

    Attributes:
        name: Name in the results.
        archive: File name of its sources.
        sha256: Digest of that file in hexadecimal.
        get: Command that downloads the file to the current folder; `{python}` is this interpreter.
        group: `experiment`, `other`, `new`, `C`; or `newer` for a newer version, measured with the facts of the older.
        sources: Patterns of the sources that are linked, relative to the root of the sources.
        exclude: Regular expression of paths that are not compiled.
        flags: Further flags of the compiler.
        configure: Shell command in the root of the sources, before the first compile.
        roots: Regular expression of the functions with external linkage that the linker keeps.
        run: Arguments of the program that the objects contain; empty for no run.
        libraries: Libraries of that program.
        folder: Folder of the run, relative to the root.
        test_sources: Patterns of the sources of the project's own tests.
        tests: Shell command in the folder of the program that links `$OBJECTS` with `$TESTS` by `$CXX`, and runs the
            tests; empty without tests.
        older: The program of the older version, of group `newer`.
    """

    name: str
    archive: str
    sha256: str
    get: str
    group: str
    sources: tuple[str, ...]
    exclude: str = "^$"
    flags: str = ""
    configure: str = "true"
    roots: str = "."
    run: str = ""
    libraries: str = "-lpthread -ldl -lm"
    folder: str = "."
    test_sources: tuple[str, ...] = ()
    tests: str = ""
    older: str = ""

    @property
    def builds(self) -> Mapping[str, Build]:
        """The builds by name."""
        return BUILDS_OF_NEWER if self.older else BUILDS | INSTRUMENTED


def read_programs() -> dict[str, Program]:
    """Return the programs by name; needs Python 3.11."""
    tables: dict[str, dict[str, Any]] = importlib.import_module("tomllib").loads((SOURCES / "linked.toml").read_text())
    fields = {
        name: {key: tuple(item) if isinstance(item, list) else item for key, item in table.items()}
        for name, table in tables.items()
    }
    return {name: Program(name=name, **cast("dict[str, Any]", table)) for name, table in fields.items()}
