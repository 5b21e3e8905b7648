"""Recorded link steps: their modules and files, and relinking with other objects."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_clang.compiler import MULTIARCH, compiler_command
from mlgo_clang.programs import front_end_bitcode
from mlgo_gym.compiler.limits import Limits, confinement_support
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.driver import NATIVE, PORTABLE, bundled_caches, library_is_built, recording_target
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.links import (
    LINKS_FILE,
    Link,
    LinkInput,
    LinkPart,
    check_link_arguments,
    read_links,
    relink,
    roots_of_link,
)
from mlgo_gym.errors import CorpusError, ToolchainError, UntrustedError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import write_files, write_program
from tests.corpus.conftest import record

SOURCES = {
    "main.c": "int f(int); int g(int); int h(int); int main(void) { return f(1) + g(2) + h(3) - 30; }\n",
    "f.c": "int f(int x) { return x + 7; }\n",
    "g.c": "int g(int x) { return x + 8; }\n",
    "a_name_that_is_too_long_for_a_header.c": "int h(int x) { return x + 9; }\n",
    "data.s": ".data\n.globl datum\ndatum: .long 1\n",
    "exports.map": "{ global: f; local: *; };\n",
}
LIBRARY = "$CC -O2 -c g.c a_name_that_is_too_long_for_a_header.c data.s; ar rcs libg.a g.o a_name*.o data.o"
LINK = "$CC -nostdlib -shared -fPIC"  # links no C library, which the bundled compiler would build first


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with sources of a program and of its library."""
    return write_files(tmp_path / "project", SOURCES)


def recorded_links(project: Path, script: str, toolchain: Toolchain) -> tuple[Link, ...]:
    """Record a shell script as the build, and return its links."""
    return read_links(record(project, script, toolchain).corpus)


def compile_modules(project: Path, link: Link, toolchain: Toolchain) -> dict[str, Path]:
    """Compile the modules of a link as they are recorded."""
    corpus = open_corpus(project.parent / "corpus", toolchain=toolchain)
    objects = {}
    for number, name in enumerate(link.modules):
        objects[name] = project.parent / f"{number}.o"
        subprocess.run([*plan(corpus.module(name), toolchain).command, "-o", str(objects[name])], check=True)
    return objects


def test_a_link_is_recorded_with_its_modules_and_what_else_it_was_given(project: Path, toolchain: Toolchain) -> None:
    script = f"{LIBRARY}; $CC -c f.c main.c; {LINK} main.o f.o -L. -Wl,--start-group -lg -Wl,--end-group -o program"
    (link,) = recorded_links(project, script, toolchain)
    assert (link.output, link.driver, link.folder, link.lto) == ("program", "c", ".", None)
    assert link.arguments[-2:] == ("-o", "program")
    assert link.modules == ("main.o", "f.o", "g.o", "a_name_that_is_too_long_for_a_header.o")
    (library,) = [part for part in link.inputs if part.kind == "archive"]
    assert [part.name for part in library.parts] == ["g.o", "a_name_that_is_too_long_for_a_header.o", "data.o"]
    assembled = library.parts[2]
    assert assembled.module is None
    assert assembled.file is not None
    assert (project.parent / "corpus" / assembled.file).read_bytes() == (project / "data.o").read_bytes()


@pytest.mark.slow
def test_a_link_can_be_repeated_after_the_build_is_deleted(project: Path, toolchain: Toolchain) -> None:
    (link,) = recorded_links(project, f"{LIBRARY}; $CC -c f.c main.c; $CC main.o f.o libg.a -o program", toolchain)
    for path in project.iterdir():
        path.unlink()
    program = project.parent / "again"
    relink(link, project.parent / "corpus", compile_modules(project, link, toolchain), program, toolchain)
    assert subprocess.run([program], check=False).returncode == (8 + 10 + 12 - 30) % 256


@pytest.mark.skipif(not confinement_support()[0], reason=confinement_support()[1])
@pytest.mark.skipif(recording_target() != NATIVE, reason="this machine has no linker")
def test_a_link_writes_one_file(any_toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlgo_gym.corpus.recording.links.check_link_arguments", lambda _link: None)
    assert any_toolchain.run(["-c", "-x", "c", os.devnull, "-o", str(tmp_path / "m.o")]).returncode == 0
    (tmp_path / "out").mkdir()
    file = LinkInput(0, "m.o", "object", (LinkPart("m.o", module="m"),))
    link = Link("a", "c", ".", ("m.o", "-nostdlib", "-shared"), None, "a", None, (file,), NATIVE)
    spying = replace(link, arguments=(*link.arguments, f"-Wl,--print-map,-Map,{tmp_path / 'written'}"))
    relink(link, tmp_path, {"m": tmp_path / "m.o"}, tmp_path / "out/a", any_toolchain)
    with pytest.raises(CorpusError, match="written"):
        relink(spying, tmp_path, {"m": tmp_path / "m.o"}, tmp_path / "out/b", any_toolchain)
    assert not (tmp_path / "written").exists()
    relink(spying, tmp_path, {"m": tmp_path / "m.o"}, tmp_path / "out/b", any_toolchain, trust_flags=True)
    assert (tmp_path / "written").exists()


def test_the_cache_of_the_bundled_compiler_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path / "new" / "cache"))
    assert bundled_caches() == (tmp_path / "new" / "cache",)
    assert not library_is_built()
    assert bundled_caches()[0].is_dir()


def test_the_name_of_a_file_is_no_argument(toolchain: Toolchain, tmp_path: Path) -> None:
    """Else a stranger's names, which no list checks, reach the linker."""
    library = LinkInput(0, "libx.so", "shared", (), link="lib/-fplugin=evil.so")
    response = LinkInput(0, "x.so", "shared", (), link="lib/@evil")
    script = LinkInput(0, "x", "file", (LinkPart("x", file="links/x,-plugin,evil.so"),))
    for word, file in (("libx.so", library), ("x.so", response), ("-Wl,--version-script=x", script)):
        link = Link("a.out", "c", ".", (word,), None, "a.out", None, (file,))
        check_link_arguments(link)
        with pytest.raises(CorpusError, match="expected the path of a file"):
            relink(link, tmp_path, {}, tmp_path / "out", toolchain, libraries={str(file.link): tmp_path / "x.so"})


@pytest.mark.parametrize("program", ["ld", f"{MULTIARCH}-ld", "gold"])
@pytest.mark.parametrize("header", ["stdio.h", "stdlib.h"])
def test_a_build_is_recorded_for_this_machine_if_it_has_c_headers_and_a_linker(
    program: str, header: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / program, "exit 0")
    write_files(tmp_path, {header: ""})
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("mlgo_gym.corpus.driver.SYSTEM_HEADERS", tmp_path)
    assert recording_target() == (NATIVE if program != "gold" and header == "stdio.h" else PORTABLE)


def test_each_program_is_linked_with_the_object_of_its_own_compile(project: Path, toolchain: Toolchain) -> None:
    write_files(project, {"both.c": "int both(void) { return N; }\n"})
    builds = f"{LINK} -DN=0x11223344 both.c -o one; {LINK} -DN=0x55667788 lib/../both.c -o two"
    links = recorded_links(project, f"mkdir lib; {builds}", toolchain)
    assert [link.output for link in links] == ["one", "two"]
    for link, constant in zip(links, (0x11223344, 0x55667788), strict=True):
        again = project.parent / link.output
        relink(link, project.parent / "corpus", compile_modules(project, link, toolchain), again, toolchain)
        assert constant.to_bytes(4, "little") in again.read_bytes()


def test_libraries_of_the_build_are_linked_before_what_needs_them_also_two_of_one_name(
    project: Path, toolchain: Toolchain
) -> None:
    script = (
        f"{LIBRARY}; {LINK} -Wl,-soname,libf.so -Wl,--version-script=exports.map f.c -o libf.so; mkdir other; "
        f"{LINK} -Wl,-soname,other.so g.o -o other/libf.so; "
        f"{LINK} -Wl,-z,defs main.c -L. -lf other/libf.so -lg -o program"
    )
    library, other, program = recorded_links(project, script, toolchain)
    corpus, made = project.parent / "corpus", project.parent / "made"
    made.mkdir()
    assert [part.link for part in program.inputs if part.kind == "shared"] == ["libf.so", "other/libf.so"]
    objects = compile_modules(project, program, toolchain)
    with pytest.raises(CorpusError, match=r"link it first"):
        relink(program, corpus, objects, made / "program", toolchain)
    for link, name in ((library, "any-name"), (other, "other-name")):
        relink(link, corpus, compile_modules(project, link, toolchain), made / name, toolchain)
    objects = compile_modules(project, program, toolchain)
    libraries = {"libf.so": made / "any-name", "other/libf.so": made / "other-name"}
    relink(program, corpus, objects, made / "program", toolchain, libraries=libraries)
    assert all(b"libf.so\0" in (made / name).read_bytes() for name in ("any-name", "program"))
    assert b"other.so\0" in (made / "other-name").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("linker", "limits", "expected"),
    [
        ("sleep 1000 & wait", Limits(cpu=1), "did not finish within 4 s"),
        (f"{sys.executable} -c 'bytes(1 << 36)'", Limits(memory=2), "at most 2 GiB of memory, got more; raise memory"),
    ],
    ids=["waits without end", "takes memory without end"],
)
def test_linkers_have_limits(linker: str, limits: Limits, expected: str, project: Path, toolchain: Toolchain) -> None:
    (link,) = recorded_links(project, f"{LINK} f.c -o libf.so", toolchain)
    objects = compile_modules(project, link, toolchain)
    driver = write_program(project.parent / "driver", linker)
    odd = replace(toolchain, command=(str(driver),), bundled=False)
    with pytest.raises((CorpusError, ToolchainError), match=expected):
        relink(link, project.parent / "corpus", objects, project.parent / "made", odd, limits=limits)
    assert not (project.parent / "made").exists()


REFUSED = (
    "-fplugin=./evil.so", "-Wl,-plugin,./evil.so", "-Wl,--plugin=./evil.so", "-fuse-ld=/tmp/evil", "-B/tmp/evil",
    "-Wl,-Map,/tmp/written", "-Wl,--reproduce=/tmp/written", "-Wl,-o,/tmp/written", "@file", "-Wl,@file",
    "-specs=/tmp/evil", "-Wl,--script=/tmp/evil", "--config=/tmp/evil", "-Wl,--time-trace=/tmp/written",
    "-Wl,-mllvm,-load=./evil.so", "-wrapper", "-fprofile-generate=/tmp", "-Xclang", "-Wl,--save-temps",
    "-fsave-optimization-record", "-mllvm", "-Wl,-m,@file", "--target=corpus/evil",
    "-target", "-gen-cdb-fragment-path",
)  # fmt: skip


def test_an_untrusted_link_argument_that_may_do_more_is_refused(tmp_path: Path) -> None:
    unusable = Toolchain(("/nonexistent",), (22, 0, 0), "none", bundled=False)
    for argument in REFUSED:
        link = Link("out", "c", ".", ("-shared", argument, "-o", "out"), 3, "out", None, ())
        with pytest.raises(UntrustedError, match="--trust-flags"):
            relink(link, tmp_path, {}, tmp_path / "out", unusable)
    harmless = ("-shared", "-Wl,--gc-sections,-z,now", "-Wl,-soname,x", "-O2", "-lm", "-Wl,--icf=all", "-Wl,-Map=x.map")
    check_link_arguments(replace(link, arguments=harmless, output_position=None))


@pytest.mark.parametrize(
    ("words", "roots", "exports"),
    [
        ("-Wl,--gc-sections", "main", False),
        ("-Wl,--gc-sections -Wl,-e,start,-u,f -u g -Xlinker --undefined=h", "main start f g h", False),
        ("-Wl,-gc-sections,-entry=e,-uf -Xlinker -u -Xlinker g -Wl,--export-dynamic-symbol=h", "main e f g h", False),
        ("-Wl,--no-gc-sections,--gc-sections,--print-gc-sections -shared", "main", True),
        ("-Wl,--gc-sections,-export-dynamic", "main", True),
        ("-Wl,--gc-sections -rdynamic", "main", True),
        ("-Wl,--gc-sections,--no-gc-sections", None, False),
        ("-O2", None, False),
    ],
)
def test_the_roots_of_a_link_are_those_of_its_options(words: str, roots: str | None, *, exports: bool) -> None:
    link = Link("a.out", "c", ".", tuple(words.split()), None, "a.out", None, ())
    assert roots_of_link(link) == (None if roots is None else (frozenset(roots.split()), exports))
    library = LinkInput(0, "libx.so", "shared", (), link="libx.so")
    assert roots_of_link(replace(link, lto="thin")) is roots_of_link(replace(link, inputs=(library,))) is None


def test_a_file_outside_of_the_corpus_or_a_position_of_no_argument_is_refused(tmp_path: Path) -> None:
    outside = {"name": "x", "file": "../../etc/passwd", "sha256": "0"}
    file: dict[str, object] = {"position": 0, "named": "x", "kind": "file", "parts": []}
    malformed: list[dict[str, object]] = [
        {"position": 7}, {"position": -1}, {"position": "x"}, {"kind": 5}, {"parts": [{"name": 5}]},
    ]  # fmt: skip
    cases: list[tuple[dict[str, object], str]] = [
        ({"parts": [outside]}, "leads out of the corpus"),
        *((change, "expected a list of link steps") for change in malformed),
    ]
    for change, message in cases:
        step = {
            "output": {"path": "o", "sha256": "0", "position": None, "named": "a.out"},
            "driver": "c",
            "folder": ".",
            "lto": None,
            "arguments": ["x"],
            "inputs": [file | change],
        }
        (tmp_path / LINKS_FILE).write_text(json.dumps({"links": [step]}))
        with pytest.raises(CorpusError, match=message):
            read_links(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ld") is None, reason="ld, which links native recordings, is not installed")
def test_a_native_recording_equals_a_build_with_mlgo_clang(project: Path, toolchain: Toolchain) -> None:
    """Builds with mlgo-clang find the recipes of its modules."""
    source = project / "f.c"
    source.write_text("#include <assert.h>\nint f(int x) { assert(x); return x + 7; }\n")
    output = project.parent / "corpus"
    script = f"$CC -Os -g -Wall -ffunction-sections -c {source} main.c; $CC -shared -fPIC f.o -o libf.so"
    record(project, script, toolchain, optimize="Os", target=NATIVE)
    flags = ["-Os", "-g", "-Wall", "-ffunction-sections", "-MD", "-c", str(source)]
    bitcode = front_end_bitcode(compiler_command("bundled", "gcc"), flags)
    assert (output / "f.o.bc").read_bytes() == bitcode
    (link,) = read_links(output)
    assert link.target == NATIVE
    relink(link, output, {"f.o": project / "f.o"}, project / "again.so", toolchain)
    assert (project / "again.so").read_bytes() == (project / "libf.so").read_bytes()
