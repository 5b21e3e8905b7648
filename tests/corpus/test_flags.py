"""Flags: the command line of a module, edits, and untrusted ones, of which only arguments that shape code are run."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.compiler.limits import confinement_support
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus import Module, open_corpus
from mlgo_gym.corpus.compilation import Compilation, default_flags, plan
from mlgo_gym.corpus.driver import cc1_line, code_generation_flags
from mlgo_gym.corpus.flags import arity, check_arguments, refused_argument, without_flags
from mlgo_gym.corpus.folder import write_description
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import CorpusError, ToolchainError, UntrustedError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import MakeBitcode, write_files
from tests.corpus.untrusted import BENIGN, hostile_arguments, make_untrusted_corpus
from tests.fakes.drive import play

LINE = "-cc1 -triple x86_64-linux -Oz -emit-obj -mllvm -inline-threshold=5 -fvisibility=hidden"


DELETED = [
    (LINE, "-Oz", LINE.replace(" -Oz", "")),
    (LINE, "-O", LINE.replace(" -Oz", "")),
    (LINE, "-triple", LINE.replace(" -triple x86_64-linux", "")),
    (LINE, "-fvisibility", LINE.replace(" -fvisibility=hidden", "")),
    (LINE, "-inline-threshold", LINE.replace(" -mllvm -inline-threshold=5", "")),
    (LINE, "-g", LINE),
    ("-cc1 -I a -Ib -O2 -I c", "-I", "-cc1 -O2"),
    ("-cc1 -target-cpu x86-64 -target-abi x", "-target", "-cc1 -target-cpu x86-64 -target-abi x"),
    ("-Oz -Xclang -target-feature -Xclang +avx -w", "-target-feature", "-Oz -w"),
]


def test_flags_are_deleted_with_their_values_in_every_spelling() -> None:
    for line, name, rest in DELETED:
        assert without_flags(line.split(), [name]) == tuple(rest.split())
    with pytest.raises(CorpusError, match=r"expected 1 value\(s\) after -triple"):
        without_flags(("-cc1", "-triple"), ["-g"])


def test_clang_agrees_with_the_table_of_values(any_toolchain: Toolchain) -> None:
    """Each flag alone lacks its value; those of other versions are unknown, and then arity hardly matters."""
    for flag in ("-triple", "-mllvm", "-target-cpu", "-main-file-name", "-internal-isystem", "-mrelocation-model"):
        answer = any_toolchain.run(["-cc1", flag]).stderr
        assert re.search(rf"argument to '{flag}' is missing \(expected {arity(flag)} value", answer), answer
    for flag in ("-Oz", "-emit-obj", "-disable-free", "-vectorize-slp", "-mconstructor-aliases", "-fvisibility=hidden"):
        assert arity(flag) == 0
        assert "is missing" not in any_toolchain.run(["-cc1", flag, "-version"]).stderr


def test_arguments_that_may_write_or_load_files_are_refused(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    for arguments in hostile_arguments(str(tmp_path / "target")).values():
        corpus = open_corpus(make_untrusted_corpus(tmp_path / "corpus", calls, arguments), toolchain=toolchain)
        (problem,) = verify(corpus, toolchain)
        assert "expected arguments that only shape code" in problem.text
        assert any(word in problem.text for word in arguments)
        with pytest.raises(UntrustedError, match=r"--trust-flags, trust_flags=True"):
            plan(corpus[0], toolchain)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus"], arguments
        assert len(list((tmp_path / "corpus").iterdir())) == 3


NAMING_FILES = (
    "-dependency-file TARGET -MT x -MP -sys-header-deps",
    "-working-directory FOLDER -dependency-file target -MT x",
    "-include TARGET",
    "-include-pch TARGET",
    "-isysroot TARGET",
    "-main-file-name TARGET",
    "-fprofile-instrument-path=TARGET",
)


def test_allowed_arguments_touch_no_files(any_toolchain: Toolchain, make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    bitcode = make_bitcode("calls.c", compiler=any_toolchain)
    for line in NAMING_FILES:
        words = line.replace("TARGET", str(tmp_path / "target")).replace("FOLDER", str(tmp_path)).split()
        assert refused_argument((*BENIGN, *words)) is None
        with Session((*any_toolchain.command, *BENIGN, *words, "-x", "ir", str(bitcode))) as session:
            assert session.finish(30).object_bytes
        assert list(tmp_path.iterdir()) == [], line


@pytest.mark.parametrize("recorded", [True, False])
def test_described_flags_are_untrusted(recorded: bool, calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    """With and without flags of the module, which the description overrides."""
    make_untrusted_corpus(tmp_path, calls, ())
    if not recorded:
        (tmp_path / "m.cmd").unlink()
    for flag in ("-fpass-plugin=x.so", "-fplugin=x.so", "-ftime-trace", "-fsave-optimization-record", "-gsplit-dwarf"):
        write_description(tmp_path, ["m"], global_command_override=["-O2", flag])
        with pytest.raises(UntrustedError):
            plan(open_corpus(tmp_path, toolchain=toolchain)[0], toolchain)
    write_description(tmp_path, ["m"], global_command_override=["-O2", "-fno-inline"])
    assert plan(open_corpus(tmp_path, toolchain=toolchain)[0], toolchain).confined


def test_a_triple_in_bitcode_names_no_file_of_flags(
    toolchain: Toolchain, make_bitcode: MakeBitcode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """clang's driver reads `TRIPLE.cfg`, below the working directory if the triple has a slash."""
    triple = "x86_64-corpus/evil-linux-musl"
    write_files(tmp_path, {f"{triple}.cfg": "-ftime-trace=stolen"})
    monkeypatch.chdir(tmp_path)
    line = cc1_line(toolchain, [f"--target={triple}", "-c", "-x", "ir", os.devnull])
    assert "-ftime-trace=stolen" in line
    module = Module("calls", make_bitcode("calls.c", triple=triple))
    for flags in (None, ("-Oz",)):
        with pytest.raises(UntrustedError, match="--target=x86_64-corpus/evil-linux-musl"):
            plan(replace(module, flags=flags, trusted=True), toolchain)


def test_a_variable_that_edits_command_lines_of_the_driver_is_not_in_the_result(
    calls: Path, toolchain: Toolchain, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCC_OVERRIDE_OPTIONS", "# O3 +-ftime-trace")
    flags = plan(Module("calls", calls), toolchain).flags
    assert "-Oz" in flags
    assert not [flag for flag in flags if "time-trace" in flag]


def test_usual_flags_of_builds_are_allowed() -> None:
    for words in (
        "",
        "-D X=1 -I /usr/include -dependency-file x.d -MT x.o -sys-header-deps",
        "-mllvm -inline-threshold=5 -mllvm --enable-gvn-hoist -mllvm -vectorize-loops=false",
        "-mllvm -inline-threshold -mllvm 5 -fembed-bitcode=all -flto=thin -fsplit-lto-unit",
        "-target-feature +avx2 -target-cpu x86-64-v3 -fsanitize=address -debug-info-kind=limited",
    ):
        assert refused_argument((*BENIGN, *words.split())) is None
    driver = "-O2 -march=x86-64-v3 -fPIC -ffunction-sections --target=aarch64-linux-gnu -m64"
    check_arguments(driver.split(), "x")


def test_flags_of_a_module_name_nothing_of_its_build() -> None:
    dropped = (
        "-Dx -Ux -Ix -Wall -Rpass -std=c11 -MTx -fdiagnostics-x -fno-diagnostics-x -ferror-limit=3 -fmessage-length=3 "
        "-ftemplate-depth=3 -fconstexpr-steps=3 -fbracket-depth=3 -fvisibility=x -fgnuc-version=4 -fmodules "
        "-fdebug-compilation-dir=/x -fcoverage-compilation-dir=/x -fmacro-prefix-map=/x -fdebug-prefix-map=/x "
        "-fcoverage-prefix-map=/x -ffile-prefix-map=/x -fimplicit-module-maps -fno-implicit-modules -fchar8_t "
        "-fno-char8_t -ftime-trace=x -fcrash-diagnostics-dir=/x -object-file-name=x -coverage-notes-file=x "
        "-coverage-data-file=x -femit-coverage-notes -coverage-version=x -stats-file=x -fsanitize-ignorelist=x "
        "-fsanitize-system-ignorelist=x -fprofile-list=x -fxray-always-instrument=x -fxray-never-instrument=x "
        "-fxray-attr-list=x -frandomize-layout-seed-file=x"
    )
    kept = ("-triple", "x", "-Oz", "-mllvm", "-x=1", "-ffunction-sections", "-main")
    for flag in dropped.split():
        assert code_generation_flags([flag, *kept, flag, "-main-file-name", "x.c", "x.c"]) == kept, flag


@pytest.mark.skipif(not confinement_support()[0], reason=confinement_support()[1])
def test_a_confined_clang_cannot_write_other_files(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("precious")
    for target in (old, new):
        command = (*toolchain.command, *BENIGN, "-stack-usage-file", str(target), "-x", "ir", str(calls))
        with (
            Session(command, confined=True) as session,
            pytest.raises(Exception, match="Permission denied"),
        ):
            session.finish(30)
    assert (old.read_text(), new.exists()) == ("precious", False)


def test_only_compiles_with_allowed_flags_are_confined(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    module = Module("calls", calls, BENIGN)
    assert plan(module, toolchain, ["-mllvm", "-inline-threshold=5"]).confined
    unconfined = plan(module, toolchain, ["-stack-usage-file", str(tmp_path / "usage")])
    assert not unconfined.confined
    with unconfined.session() as session:
        session.finish(30)
    assert (tmp_path / "usage").exists()
    # Flags of the user are trusted.
    flags = ["-Oz", "-Xclang", "-stack-usage-file", "-Xclang", str(tmp_path / "other")]
    play(InlineEnv(corpus=open_corpus(calls), compile_options={"flags": flags}))
    assert (tmp_path / "other").exists()


def test_a_profile_is_only_read_from_the_corpus(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    option = "-fbasic-block-sections=list="
    folder = write_files(tmp_path / "corpus", {"inputs/list.txt": "!f\n", "../outside": ""})
    (folder / "inputs/link").symlink_to(tmp_path / "outside")
    make_untrusted_corpus(folder, calls, (f"{option}inputs/list.txt",))
    flags = plan(open_corpus(folder, toolchain=toolchain)[0], toolchain).flags
    assert f"{option}{folder / 'inputs/list.txt'}" in flags
    for name in ("inputs/none", "../outside", "inputs/../../outside", "/etc/passwd", "inputs/link"):
        make_untrusted_corpus(folder, calls, (f"{option}{name}",))
        with pytest.raises(UntrustedError, match="only shape code"):
            plan(open_corpus(folder, toolchain=toolchain)[0], toolchain)


def following(words: tuple[str, ...], word: str) -> str:
    return words[words.index(word) + 1]


def compiled(compilation: Compilation) -> bytes:
    with compilation.session() as session:
        return session.finish(30).object_bytes


def test_a_module_without_flags_is_compiled_by_its_attributes(toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    for recorded, level in (("-Oz", "-Oz"), ("-Os", "-Os"), ("-O3", "-O2")):
        module = Module("calls", make_bitcode("calls.c", optimize=recorded))
        flags = plan(module, toolchain).flags
        assert default_flags(module) == (level, "-fPIC")
        assert (flags[0], level in flags) == ("-cc1", True)
        assert (following(flags, "-mrelocation-model"), following(flags, "-pic-level")) == ("pic", "2")


def test_driver_flags_are_expanded_as_the_driver_does(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    path = tmp_path / "driver.o"
    flags = ("-O2", "-march=x86-64-v3", "-fno-pic")
    result = toolchain.run(
        ["--target=x86_64-unknown-linux-musl", *flags, "-c", "-x", "ir", str(calls), "-o", str(path)]
    )
    assert result.returncode == 0
    assert compiled(plan(Module("calls", calls, flags), toolchain)) == path.read_bytes()


def test_special_characters_survive_the_driver_and_embedding_flags_do_not(calls: Path, toolchain: Toolchain) -> None:
    odd = """-fdebug-prefix-map=$(SRC)/a "b" \\c 'd'=e"""
    assert odd in plan(Module("calls", calls, ("-Oz", "-Xclang", odd), trusted=True), toolchain).flags
    flags = (*BENIGN, "-mllvm", "-lto-embed-bitcode=post-merge-pre-opt", "-fembed-bitcode=all")
    assert plan(Module("m", calls, flags), toolchain).flags == (*BENIGN, "-w")


def test_additions_before_the_input_win_as_behind_it_in_ml_compiler_opt(calls: Path, toolchain: Toolchain) -> None:
    recorded, extra = ("-cc1", "-emit-obj", "-Oz"), ("-O0", "-ffunction-sections")
    module = Module("calls", calls, recorded)
    upstream = Compilation(toolchain, module, (*recorded, "-w", "-x", "ir", str(calls), *extra), ())
    assert compiled(plan(module, toolchain, extra)) == compiled(upstream)
    assert compiled(plan(module, toolchain)) != compiled(upstream)


def test_flags_that_the_driver_refuses_are_an_error(calls: Path, toolchain: Toolchain) -> None:
    with pytest.raises(ToolchainError, match="unknown argument: '-no-such'"):
        plan(Module("m", calls, ("-Oz", "-no-such"), trusted=True), toolchain)


def test_a_summary_index_goes_with_the_input(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    index = tmp_path / "calls.thinlto.bc"
    index.write_bytes(b"index")
    recorded = ("-cc1", "-emit-obj", "-fthinlto-index=old")
    compilation = plan(Module("calls", calls, recorded, thinlto_index=index), toolchain)
    assert "-fthinlto-index=old" not in compilation.flags
    assert f"-fthinlto-index={index}" in compilation.inputs
    assert "-thinlto-assume-merged" in compilation.inputs
