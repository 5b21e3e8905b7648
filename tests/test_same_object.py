"""The same answers make the same object, byte for byte, in every way that there is to give them.

`benchmarks/same_object.py` does this for many modules; here it is a few.
"""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.corpus.builtin import PROGRAMS
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from mlgo_gym.session.snapshot_support import snapshot_support
from tests.conftest import MakeBitcode

PROGRAM: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "same_object.py"))
Ways = PROGRAM["Ways"]
INLINE, EVICT, PRIORITY = (PROGRAM[name] for name in ("INLINE", "EVICT", "PRIORITY"))

WAYS = ("vector", "forked", "warm", "ahead")

pytestmark = [
    pytest.mark.usefixtures("nothing_is_left"),
    pytest.mark.skipif(not snapshot_support()[0], reason=snapshot_support()[1]),
]


@pytest.mark.parametrize(
    ("environment", "program"),
    [
        (INLINE, "families.c"),
        (INLINE, "mixed.c"),
        (EVICT, "mixed.c"),
        (EVICT, "pressure.c"),
        (PRIORITY, "mixed.c"),
        (PRIORITY, "pressure.c"),
    ],
)
def test_in_a_vector_environment_in_forks_from_warm_starts_and_sent_ahead(
    environment: str, program: str, make_bitcode: MakeBitcode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Ways.__init__.__globals__, "MOST", 60)
    corpus = str(make_bitcode(program))
    ways = Ways(environment, corpus, Path(corpus).stem, seed=len(program))
    (first,) = ways.single()
    answers = ways.answers
    assert len(set(answers)) > 1
    told = [*WAYS, *([] if environment == INLINE else ["preoptimized"])]
    assert {name: set(getattr(ways, name)()) for name in told} == {name: {first} for name in told}
    assert ways.answers == answers
    if environment != PRIORITY:  # whose order seldom matters in a module as small as these
        others = [Ways(environment, corpus, Path(corpus).stem, seed=seed).single()[0] for seed in (100, 101)]
        assert {*others} != {first}


@pytest.mark.parametrize("program", ["families.c", "many_calls.c"])
def test_by_function(program: str, make_bitcode: MakeBitcode) -> None:
    corpus = str(make_bitcode(program))
    pairs = Ways(INLINE, corpus, Path(corpus).stem).by_function()
    assert pairs
    for whole, part in pairs:
        assert whole == part


@pytest.mark.parametrize("name", ["c/btree.c", pytest.param("cpp/sorting.cpp", marks=pytest.mark.slow)])
def test_in_the_driver(name: str) -> None:
    assert len(set(PROGRAM["drive"](PROGRAMS / name))) == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("major", [22, 19])
def test_in_a_plugin(
    major: int, make_bitcode: MakeBitcode, any_clang: Callable[[int], Toolchain], tmp_path: Path
) -> None:
    clang = any_clang(major)
    library = PROGRAM["answering"](major, tmp_path)
    for program in ("many_calls.c", "families.c"):
        corpus = str(make_bitcode(program, compiler=clang, triple="x86_64-linux-gnu"))
        ways = Ways(INLINE, corpus, Path(corpus).stem, f"clang-{major}")
        assert ways.single() == ways.plugin(library)


@pytest.fixture
def any_clang() -> Callable[[int], Toolchain]:
    """Return a function that finds a distribution's clang with its headers."""

    def find(major: int) -> Toolchain:
        for program in (f"clang-{major}", f"clang++-{major}", f"llvm-config-{major}"):
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
        return find_toolchain(f"clang-{major}")

    return find
