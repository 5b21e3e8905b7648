"""Untrusted flags: only arguments that shape code are run, and what is run cannot write."""

from __future__ import annotations

import os
from pathlib import Path

import gymnasium as gym
import pytest

from mlgo_gym.corpus.commands.allowed import refused_argument
from mlgo_gym.corpus.commands.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.modules.description import write_description
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.extract import extract_corpus
from mlgo_gym.corpus.recording.object_list import from_directory
from mlgo_gym.corpus.verify import verify
from mlgo_gym.errors import CorpusError, UntrustedError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.process.confinement import confinement_support
from mlgo_gym.session.session import Session
from tests.conftest import MakeBitcode
from tests.corpus.untrusted import BENIGN, hostile_arguments, make_untrusted_corpus

confined = pytest.mark.skipif(not confinement_support()[0], reason=confinement_support()[1])


def test_arguments_that_may_write_a_file_or_load_a_program_are_refused(
    calls: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    for arguments in hostile_arguments(str(tmp_path / "target")).values():
        corpus = open_corpus(make_untrusted_corpus(tmp_path / "corpus", calls, arguments), toolchain=toolchain)
        (problem,) = verify(corpus, toolchain)
        assert "expected arguments that only shape code" in problem.text
        assert any(word in problem.text for word in arguments)
        with pytest.raises(UntrustedError, match=r"--trust-flags, trust_flags=True"):
            plan(corpus[0], toolchain)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus"], arguments
        assert len(list((tmp_path / "corpus").iterdir())) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("-dependency-file", "TARGET", "-MT", "x", "-MP", "-sys-header-deps"),
        ("-working-directory", "FOLDER", "-dependency-file", "target", "-MT", "x"),
        ("-include", "TARGET"),
        ("-include-pch", "TARGET"),
        ("-isysroot", "TARGET"),
        ("-main-file-name", "TARGET"),
        ("-fprofile-instrument-path=TARGET",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_allowed_arguments_that_name_files_do_not_touch_them_for_bitcode(
    arguments: tuple[str, ...], calls: Path, any_toolchain: Toolchain, make_bitcode: MakeBitcode, tmp_path: Path
) -> None:
    bitcode = make_bitcode("calls.c", compiler=any_toolchain)
    target = tmp_path / "target"
    words = tuple(word.replace("TARGET", str(target)).replace("FOLDER", str(tmp_path)) for word in arguments)
    assert refused_argument((*BENIGN, *words)) is None
    for more in ((), words):
        command = (*any_toolchain.command, *BENIGN, *more, "-x", "ir", str(bitcode))
        with Session(command) as session:
            assert session.finish(30).object_bytes
    assert list(tmp_path.iterdir()) == []


def test_an_episode_refuses_them_too(calls: Path, tmp_path: Path) -> None:
    folder = make_untrusted_corpus(tmp_path / "corpus", calls, (f"-stats-file={tmp_path / 'target'}",))
    with gym.make("mlgo/Inline-v0", corpus=str(folder)) as env, pytest.raises(UntrustedError, match="-stats-file="):
        env.reset(seed=0)
    assert not (tmp_path / "target").exists()


def test_the_override_of_a_description_is_checked_too(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    make_untrusted_corpus(tmp_path, calls, ())
    for override in (["-cc1", "-load", "x.so"], ["-O2", "-fpass-plugin=x.so"], ["-O2", "-save-stats"], ["--config=x"]):
        write_description(tmp_path, ["m"], global_command_override=override)
        with pytest.raises(UntrustedError):
            plan(open_corpus(tmp_path, toolchain=toolchain)[0], toolchain)


def test_a_module_whose_name_is_an_option_is_a_file_all_the_same(
    calls: Path, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("-ftime-trace=here", "@arguments"):
        make_untrusted_corpus(tmp_path / "corpus", calls, (), name)
        monkeypatch.chdir(tmp_path / "corpus")
        assert verify(open_corpus(".", toolchain=toolchain), toolchain) == []
    assert not [path for path in (tmp_path / "corpus").iterdir() if path.name.startswith("here")]


def test_extraction_skips_an_object_with_such_flags(
    calls: Path, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = tmp_path / "build"
    build.mkdir()
    source = tmp_path / "f.c"
    source.write_text("int f(int x) { return x + 1; }\n")
    embed = ["-c", "-Xclang", "-fembed-bitcode=all", str(source)]
    monkeypatch.chdir(build)
    assert toolchain.run(["--target=x86_64-linux-musl", *embed, "-o", "good.o"]).returncode == 0
    assert toolchain.run(["--target=x86_64-linux-musl", *embed, "-fstack-usage", "-o", "usage.o"]).returncode == 0
    report = extract_corpus(from_directory(build), tmp_path / "corpus")
    assert report.modules == ["good.o"]
    assert [name for name, _ in report.skipped] == ["usage.o"]
    assert "-stack-usage-file" in report.skipped[0][1]
    assert extract_corpus(from_directory(build), tmp_path / "all", trust_flags=True).modules == ["good.o", "usage.o"]


def test_a_trusted_corpus_runs_unchecked(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    target = tmp_path / "target"
    folder = make_untrusted_corpus(tmp_path / "corpus", calls, (f"-stats-file={target}",))
    assert verify(open_corpus(folder, toolchain=toolchain, trust_flags=True), toolchain) == []
    with gym.make("mlgo/Inline-v0", corpus=str(folder), compile_options={"trust_flags": True}) as env:
        env.reset(seed=0)
    assert not plan(open_corpus(folder, toolchain=toolchain, trust_flags=True)[0], toolchain).confined


USUAL = (
    "-D X=1 -I /usr/include -dependency-file x.d -MT x.o -sys-header-deps",
    "-mllvm -inline-threshold=5 -mllvm --enable-gvn-hoist -mllvm -vectorize-loops=false",
    "-mllvm -inline-threshold -mllvm 5 -fembed-bitcode=all -flto=thin -fsplit-lto-unit",
    "-target-feature +avx2 -target-cpu x86-64-v3 -fsanitize=address -debug-info-kind=limited",
)


def test_usual_flags_of_builds_are_allowed() -> None:
    driver = "-O2 -march=x86-64-v3 -fPIC -ffunction-sections --target=aarch64-linux-gnu -m64"
    for flags in (BENIGN, *((*BENIGN, *words.split()) for words in USUAL), tuple(driver.split())):
        assert refused_argument(flags) is None


@confined
def test_a_confined_clang_cannot_write_other_files(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("precious")
    for target in (old, tmp_path / "new"):
        command = (*toolchain.command, *BENIGN, "-stack-usage-file", str(target), "-x", "ir", str(calls))
        with Session(command, [INLINING], confined=True) as session:
            while session.wait(30) is not None:
                session.advise(bytes(8))
            with pytest.raises(Exception, match="Permission denied"):
                session.finish(30)
    assert old.read_text() == "precious"
    assert not (tmp_path / "new").exists()


@confined
def test_a_confined_clang_gives_the_same_object_and_can_be_copied(calls: Path, toolchain: Toolchain) -> None:
    command = plan(Module("calls", calls, BENIGN), toolchain).command
    objects = []
    for is_confined in (False, True):
        with Session(command, [INLINING], optimization_record=True, confined=is_confined) as session:
            assert session.wait(30) is not None
            with session.fork() as copied:
                for one in (copied, session):
                    one.advise(bytes(8))
                    while one.wait(30) is not None:
                        one.advise(bytes(8))
                    objects.append(one.finish(30).object_bytes)
    assert len(set(objects)) == 1


def test_only_compiles_with_allowed_flags_are_confined(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    module = Module("calls", calls, BENIGN)
    assert plan(module, toolchain, ["-mllvm", "-inline-threshold=5"]).confined
    unconfined = plan(module, toolchain, ["-stack-usage-file", str(tmp_path / "usage")])
    assert not unconfined.confined
    with unconfined.session() as session:
        session.finish(30)
    assert (tmp_path / "usage").exists()


def test_a_profile_is_only_read_from_the_corpus(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    folder = make_untrusted_corpus(tmp_path / "corpus", calls, ("-fbasic-block-sections=list=inputs/list.txt",))
    with pytest.raises(UntrustedError):
        plan(open_corpus(folder, toolchain=toolchain)[0], toolchain)
    (folder / "inputs").mkdir()
    (folder / "inputs" / "list.txt").write_text("!f\n")
    flags = plan(open_corpus(folder, toolchain=toolchain)[0], toolchain).flags
    assert f"-fbasic-block-sections=list={folder / 'inputs' / 'list.txt'}" in flags
    for name in ("../outside", "inputs/../../outside", "/etc/passwd", "inputs/link"):
        (tmp_path / "outside").touch()
        if not os.path.lexists(folder / "inputs" / "link"):
            (folder / "inputs" / "link").symlink_to(tmp_path / "outside")
        make_untrusted_corpus(folder, calls, (f"-fbasic-block-sections=list={name}",))
        with pytest.raises(CorpusError, match="only shape code"):
            plan(open_corpus(folder, toolchain=toolchain)[0], toolchain)
