"""Recording of a build: modules, names, levels, and the effects on the build."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from mlgo_gym.corpus.commands import driver, shim_compiles
from mlgo_gym.corpus.modules.description import read_command, read_description, read_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import Recorder, Recording
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain

C_SOURCE = """\
#include <stdio.h>
#include <string.h>
#include "sum.h"
static int mix(int seed) { char text[64]; memset(text, seed, sizeof text); return text[seed & 63] + sum(seed); }
int entry(int seed) { if (seed > 7) puts(__FILE__); return mix(seed) * NUMBER; }
"""


CXX_SOURCE = """\
#include <initializer_list>
#include <new>
int count(const char *word) { return *new int(std::initializer_list<const char *>{word, ""}.size()); }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with two sources in C, one in C++, and a header."""
    folder = tmp_path / "project"
    (folder / "lib").mkdir(parents=True)
    (folder / "entry.c").write_text(C_SOURCE)
    (folder / "lib" / "sum.h").write_text("int sum(int);\n")
    (folder / "lib" / "sum.c").write_text("int sum(int n) { int s = 0; while (n > 0) s += n--; return s; }\n")
    (folder / "count.cpp").write_text(CXX_SOURCE)
    return folder


def record(project: Path, script: str, toolchain: Toolchain, **options: object) -> Recording:
    """Record a shell script as the build; the corpus is `project/../corpus`."""
    output = project.parent / "corpus"
    return record_build(
        ["sh", "-ec", script],
        output,
        toolchain=toolchain,
        folder=project,
        **options,  # type: ignore[arg-type]
    )


def executable_sections(path: Path) -> dict[str, bytes]:
    """Return the contents of the executable sections of an object file."""
    with path.open("rb") as file:
        return {part.name: part.data() for part in ELFFile(file).iter_sections() if part["sh_flags"] & 4}


def test_a_compile_leaves_its_object_and_a_module(project: Path, any_toolchain: Toolchain) -> None:
    build = record(project, "$CC -O2 -Ilib -DNUMBER=3 -c entry.c -o entry.o", any_toolchain)
    corpus = project.parent / "corpus"
    assert build.status == 0
    assert (project / "entry.o").exists()
    assert build.modules == ("entry.o",)
    assert read_description(corpus).modules == ("entry.o",)
    assert read_bitcode(corpus / "entry.o.bc").functions == 2
    metadata = read_metadata(corpus, "entry.o")
    assert metadata["source"] == "entry.c"
    assert metadata["source_sha256"] == hashlib.sha256(C_SOURCE.encode()).hexdigest()
    assert metadata["language"] == "C"
    assert metadata["lines"] == 5
    assert metadata["compiler"] == f"clang {any_toolchain.version_text}"


@pytest.mark.parametrize("level", ["Oz", "Os", "O2", "O3"])
def test_the_level_that_is_asked_for_replaces_that_of_the_build(
    project: Path, toolchain: Toolchain, level: str
) -> None:
    script = "cc -O0 -Ilib -DNUMBER=3 -c entry.c; c++ -O3 -c count.cpp; cc -Os -c lib/sum.c"
    build = record(project, script, toolchain, optimize=level)
    assert len(build.modules) == 3
    expected = {"Oz": "Oz", "Os": "Os", "O2": "O1-O3", "O3": "O1-O3"}[level]
    for module in open_corpus(project.parent / "corpus", toolchain=toolchain):
        facts = read_bitcode(module.bitcode)
        assert facts.level == expected
        assert facts.optnone == 0
        assert module.flags is not None
        assert f"-{level}" in module.flags
        assert module.metadata["optimize"] == level


@pytest.mark.parametrize(
    ("compile_options", "level"),
    [
        ("cc -Ilib -DNUMBER=3 -c entry.c", "Oz"),
        ("cc -Ilib -DNUMBER=3 -c entry.c", "O2"),
        ("cc -fPIC -ffunction-sections -c lib/sum.c", "Oz"),
        ("cc -fPIC -ffunction-sections -c lib/sum.c", "O2"),
        ("c++ -std=c++17 -c count.cpp", "Oz"),
        pytest.param("c++ -std=c++17 -c count.cpp", "O2", marks=pytest.mark.slow),
    ],
)
def test_bitcode_compiles_to_the_code_of_its_source(
    project: Path, any_toolchain: Toolchain, level: str, compile_options: str
) -> None:
    record(project, compile_options, any_toolchain, optimize=level)
    (module,) = open_corpus(project.parent / "corpus", toolchain=any_toolchain)
    again = project / "again.o"
    assert module.flags is not None
    result = any_toolchain.run([*module.flags, "-x", "ir", str(module.bitcode), "-o", str(again)])
    assert result.returncode == 0, result.stderr

    direct = project / "direct.o"
    with Recorder(any_toolchain, level, project) as session:
        mode, *arguments = compile_options.split()
        language = mode.replace("cc", "c")
        (line,), problem = shim_compiles.compile_commands(session.settings, arguments, str(project), language)
        assert problem is None
        words = shim_compiles.without_side_outputs(line[:-1])
        subprocess.run([*any_toolchain.command, *words, "-o", str(direct), line[-1]], cwd=project, check=True)
    assert executable_sections(again) == executable_sections(direct)
    assert executable_sections(again)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        "-g -gsplit-dwarf -ffile-prefix-map=/=x -save-temps -fembed-bitcode=all",
        pytest.param(
            "-g -fno-integrated-as",
            marks=pytest.mark.skipif(shutil.which("as") is None, reason="as, the assembler, is not installed"),
        ),
        "-fsanitize=address -fsanitize-coverage=trace-pc",
        "-fprofile-instr-generate -fcoverage-mapping -finstrument-functions -pg",
        "-fstack-protector-all -ftrapv -mavx2 -ffast-math -fbasic-block-sections=all -mllvm -unroll-count=2",
    ],
)
def test_flags_of_the_build_shape_the_code_of_its_module(project: Path, toolchain: Toolchain, flags: str) -> None:
    record(project, f"cc {flags} -c lib/sum.c", toolchain)
    (module,) = open_corpus(project.parent / "corpus", toolchain=toolchain)
    before, after = driver.driver_options(toolchain)
    start = [*toolchain.command, "--driver-mode=gcc", *before]
    for name, words in (
        ("direct.o", [*start, *flags.split(), "-c", "lib/sum.c", *after, "-Oz"]),
        ("plain.o", [*start, "-c", "lib/sum.c", *after, "-Oz"]),
        ("again.o", [*toolchain.command, *(module.flags or ()), "-x", "ir", str(module.bitcode)]),
    ):
        subprocess.run([*words, "-o", name], cwd=project, check=True, capture_output=True)
    direct, plain, again = (executable_sections(project / name) for name in ("direct.o", "plain.o", "again.o"))
    assert again == direct
    assert flags.startswith("-g ") == (direct == plain)


@pytest.mark.parametrize("flags", ["-march=native -mtune=native", "-flto", "-flto=thin"])
def test_flags_of_one_machine_or_of_the_link_are_dropped(project: Path, toolchain: Toolchain, flags: str) -> None:
    record(project, f"cc {flags} -c lib/sum.c", toolchain)
    plain = project.parent / "plain"
    record_build(["sh", "-ec", "cc -c lib/sum.c"], plain, toolchain=toolchain, folder=project)
    for suffix in ("bc", "cmd"):
        assert (project.parent / "corpus" / f"sum.o.{suffix}").read_bytes() == (plain / f"sum.o.{suffix}").read_bytes()


def test_flags_say_nothing_of_the_folder_of_the_source(project: Path, toolchain: Toolchain) -> None:
    script = "cc -g -MD -MF entry.d -Wall -std=gnu11 -Ilib -DNUMBER=3 -fno-omit-frame-pointer -c entry.c -o entry.o"
    record(project, script, toolchain)
    flags = read_command(project.parent / "corpus" / "entry.o.cmd")
    assert flags[0] == "-cc1"
    assert (project / "entry.d").exists()
    assert not any(str(project) in flag or "entry" in flag for flag in flags)
    assert "-mframe-pointer=all" in flags
    for dropped in ("-o", "-x", "-I", "-D", "-isystem", "-dependency-file", "-std=gnu11"):
        assert dropped not in flags


def test_two_folders_give_equal_recordings(project: Path, tmp_path: Path, toolchain: Toolchain) -> None:
    script = "cc -g -Ilib -DNUMBER=3 -c $PWD/entry.c -o entry.o; c++ -c count.cpp"
    elsewhere = tmp_path / "elsewhere" / "project"
    shutil.copytree(project, elsewhere)
    record(project, script.replace("$PWD/", ""), toolchain)
    record(elsewhere, script.replace("$PWD/", ""), toolchain)
    first, second = (
        {file.name: file.read_bytes() for file in (parent / "corpus").iterdir()}
        for parent in (project.parent, elsewhere.parent)
    )
    assert {"entry.o.bc", "count.o.bc"} <= first.keys()
    assert first == second


@pytest.mark.parametrize(
    ("script", "modules"),
    [
        ("cc -c lib/sum.c -osum.o", {"sum.o"}),
        ("cd lib && cc -c sum.c", {"lib/sum.o"}),
        ("cc -Ilib -DNUMBER=3 -shared -fPIC entry.c lib/sum.c -o both.so", {"entry.o", "lib/sum.o"}),
        ("cc -include lib/sum.h lib/sum.c -shared -o sum.so", {"lib/sum.o"}),
        ("echo '-c lib/sum.c -o \"a b.o\"' > words; cc @words", {"a b.o"}),
        ("cc -x c -c lib/sum.c -o x.o", {"x.o"}),
        ("cp lib/sum.c sum.txt; cc -xc -c sum.txt -o sum.o", {"sum.o"}),
        ("cc -E lib/sum.c > sum.i; cc -c sum.i", {"sum.o"}),
        ("mkdir -p a b; cc -c lib/sum.c -o a/x.o; cc -ffunction-sections -c lib/sum.c -o b/x.o", {"a/x.o", "b/x.o"}),
    ],
)
def test_module_names_are_the_paths_of_objects(
    project: Path, toolchain: Toolchain, script: str, modules: set[str]
) -> None:
    assert set(record(project, script, toolchain).modules) == modules


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        "-include-pch all.hpp.pch",
        "-include all.hpp",
        "-Xclang -include-pch -Xclang all.hpp.pch -Xclang -include -Xclang all.hpp",
    ],
)
def test_precompiled_headers_do_not_get_in_the_way_of_another_level(
    project: Path, any_toolchain: Toolchain, use: str
) -> None:
    (project / "all.hpp").write_text("#include <initializer_list>\n")
    (project / "size.cpp").write_text("int size(int x) { return std::initializer_list<int>{x, 1}.size(); }\n")
    script = f"c++ -O0 -x c++-header all.hpp -o all.hpp.pch; c++ -O0 {use} -c size.cpp"
    build = record(project, script, any_toolchain)
    assert build.status == 0
    assert build.modules == ("size.o",)
    assert build.failures == ()


def test_compiles_without_an_object_and_probes_are_not_recorded(project: Path, toolchain: Toolchain) -> None:
    script = """
        cc -E lib/sum.c > /dev/null
        cc -S lib/sum.c -o sum.s
        cc -c sum.s -o assembled.o
        cc -fsyntax-only lib/sum.c
        cc -c lib/sum.c -o /dev/null
        cc --version > /dev/null
        echo 'int main(void) { return 0; }' > conftest.c; cc -c conftest.c
        mkdir -p CMakeFiles/CMakeScratch/x; cp conftest.c CMakeFiles/CMakeScratch/x/t.c
        cc -c CMakeFiles/CMakeScratch/x/t.c
        cc -c lib/sum.c
        ar rcs libsum.a sum.o
    """
    assert record(project, script, toolchain).modules == ("sum.o",)
    assert (project / "libsum.a").stat().st_size > 8


def test_a_compile_that_fails_fails_and_is_no_module(project: Path, toolchain: Toolchain) -> None:
    build = record(project, "cc -c lib/sum.c; cc -c entry.c", toolchain)
    assert build.status != 0
    assert build.modules == ("sum.o",)
    assert build.failures == ()


def test_a_failed_recording_is_named_and_does_not_break_the_build(project: Path, toolchain: Toolchain) -> None:
    (project / "picky.c").write_text("#ifdef __OPTIMIZE_SIZE__\n#error no place for this\n#endif\nint picky;\n")
    build = record(project, "cc -O2 -c picky.c; cc -c lib/sum.c", toolchain)
    assert build.status == 0
    assert build.modules == ("sum.o",)
    (failure,) = build.failures
    assert failure.source == "picky.c"
    assert "no place for this" in failure.message


def test_a_build_that_compiles_nothing_is_an_error(project: Path, toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match="expected compiles of C, C\\+\\+ or Rust sources, got none"):
        record(project, "true", toolchain)
    assert not (project.parent / "corpus").exists()


def test_a_folder_in_use_is_refused_before_the_build(project: Path, toolchain: Toolchain) -> None:
    corpus = project.parent / "corpus"
    corpus.mkdir()
    (corpus / "mine").touch()
    with pytest.raises(CorpusError, match="expected a new or empty folder"):
        record(project, "touch started", toolchain)
    assert not (project / "started").exists()


@pytest.mark.slow
def test_parallel_compiles_are_all_recorded(project: Path, toolchain: Toolchain) -> None:
    for number in range(24):
        (project / f"part{number}.c").write_text(f"int part{number}(int x) {{ return x * {number}; }}\n")
    build = record(
        project, "for n in 1 2 3; do for p in part$n*.c; do cc -c $p & done; wait; done; cc -c part0.c", toolchain
    )
    assert len(build.modules) == len(list(project.glob("part*.o")))
    assert len(build.modules) > 12


def test_the_shims_find_no_other_compiler(project: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = project.parent / "programs"
    programs.mkdir()
    for name in ("sh", "cat"):
        (programs / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(programs))
    script = "gcc -c lib/sum.c; g++ -c count.cpp; clang -Ilib -DNUMBER=1 -c entry.c; ar rcs lib.a sum.o; ranlib lib.a"
    assert record(project, script, toolchain).modules == ("count.o", "entry.o", "sum.o")


def test_only_headers_named_by_the_machine_are_seen_of_the_system(
    project: Path, toolchain: Toolchain, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = driver.bundled_target().partition(".")[0]
    system = project.parent / "system"
    (system / machine / "python9").mkdir(parents=True)
    (system / machine / "python9" / "pyconfig.h").write_text("#define FROM_SYSTEM 1\n")
    (system / "other.h").touch()
    monkeypatch.setattr(driver, "SYSTEM_HEADERS", system)
    (project / "glue.c").write_text(f"#include <{machine}/python9/pyconfig.h>\nint glue = FROM_SYSTEM;\n")
    (project / "hidden.c").write_text("#include <other.h>\n")
    build = record(project, "cc -c glue.c; cc -c hidden.c", toolchain)
    assert build.modules == ("glue.o",)
    assert build.status == 1


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_make_project_is_recorded(project: Path, any_toolchain: Toolchain) -> None:
    (project / "Makefile").write_text("CFLAGS = -O2 -Ilib -DNUMBER=2\nall: entry.o lib/sum.o count.o\n")
    build = record(project, "make -j2", any_toolchain)
    assert build.modules == ("count.o", "entry.o", "lib/sum.o")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("make") is None, reason="cmake or make is missing")
@pytest.mark.timeout(400)
def test_a_cmake_project_is_recorded(project: Path, any_toolchain: Toolchain) -> None:
    # With nothing in C++ to link, nothing waits for the bundled compiler to build its C++ library.
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nset(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\n"
        "set(CMAKE_CXX_COMPILER_ID_RUN ON)\nset(CMAKE_CXX_COMPILER_FORCED ON)\nproject(p C CXX)\n"
        'include(CheckCSourceCompiles)\ncheck_c_source_compiles("int f(void);" WORKS)\n'
        "add_library(parts STATIC lib/sum.c count.cpp)\n"
    )
    build = record(project, "cmake -G 'Unix Makefiles' -B build . && cmake --build build -j2", any_toolchain)
    folder = "build/CMakeFiles/parts.dir"
    assert build.status == 0
    assert build.modules == (f"{folder}/count.cpp.o", f"{folder}/lib/sum.c.o")
    assert (project / "build" / "libparts.a").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_configured_project_is_recorded(project: Path, any_toolchain: Toolchain) -> None:
    (project / "configure").write_text(
        "for option in -Wall -fno-such-option; do\n"
        "  echo 'int main(void) { return 0; }' > conftest.c\n"
        '  if $CC -Werror $option -c conftest.c 2> conftest.err; then CFLAGS="$CFLAGS $option"; fi\n'
        "done\n"
        'printf "CC = $CC\\nCFLAGS = $CFLAGS\\nall: lib/sum.o\\n" > Makefile\n'
    )
    build = record(project, "sh configure && make", any_toolchain)
    assert build.modules == ("lib/sum.o",)
    assert "-Wall" in (project / "Makefile").read_text()
    assert "-fno-such-option" not in (project / "Makefile").read_text()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("setuptools") is None, reason="setuptools is not installed")
def test_a_setuptools_project_is_recorded(project: Path, any_toolchain: Toolchain) -> None:
    (project / "setup.py").write_text(
        "from setuptools import setup\n"
        "setup(name='p', packages=[], py_modules=[], libraries=[('p', {'sources': ['lib/sum.c', 'count.cpp']})])\n"
    )
    build = record(project, f"'{sys.executable}' -W ignore setup.py build_clib", any_toolchain)
    assert build.status == 0
    assert {Path(name).name for name in build.modules} == {"sum.o", "count.o"}
