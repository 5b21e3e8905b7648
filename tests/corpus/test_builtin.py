"""The builtin corpus."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.corpus import builtin
from mlgo_gym.corpus.builtin import PROGRAMS, builtin_corpus, builtin_folder
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain


def test_every_source_is_a_module_for_one_target_without_paths_that_every_clang_compiles(
    any_toolchain: Toolchain,
) -> None:
    corpus = open_corpus("builtin", toolchain=any_toolchain)
    assert list(corpus.names) == sorted(f"{path.parent.name}/{path.stem}" for path in PROGRAMS.glob("*/*.c*"))
    for module in corpus:
        flags = module.flags or ()
        assert (PROGRAMS / str(module.metadata["source"])).is_file()
        assert read_bitcode(module.bitcode).triple == "x86_64-unknown-linux-musl"
        assert flags[0] == "-cc1"
        assert not {"-o", "-x", "-main-file-name", "-resource-dir", "-internal-isystem"} & set(flags)
        assert {"-Oz", "-mframe-pointer=none", "pic"} <= set(flags)
        assert str(PROGRAMS).encode() not in module.bitcode.read_bytes()
        assert not any("/" in flag for flag in flags)
    assert verify(corpus, any_toolchain) == []


def test_every_function_has_the_attributes_of_the_level(toolchain: Toolchain) -> None:
    for spec, level in (("builtin", "Oz"), ("builtin@Os", "Os")):
        corpus = open_corpus(spec, toolchain=toolchain)
        assert corpus.name == spec
        assert {read_bitcode(module.bitcode).level for module in corpus} == {level}


@pytest.fixture
def two_programs(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of two sources, and an empty cache."""
    folder = tmp_path / "programs"
    (folder / "c").mkdir(parents=True)
    (folder / "c" / "one.c").write_text("#include <string.h>\nint one(char *s) { return (int)strlen(s); }\n")
    (folder / "c" / "two.cpp").write_text("#include <stdlib.h>\nint two(int x) { return abs(x); }\n")
    monkeypatch.setattr(builtin, "PROGRAMS", folder)
    return folder


def test_a_changed_source_is_compiled_again_and_a_wrong_one_is_an_error_that_leaves_nothing(
    two_programs: Path, toolchain: Toolchain, own_cache: Path
) -> None:
    before = [module.digest() for module in builtin_corpus(toolchain)]
    (two_programs / "c" / "one.c").write_text("int one(int x) { return x; }\n")
    after = [module.digest() for module in builtin_corpus(toolchain)]
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)
    for text, message in (
        ("int one(void) { return wrong; }\n", r"(?s)c/one\.c.*undeclared identifier 'wrong'"),
        ("__attribute__((optnone)) int one(void) { return 1; }\n", "expected functions at -Oz"),
    ):
        (two_programs / "c" / "one.c").write_text(text)
        with pytest.raises(CorpusError, match=message):
            builtin_corpus(toolchain)
        failed = builtin_folder(toolchain, "Oz").name
        assert [path.name for path in (own_cache / "builtin").iterdir() if failed in path.name] == [f".{failed}.lock"]


def test_processes_that_ask_at_once_agree(two_programs: Path, own_cache: Path) -> None:
    program = (
        "import json, pathlib; from mlgo_gym.corpus import builtin\n"
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
