"""Recording of builds with cargo and rustc."""

import subprocess
from pathlib import Path

import pytest

from mlgo_clang.rustc_arguments import Crate, flags_of_level, llvm_version, read_sources
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.folder import read_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.shim_records import _read_sources
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import write_files
from tests.corpus.conftest import executable_sections, record
from tests.rust import SHAPES, needs_rust, write_workspace

CARGO = ["cargo", "build", "--release", "--offline", "--quiet"]


@pytest.mark.slow
@needs_rust
def test_crates_are_modules_but_build_scripts_and_procedural_macros(tmp_path: Path, toolchain: Toolchain) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    build = record(workspace, CARGO, toolchain)
    assert (build.status, build.modules) == (0, ("draw/bin/draw.o", "shapes/shapes.o"))
    assert list(build.skipped) == ["a build script or a procedural macro"]
    assert (build.languages, build.failures) == ({"Rust": 2}, ())
    metadata = read_metadata(build.corpus, "shapes/shapes.o")
    facts = {"project": "shapes", "version": "0.3.0", "lines": SHAPES.count("\n")}
    assert {name: metadata[name] for name in facts} == facts
    assert "rust" in str(metadata["compiler"])
    program = [str(workspace / "target/release/draw"), "circle 2"]
    assert subprocess.run(program, capture_output=True, check=True).stdout == b"12.56 Circle(2.0)\nmade\n"

    broken = write_workspace(tmp_path / "broken/workspace")
    (broken / "draw/src/main.rs").write_text("fn main() { nonsense }")
    build = record(broken, CARGO, toolchain)
    assert (build.status, build.modules) == (101, ("shapes/shapes.o",))


@pytest.mark.slow
@needs_rust
@pytest.mark.parametrize("optimize", ["Oz", "Os"])
def test_a_module_has_the_instructions_of_rustc(tmp_path: Path, toolchain: Toolchain, optimize: str) -> None:
    """Clang compiles the module to each section that rustc writes."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "shapes.rs").write_text(SHAPES)
    level = optimize[1:]
    command = ["rustc", "--crate-type=lib", "-Copt-level=1", "--edition", "2021", "--emit=obj", "shapes.rs"]
    build = record(folder, command, toolchain, optimize=optimize)
    assert build.modules == ("shapes/shapes.o",)
    subprocess.run([*command, f"-Copt-level={level}", "-Ccodegen-units=1"], cwd=folder, check=True)
    (module,) = open_corpus(build.corpus, toolchain=toolchain)
    assert read_bitcode(module.bitcode).language == "Rust"
    compiled = tmp_path / "clang.o"
    subprocess.run([*plan(module, toolchain).command, "-o", compiled], check=True)
    assert executable_sections(compiled) == executable_sections(folder / "shapes.o")


def test_the_digest_of_a_crate_depends_on_each_source_and_lines_are_those_of_rust(tmp_path: Path) -> None:
    digests = set()
    for first, second in (("a\n", "b\n"), ("c\n", "b\n"), ("a\n", "c\n")):
        write_files(tmp_path, {"a.rs": first, "b.rs": second, "text.md": "1\n2\n"})
        digest, lines = _read_sources(("a.rs", "b.rs", "text.md"), str(tmp_path))
        digests.add(digest)
        assert lines == 2
    assert len(digests) == 3


def test_options_of_rustc_are_split_in_all_spellings(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("--crate-type\nbin\n-Cmetadata=ab\n")
    dropped = "-g -O --json=artifacts -Clto=fat -Cdebuginfo=2 -Cstrip=symbols -Cllvm-args=-a -Ctarget-cpu=native"
    words = f"-C opt_level=3 {dropped} -Copt-level=s --emit=dep-info,link @words --out-dir out src/main.rs -Lx"
    words += " -Ctarget-cpu=znver3"
    crate = Crate(words.split(), str(tmp_path))
    assert (crate.name, crate.source, crate.types) == ("main", "src/main.rs", {"bin"})
    assert (crate.level, crate.emits_code, crate.output) == ("s", True, "out/main")
    assert " ".join(crate.bitcode_arguments("z", "m.bc", "m.d")) == (
        "--crate-type bin -Cmetadata=ab src/main.rs -Lx -Ctarget-cpu=znver3 -C opt-level=z -C codegen-units=1 "
        "-C debuginfo=0 -C embed-bitcode=no -C no-prepopulate-passes --cap-lints=allow --emit=llvm-bc=m.bc,dep-info=m.d"
    )
    levels = {"a.rs": "0", "-O a.rs": "3", "-O -Copt-level=s a.rs": "s", "-Copt-level=1 -O a.rs": "3"}
    assert {words: Crate(words.split()).level for words in levels} == levels


def test_options_that_decide_code_become_flags_of_clang_and_queries_emit_none() -> None:
    crate = Crate(["-Crelocation-model=static", "-C", "code-model=large", "-Cllvm-args=-a -b=1", "a.rs"])
    assert crate.driver_flags() == ["-fno-pic", "-mcmodel=large", "-mllvm", "-a", "-mllvm", "-b=1"]
    for query in ("--emit=metadata,dep-info a.rs", "--print=cfg a.rs", "-vV", "--emit metadata a.rs"):
        assert not Crate(query.split()).emits_code
    merged = "-Xclang -fmerge-functions -mllvm -mergefunc-use-aliases"
    trap = "-mllvm -trap-unreachable -mllvm -no-trap-after-noreturn"
    flags = (
        "-O3 --no-default-config -fPIC -ffunction-sections -fdata-sections -fomit-frame-pointer "
        f"{merged} {trap} -Xclang -mrelax-relocations=no -w"
    ).split()
    assert flags_of_level("3") == flags
    assert flags_of_level("z")[len(flags) :] == ["-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops"]
    assert llvm_version("release: 1.91.0\nLLVM version: 21.1.2\n") == 21
    assert llvm_version("no rustc") == 0
    assert read_sources("# env\nm.d: a.rs b\\ c.rs\n\na.rs:\nb\\ c.rs:\n") == ["a.rs", "b c.rs"]
