"""Verification and statistics of a corpus."""

import shutil
from pathlib import Path

import pytest

from mlgo_gym import Corpus, open_corpus
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.folder import write_command, write_description, write_metadata
from mlgo_gym.corpus.inspection import describe, overlaps, verify
from mlgo_gym.errors import CorpusWarning
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import MakeBitcode, copy_modules
from tests.corpus.untrusted import BENIGN


@pytest.fixture
def folder(tmp_path: Path, calls: Path) -> Path:
    """A corpus of two valid modules."""
    for name in ("a", "b"):
        shutil.copy(calls, tmp_path / f"{name}.bc")
        write_command(tmp_path / f"{name}.cmd", ["-cc1", "-emit-obj", "-Oz", "-mllvm", "-inline-threshold=5"])
    write_description(tmp_path, ["a", "b"])
    return tmp_path


def overwrite_types(path: Path) -> None:
    """Overwrite the type table, which our reader skips and clang reads."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 3
    data[middle : middle + 64] = bytes(64)
    path.write_bytes(data)


def problems(folder: Path, toolchain: Toolchain) -> list[tuple[str, str]]:
    """Return the modules with problems and their texts."""
    calls: list[None] = []
    corpus = open_corpus(folder, toolchain=toolchain)
    found = verify(corpus, toolchain, progress=lambda: calls.append(None))
    assert len(calls) == len(corpus)
    return [(problem.module, problem.text) for problem in found]


def test_flags_that_clang_does_not_understand_are_a_problem(folder: Path, toolchain: Toolchain) -> None:
    for flags, words in (
        ("-cc1 -Oz -no-such-flag", "only shape code, got '-no-such-flag'"),
        ("-cc1 -mllvm -no-such-option", "got '-mllvm -no-such-option'"),
        ("-cc1 -triple nowhere-unknown-linux", "target triple"),
        ("-cc1 -triple", "got '-triple'"),
    ):
        write_command(folder / "a.cmd", flags.split())
        ((module, text),) = problems(folder, toolchain)
        assert (module, words in text, "\n" in text) == ("a", True, False)


def test_missing_broken_and_changed_bitcode_are_problems(folder: Path, toolchain: Toolchain, broken: Path) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)
    write_metadata(folder, "a", {"bitcode_sha256": corpus[0].digest()})
    write_metadata(folder, "b", {"bitcode_sha256": "0" * 64})
    ((module, text),) = problems(folder, toolchain)
    assert (module, "SHA-256" in text) == ("b", True)
    (folder / "b.json").unlink()
    for name in "cd":
        shutil.copy(folder / "b.bc", folder / f"{name}.bc")
        shutil.copy(folder / "b.cmd", folder / f"{name}.cmd")
    (folder / "a.bc").unlink()
    (folder / "b.bc").write_bytes((folder / "b.bc").read_bytes()[:-400])
    shutil.copy(broken, folder / "c.bc")
    overwrite_types(folder / "d.bc")
    write_description(folder, list("abcd"))
    assert [module for module, _ in problems(folder, toolchain)] == list("abcd")


def test_opening_and_verify_name_missing_flags(make_bitcode: MakeBitcode, toolchain: Toolchain, tmp_path: Path) -> None:
    for name, level in (("a", "-Oz"), ("b", "-Os")):
        shutil.copy(make_bitcode("calls.c", optimize=level), tmp_path / f"{name}.bc")
    write_command(tmp_path / "a.cmd", BENIGN)
    write_description(tmp_path, ["a", "b"])
    with pytest.warns(CorpusWarning, match="1 of the first 2 modules have no recorded flags"):
        corpus = open_corpus(tmp_path, toolchain=toolchain)
    (problem,) = verify(corpus, toolchain)
    assert (problem.module, "compiled with -Os -fPIC" in problem.text) == ("b", True)
    assert "-Os" in plan(corpus.module("b"), toolchain).flags


@pytest.fixture
def mixed(tmp_path: Path, make_bitcode: MakeBitcode, toolchain: Toolchain) -> Corpus:
    """A corpus of a module at -Oz, one at -O2 and one whose bitcode is missing."""
    shutil.copy(make_bitcode("calls.c", optimize="-Oz"), tmp_path / "small.bc")
    shutil.copy(make_bitcode("calls.c", optimize="-O2"), tmp_path / "fast.bc")
    write_metadata(tmp_path, "small", {"lines": 12, "licence": "MIT", "optimize": "O2"})
    write_description(tmp_path, ["small", "fast", "missing"])
    return open_corpus(tmp_path, toolchain=toolchain)


def test_modules_are_counted_by_kind_and_by_the_levels_of_the_attributes(mixed: Corpus, toolchain: Toolchain) -> None:
    statistics = describe(mixed, toolchain)
    assert (statistics.modules, statistics.lines, statistics.languages) == (2, (12, 1), {"C": 2})
    assert statistics.bitcode_bytes == mixed.size("small") + mixed.size("fast")
    assert statistics.licences == {"MIT": 1, "unknown": 1}
    assert statistics.producers == {f"LLVM{toolchain.version_text}": 2}
    assert statistics.targets == {"x86_64-unknown-linux-musl": 2}
    assert statistics.levels == {"Oz": 1, "O1-O3": 1}
    half = statistics.functions["functions"] // 2
    assert statistics.functions["minsize"] == statistics.functions["optsize"] == half > 0
    (problem,) = statistics.problems
    assert "missing.bc" in problem
    assert statistics.unreadable == {}


def test_unreadable_bitcode_has_its_producer(mixed: Corpus, toolchain: Toolchain, tmp_path: Path) -> None:
    for name in ("small", "fast"):
        overwrite_types(tmp_path / f"{name}.bc")
    assert list(describe(mixed, toolchain).unreadable) == [f"LLVM{toolchain.version_text}"]


def test_projects_with_equal_functions_overlap(tmp_path: Path, make_bitcode: MakeBitcode, toolchain: Toolchain) -> None:
    step = "for (int i = 0; i < n; ++i) s = (s + a[i] % 7) * i ^ s / 9 + a[n] % 11;"
    for number, project in enumerate(("one", "two", "three")):
        source = tmp_path / f"{project}.c"
        functions = [("g", 1000 + number)] if project == "three" else [("f", 0), ("g", 1000 + number)]
        source.write_text(
            "".join(f"int {n}(int *a, int n) {{ int s = {s}; {step} return s; }}\n" for n, s in functions)
        )
        copy_modules(tmp_path, {f"{project}/m": make_bitcode(source)})
    write_description(tmp_path, ["one/m", "two/m", "three/m"])
    (pair,), problems = overlaps(open_corpus(tmp_path, toolchain=toolchain), toolchain)
    assert (pair.first, pair.second, pair.functions, problems) == ("one", "two", 1, [])
    assert 64 <= pair.bytes < min(pair.first_bytes, pair.second_bytes)
