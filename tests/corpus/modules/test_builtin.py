"""The builtin corpus."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.corpus.modules import builtin
from mlgo_gym.corpus.modules.builtin import PROGRAMS, builtin_corpus, builtin_folder
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.verify import verify
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain


def test_every_source_is_a_module_named_after_it(toolchain: Toolchain) -> None:
    corpus = open_corpus("builtin", toolchain=toolchain)
    assert list(corpus.names) == sorted(f"{path.parent.name}/{path.stem}" for path in PROGRAMS.glob("*/*.c*"))
    assert all((PROGRAMS / str(module.metadata["source"])).is_file() for module in corpus)


def test_every_clang_compiles_every_module_of_it(any_toolchain: Toolchain) -> None:
    assert verify(open_corpus("builtin", toolchain=any_toolchain), any_toolchain) == []


@pytest.mark.parametrize(
    ("spec", "level"),
    [("builtin", "Oz"), ("builtin@Os", "Os"), pytest.param("builtin@O2", "O1-O3", marks=pytest.mark.slow)],
)
def test_every_function_has_the_attributes_of_the_level(toolchain: Toolchain, spec: str, level: str) -> None:
    corpus = open_corpus(spec, toolchain=toolchain)
    assert corpus.name == spec
    assert {read_bitcode(module.bitcode).level for module in corpus} == {level}


def test_the_target_is_the_same_on_every_host(any_toolchain: Toolchain) -> None:
    for module in open_corpus("builtin", toolchain=any_toolchain):
        assert read_bitcode(module.bitcode).triple == "x86_64-unknown-linux-musl"
        assert module.flags is not None
        assert module.flags[0] == "-cc1"
        assert not {"-o", "-x", "-main-file-name", "-resource-dir", "-internal-isystem"} & set(module.flags)
        assert {"-Oz", "-mframe-pointer=none", "pic"} <= set(module.flags)


def test_no_path_of_this_machine_is_in_the_bitcode(toolchain: Toolchain) -> None:
    for module in open_corpus("builtin", toolchain=toolchain):
        data = module.bitcode.read_bytes()
        assert str(PROGRAMS).encode() not in data
        assert not any("/" in flag for flag in module.flags or ())


def test_builds_of_equal_clang_versions_give_equal_bitcode(any_toolchain: Toolchain, toolchain: Toolchain) -> None:
    if any_toolchain.version != toolchain.version:
        pytest.skip("it is another version")
    digests = [
        [module.digest() for module in open_corpus("builtin", toolchain=clang)] for clang in (toolchain, any_toolchain)
    ]
    assert digests[0] == digests[1]


@pytest.fixture
def two_programs(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of two sources, and an empty cache."""
    folder = tmp_path / "programs"
    (folder / "c").mkdir(parents=True)
    (folder / "c" / "one.c").write_text("#include <string.h>\nint one(char *s) { return (int)strlen(s); }\n")
    (folder / "c" / "two.cpp").write_text("#include <stdlib.h>\nint two(int x) { return abs(x); }\n")
    monkeypatch.setattr(builtin, "PROGRAMS", folder)
    return folder


def test_a_changed_source_is_compiled_again(two_programs: Path, toolchain: Toolchain) -> None:
    before = [module.digest() for module in builtin_corpus(toolchain)]
    (two_programs / "c" / "one.c").write_text("int one(int x) { return x; }\n")
    after = [module.digest() for module in builtin_corpus(toolchain)]
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)


def test_a_program_that_does_not_compile_is_an_error_with_the_compilers_message(
    two_programs: Path, toolchain: Toolchain, own_cache: Path
) -> None:
    (two_programs / "c" / "one.c").write_text("int one(void) { return wrong; }\n")
    with pytest.raises(CorpusError, match=r"(?s)c/one\.c.*undeclared identifier 'wrong'"):
        builtin_corpus(toolchain)
    assert [path.name for path in (own_cache / "builtin").iterdir()] == [
        f".{builtin_folder(toolchain, 'Oz').name}.lock"
    ]


def test_a_program_with_a_level_of_its_own_is_an_error(two_programs: Path, toolchain: Toolchain) -> None:
    (two_programs / "c" / "one.c").write_text("__attribute__((optnone)) int one(void) { return 1; }\n")
    with pytest.raises(CorpusError, match="expected functions at -Oz"):
        builtin_corpus(toolchain)


def test_processes_that_ask_at_once_agree(two_programs: Path, own_cache: Path) -> None:
    program = (
        "import json, pathlib; from mlgo_gym.corpus.modules import builtin\n"
        "from mlgo_gym.corpus.opening import open_corpus; from mlgo_gym.llvm.toolchain import find_toolchain\n"
        f"builtin.PROGRAMS = pathlib.Path({str(two_programs)!r})\n"
        "corpus = open_corpus('builtin', toolchain=find_toolchain('bundled'))\n"
        "print(json.dumps([str(corpus.path), [module.digest() for module in corpus]]))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert answers[0] == answers[1]
    assert len(answers[0][1]) == 2
    name = Path(answers[0][0]).name
    assert sorted(path.name for path in (own_cache / "builtin").iterdir()) == [f".{name}.lock", name]
