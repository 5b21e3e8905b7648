"""Recording of a build: modules, names, levels, skipped compiles, and the effects on the build."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.corpus import driver, open_corpus
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.folder import read_command, read_description, read_metadata
from mlgo_gym.corpus.recording.link_records import file_kind
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.shim_records import READ_ONCE
from mlgo_gym.errors import CorpusError, NothingCompiledError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import write_files
from tests.corpus.conftest import executable_sections, record

C_SOURCE = """\
#include <stdio.h>
#include <string.h>
#include "sum.h"
static int mix(int seed) { char text[64]; memset(text, seed, sizeof text); return text[seed & 63] + sum(seed); }
int entry(int seed) { if (seed > 7) puts(__FILE__); return mix(seed) * NUMBER; }
"""
SOURCES = {
    "entry.c": C_SOURCE,
    "lib/sum.h": "int sum(int);\n",
    "lib/sum.c": "int sum(int n) { int s = 0; while (n > 0) s += n--; return s; }\n",
    "count.cpp": "#include <initializer_list>\n#include <new>\n"
    'int count(const char *word) { return *new int(std::initializer_list<const char *>{word, ""}.size()); }\n',
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with two sources in C, one in C++, and a header."""
    return write_files(tmp_path / "project", SOURCES)


def test_a_compile_leaves_its_object_and_a_module_without_its_paths(project: Path, any_toolchain: Toolchain) -> None:
    script = "$CC -O2 -g -MD -MF entry.d -Wall -std=gnu11 -Ilib -DNUMBER=3 -fno-omit-frame-pointer -c entry.c"
    build = record(project, script, any_toolchain)
    corpus = project.parent / "corpus"
    assert (build.status, build.modules) == (0, ("entry.o",))
    assert (project / "entry.o").exists()
    assert (project / "entry.d").exists()
    assert read_description(corpus).modules == ("entry.o",)
    assert read_bitcode(corpus / "entry.o.bc").functions == 2
    metadata = read_metadata(corpus, "entry.o")
    assert metadata["source_sha256"] == hashlib.sha256(C_SOURCE.encode()).hexdigest()
    facts = {"source": "entry.c", "language": "C", "lines": 5, "compiler": f"clang {any_toolchain.version_text}"}
    assert {name: metadata[name] for name in facts} == facts
    flags = read_command(corpus / "entry.o.cmd")
    assert flags[0] == "-cc1"
    assert {"-mframe-pointer=all", "-Oz"} <= set(flags)
    assert not {"-o", "-x", "-I", "-D", "-isystem", "-dependency-file", "-std=gnu11"} & set(flags)
    assert not any(str(project) in flag or "entry" in flag for flag in flags)


def test_sources_of_every_suffix_are_recorded(tmp_path: Path, toolchain: Toolchain) -> None:
    suffixes = ("c", "cc", "cp", "cpp", "cxx", "c++", "C", "CPP", "i", "ii")
    sources = {f"f{number}.{suffix}": "int f;\n" for number, suffix in enumerate(suffixes)}
    project = write_files(tmp_path / "project", sources)
    build = record(project, "for source in *; do cc -c $source; done", toolchain)
    assert sorted(build.modules) == [f"f{number}.o" for number in range(len(suffixes))]
    # A link compiles a source among its inputs.
    assert {file_kind(str(project / name), is_word=True) for name in sources} == {"source"}


SLOW_LEVELS = [pytest.param(level, marks=pytest.mark.slow) for level in ("Oz", "O2", "O3")]


@pytest.mark.parametrize("level", ["Os", *SLOW_LEVELS])
def test_the_requested_level_replaces_that_of_the_build(project: Path, toolchain: Toolchain, level: str) -> None:
    script = "cc -O0 -Ilib -DNUMBER=3 -c entry.c; c++ -O3 -c count.cpp; cc -Os -c lib/sum.c"
    build = record(project, script, toolchain, optimize=level)
    assert len(build.modules) == 3
    for module in open_corpus(build.corpus, toolchain=toolchain):
        facts = read_bitcode(module.bitcode)
        assert (facts.level, facts.optnone) == (level if level < "O" or level[1] in "sz" else "O1-O3", 0)
        assert f"-{level}" in (module.flags or ())
        assert module.metadata["optimize"] == level


SLOW_FLAGS = [
    "-g -gsplit-dwarf -ffile-prefix-map=/=x -save-temps -fembed-bitcode=all",
    "-g -fno-integrated-as",
    "-fsanitize=address -fsanitize-coverage=trace-pc",
    "-fprofile-instr-generate -fcoverage-mapping -finstrument-functions -pg",
    "-fstack-protector-all -ftrapv -mavx2 -ffast-math -fbasic-block-sections=all -mllvm -unroll-count=2",
]


@pytest.mark.parametrize(
    ("compile_options", "level"),
    [
        ("-Ilib -DNUMBER=3 -fPIC -ffunction-sections -c entry.c", "Oz"),
        ("-std=c++17 -c count.cpp", "O2"),
        *(
            pytest.param(f"{flags} -c {source}", level, marks=pytest.mark.slow)
            for flags, source in [("", "lib/sum.c"), ("-std=c++17", "count.cpp"), ("-Ilib -DNUMBER=2", "entry.c")]
            for level in ("Oz", "O2")
        ),
        *(pytest.param(f"{flags} -c lib/sum.c", "Oz", marks=pytest.mark.slow) for flags in SLOW_FLAGS),
    ],
)
def test_modules_compile_as_built(project: Path, any_toolchain: Toolchain, level: str, compile_options: str) -> None:
    if "-fno-integrated-as" in compile_options and shutil.which("as") is None:
        pytest.skip("as, the assembler, is not installed")
    mode = "c++" if compile_options.endswith("cpp") else "cc"
    build = record(project, f"{mode} {compile_options}", any_toolchain, optimize=level)
    (module,) = open_corpus(build.corpus, toolchain=any_toolchain)
    before, after = driver.driver_options(any_toolchain)
    direct = [f"--driver-mode={'g++' if mode == 'c++' else 'gcc'}", *before, *compile_options.split(), *after]
    for name, words in (
        ("direct.o", [*direct, f"-{level}"]),
        ("again.o", [*(module.flags or ()), "-x", "ir", str(module.bitcode)]),
    ):
        subprocess.run([*any_toolchain.command, *words, "-o", name], cwd=project, check=True, capture_output=True)
    assert executable_sections(project / "again.o") == executable_sections(project / "direct.o") != {}


def test_flags_of_machine_or_link_are_dropped_and_equal_modules_are_one(project: Path, toolchain: Toolchain) -> None:
    flags = {"a": "", "b": "-march=native -mtune=native", "c": "-flto", "d": "-flto=thin"}
    compiles = [f"mkdir {name}; cc {words} -c lib/sum.c -o {name}/sum.o" for name, words in flags.items()]
    build = record(project, "; ".join(compiles), toolchain)
    assert (build.modules, build.duplicates, build.failures) == (("a/sum.o",), 3, ())


def test_a_source_in_two_folders_with_split_debug_files_is_two_modules(project: Path, toolchain: Toolchain) -> None:
    script = "for n in 1 2; do mkdir $n; (cd $n; cc -g -gsplit-dwarf -Dsum=sum$n -c ../lib/sum.c); done"
    build = record(project, script, toolchain)
    assert (build.modules, build.duplicates, build.failures) == (("1/sum.o", "2/sum.o"), 0, ())
    assert sorted(path.name for path in (project / "2").iterdir()) == ["sum.dwo", "sum.o"]


def test_two_folders_give_equal_recordings(project: Path, tmp_path: Path, toolchain: Toolchain) -> None:
    elsewhere = tmp_path / "elsewhere" / "project"
    shutil.copytree(project, elsewhere)
    recordings = []
    for folder in (project, elsewhere):
        record(folder, "cc -g -Ilib -DNUMBER=3 -c entry.c; c++ -c count.cpp", toolchain)
        recordings.append({file.name: file.read_bytes() for file in (folder.parent / "corpus").iterdir()})
    assert recordings[0] == recordings[1]
    assert {"entry.o.bc", "count.o.bc"} <= set(recordings[0])


def test_module_names_are_the_paths_of_objects(project: Path, toolchain: Toolchain) -> None:
    script = """
        cc -Dsum=a -c lib/sum.c -oa.o
        (cd lib && cc -Dsum=b -c sum.c)
        cp lib/sum.c lib/other.c
        echo 'int first;' > first.c; cc -Dsum=c -shared -nostdlib -fPIC first.c lib/other.c -o both.so
        echo '-Dsum=d -c lib/sum.c -o "a b.o"' > words; cc @words
        cc -x c -Dsum=e -c lib/sum.c -o x.o
        cp lib/sum.c sum.txt; cc -xc -Dsum=f -c sum.txt -o text.o
        cc -Dsum=g -E lib/sum.c > sum.i; cc -Werror -c sum.i
        cc -Dsum=j -c -o dashes.o -- lib/sum.c
        mkdir a b; cc -Dsum=h -c lib/sum.c -o a/x.o; cc -Dsum=i -c lib/sum.c -o b/x.o
    """
    build = record(project, script, toolchain)
    assert set(build.modules) == {"a.o", "lib/sum.o", "first.o", "lib/other.o", "a b.o", "x.o", "text.o", "sum.o"} | {
        "a/x.o",
        "b/x.o",
        "dashes.o",
    }
    assert (build.duplicates, build.replaced) == (0, 0)


def test_one_source_in_several_programs_is_several_modules(project: Path, toolchain: Toolchain) -> None:
    link = "$CC -nostdlib -shared"
    (project / "t.c").write_text("int main(void) {\n#ifdef A\nreturn 1;\n#endif\nreturn 2; }\n")
    recording = record(project, f"{link} -DA t.c -o a; {link} -DB t.c -ob; {link} t.c", toolchain)
    # -DB and the third one are equal, since no line uses B.
    assert (recording.replaced, recording.duplicates, len(recording.modules)) == (0, 1, 2)
    assert recording.failures == ()
    again = record_build(
        ["sh", "-ec", f"{link} -DA t.c -o a; {link} t.c -o a"], project.parent / "again", folder=project
    )
    assert (again.replaced, len(again.modules)) == (1, 1)


def test_compiles_without_an_object_and_probes_are_counted_by_reason(project: Path, toolchain: Toolchain) -> None:
    probe = "int main(void) { return 0; }\n"
    probes = {"conftest.c": probe, "ztest123.c": probe, "CMakeFiles/CMakeScratch/x/t.c": probe, "o.m": probe}
    probes["m.cppm"] = "export module m;\n"
    write_files(project, probes)
    script = """
        $CC -c lib/sum.c; ar rcs libsum.a sum.o
        $CC -E lib/sum.c > /dev/null; $CC -dM -E - < /dev/null > /dev/null; $CC -fsyntax-only lib/sum.c
        $CC --version > /dev/null; $CC -c lib/sum.c -o /dev/null
        $CC -S lib/sum.c; $CC -c sum.s -o assembled.o
        $CC -c -x c - -o std.o < lib/sum.c; $CC -emit-llvm -c lib/sum.c -o g.bc; $CC -c o.m
        $CXX -std=c++20 --precompile m.cppm
        $CC -c conftest.c; $CC -c ztest123.c; $CC -c CMakeFiles/CMakeScratch/x/t.c
    """
    recording = record(project, script, toolchain)
    assert recording.modules == ("sum.o",)
    assert (project / "libsum.a").stat().st_size > 8
    assert dict(recording.skipped) == {
        "compiled to assembly (-S)": 1,
        "assembly": 1,
        "a source on standard input": 1,
        "a probe of the build system": 3,
        "Objective-C": 1,
        "a C++ module": 1,
        "compiled to LLVM's own form (-emit-llvm)": 1,
    }


def test_a_compile_of_an_input_that_is_read_once_is_counted_alone(project: Path, toolchain: Toolchain) -> None:
    """A second front end would wait for another writer, or read nothing and record another module."""
    script = """
        define='int once(void) { return 7; }'
        mkfifo pipe; echo > /dev/shm/$$.h
        echo "$define" > pipe & $CC -include pipe -c lib/sum.c -o 1.o
        echo "$define" | $CC -include /dev/stdin -c lib/sum.c -o 2.o
        $CC -imacros /proc/self/fd/0 -c lib/sum.c -o 3.o < lib/sum.h
        echo "$define" > pipe & $CC -x c -c pipe -o 4.o
        echo -O1 > pipe & $CC @pipe -c lib/sum.c -o 5.o
        $CC -DDEVICE=/dev/stdin -include /dev/null -include /dev/shm/$$.h -c lib/sum.c -o good.o
        rm /dev/shm/$$.h
    """
    recording = record(project, script, toolchain)
    assert (recording.status, recording.failures, recording.modules) == (0, (), ("good.o",))
    assert dict(recording.skipped) == {READ_ONCE: 5}


def test_a_temporary_source_is_a_probe_only_if_its_object_is_temporary_too(
    project: Path, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    write_files(temporary, {"gen.c": "int gen;\n", "tmp1/t.c": "int t;\n"})
    script = f"""
        mkdir -p .{temporary}
        $CC -c {temporary}/gen.c -o gen.o; $CC -c {temporary}/tmp1/t.c
        $CC -c {temporary}/gen.c -o {temporary}/gen.o; $CC -c {temporary}/gen.c -o .{temporary}/gen.o
        $CC -c {temporary}/tmp1/t.c -o {temporary}/tmp1/t.o
    """
    recording = record(project, script, toolchain)
    assert (recording.modules, dict(recording.skipped)) == (("gen.o", "t.o"), {"a probe of the build system": 3})


@pytest.mark.slow
def test_precompiled_headers_and_modules_do_not_get_in_the_way(project: Path, any_toolchain: Toolchain) -> None:
    size = "int SIZE(int x) { return std::initializer_list<int>{x, 1}.size(); }\n"
    module = {
        "m.cppm": "export module m; export int m() { return 1; }\n",
        "u.cpp": "import m; int u() { return m(); }\n",
    }
    write_files(project, {"all.hpp": "#include <initializer_list>\n", "size.cpp": size, **module})
    uses = (
        "-include-pch all.hpp.pch",
        "-include all.hpp",
        "-Xclang -include-pch -Xclang all.hpp.pch -Xclang -include -Xclang all.hpp",
    )
    compiles = [f"c++ -O0 {use} -DSIZE=size{number} -c size.cpp -o {number}.o" for number, use in enumerate(uses)]
    script = (
        f"c++ -O0 -x c++-header all.hpp -o all.hpp.pch; {'; '.join(compiles)}; "
        "c++ -std=c++20 --precompile m.cppm -o m.pcm; c++ -std=c++20 -fmodule-file=m=m.pcm -c u.cpp"
    )
    build = record(project, script, any_toolchain)
    assert (build.status, build.failures) == (0, ())
    assert {f"{number}.o" for number in range(len(uses))} <= set(build.modules)
    assert build.skipped["a C++ module"] == 1
    assert len(build.modules) + build.skipped.get("a compile with precompiled modules", 0) == 4
    headers = ["sh", "-ec", "cc -c lib/sum.c; cc -x c-header lib/sum.h -o sum.h.pch; cc lib/sum.h -o other.pch"]
    # Objects of the build that ended just before are none of this.
    counted = record_build(headers, project.parent / "headers", toolchain=any_toolchain, folder=project)
    assert (counted.modules, counted.skipped) == (("sum.o",), {"a precompiled header": 2})


def test_a_build_without_compiles_or_a_used_folder_is_an_error(project: Path, toolchain: Toolchain) -> None:
    words = r"the build ended with status 3; expected compiles of C, C\+\+ or Rust sources, got none"
    with pytest.raises(NothingCompiledError, match=words) as caught:
        record(project, "echo printed; echo failed >&2; exit 3", toolchain, log=project.parent / "log")
    assert caught.value.status == 3
    assert (project.parent / "log").read_text() == "printed\nfailed\n"
    corpus = project.parent / "corpus"
    assert not corpus.exists()
    corpus.mkdir()
    (corpus / "mine").touch()
    with pytest.raises(CorpusError, match="expected a new or empty folder"):
        record(project, "touch started", toolchain)
    assert not (project / "started").exists()


def test_side_outputs_stay_and_files_that_flags_name_are_copied(project: Path, toolchain: Toolchain) -> None:
    (project / "order.txt").write_text("!sum\n")
    (project / "f.c").write_text("int f(int x) { return x + 1; }\n")
    flags = "--coverage -save-stats -MJ db.json -ftime-trace=trace.json -fstack-usage -gsplit-dwarf -g"
    flags += " --serialize-diagnostics f.dia -MD -MF stat.d -MT stat"
    option = "-fbasic-block-sections=list="
    build = record(project, f"$CC {flags} -c f.c; $CC -ffunction-sections {option}order.txt -c lib/sum.c", toolchain)
    written = {path.name: path.stat().st_mtime_ns for path in project.iterdir()}
    assert {"db.json", "f.dia", "f.gcno", "f.su"} <= set(written)
    assert (project / "db.json").read_text().count('"output": "f.o"') == 1
    compilation = plan(open_corpus(build.corpus, toolchain=toolchain).module("f.o"), toolchain)
    assert compilation.confined
    assert not [flag for flag in compilation.flags if "cov" in flag or "stat" in flag or str(project) in flag]
    assert {path.name: path.stat().st_mtime_ns for path in project.iterdir()} == written

    (named,) = [flag for flag in read_command(build.corpus / "sum.o.cmd") if flag.startswith(option)]
    copied = build.corpus / named.removeprefix(option)
    assert (copied.parent.name, copied.read_text()) == ("inputs", "!sum\n")
    (project / "order.txt").unlink()
    module = open_corpus(build.corpus, toolchain=toolchain).module("sum.o")
    assert f"{option}{copied}" in plan(module, toolchain).flags


def test_the_shims_find_no_other_compiler(project: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = project.parent / "programs"
    programs.mkdir()
    (programs / "sh").symlink_to(shutil.which("sh") or "")
    (programs / "cat").symlink_to(shutil.which("cat") or "")
    monkeypatch.setenv("PATH", str(programs))
    script = "gcc -c lib/sum.c; clang -Ilib -DNUMBER=1 -c entry.c; g++ -c count.cpp; ar rcs lib.a sum.o; ranlib lib.a"
    assert record(project, script, toolchain).modules == ("count.o", "entry.o", "sum.o")


@pytest.mark.slow
def test_only_headers_named_by_the_machine_are_seen_of_the_system(
    project: Path, toolchain: Toolchain, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = driver.bundled_target().partition(".")[0]
    system = write_files(
        project.parent / "system", {f"{machine}/python9/pyconfig.h": "#define FROM_SYSTEM 1\n", "other.h": ""}
    )
    # Nothing else puts headers into the folder of the system.
    monkeypatch.setattr(driver, "SYSTEM_HEADERS", system)
    (project / "glue.c").write_text(f"#include <{machine}/python9/pyconfig.h>\nint glue = FROM_SYSTEM;\n")
    (project / "hidden.c").write_text("#include <other.h>\n")
    build = record(project, "cc -c glue.c; cc -c hidden.c", toolchain)
    assert (build.status, build.modules) == (1, ("glue.o",))


# With nothing in C++ to link, nothing waits for the bundled compiler to build its C++ library.
CMAKE = """
cmake_minimum_required(VERSION 3.16)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_COMPILER_ID_RUN ON)
set(CMAKE_CXX_COMPILER_FORCED ON)
project(p C CXX)
include(CheckCSourceCompiles)
check_c_source_compiles("int f(void);" WORKS)
add_library(parts STATIC lib/sum.c count.cpp)
"""
SETUP = """
from setuptools import setup
setup(name='p', packages=[], py_modules=[], libraries=[('p', {'sources': ['lib/sum.c', 'count.cpp']})])
"""
BUILD_SYSTEMS = {
    "make": ({"Makefile": "CFLAGS = -O2 -Ilib -DNUMBER=2\nall: entry.o lib/sum.o count.o\n"}, "make -j2"),
    "cmake": ({"CMakeLists.txt": CMAKE}, "cmake -G 'Unix Makefiles' -B build .; cmake --build build -j2"),
    "setuptools": ({"setup.py": SETUP}, f"'{sys.executable}' -W ignore setup.py build_clib"),
}


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("system", BUILD_SYSTEMS)
def test_projects_of_build_systems_are_recorded(system: str, project: Path, any_toolchain: Toolchain) -> None:
    if system == "setuptools":
        pytest.importorskip("setuptools")
    elif shutil.which("make") is None or (system == "cmake" and shutil.which("cmake") is None):
        pytest.skip(f"make or {system} is not installed")
    files, script = BUILD_SYSTEMS[system]
    build = record(write_files(project, files), script, any_toolchain)
    assert build.status == 0
    names = {Path(name).name.replace(".c.o", ".o").replace(".cpp.o", ".o") for name in build.modules}
    assert names == {"count.o", "sum.o"} | ({"entry.o"} if system == "make" else set())
