"""Recording of builds with cargo and rustc."""

from __future__ import annotations

import subprocess
from pathlib import Path

import gymnasium as gym
import pytest

from mlgo_gym.corpus.commands.compilation import plan
from mlgo_gym.corpus.commands.rustc_arguments import Crate
from mlgo_gym.corpus.modules.description import read_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.conftest import executable_sections, record
from tests.rust import SHAPES, needs_rust, write_workspace

ENVIRONMENTS = ("mlgo/Inline-v0", "mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0")

CARGO = ["cargo", "build", "--release", "--offline", "--quiet"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A cargo workspace."""
    return write_workspace(tmp_path / "workspace")


@pytest.mark.slow
@needs_rust
def test_crates_are_modules_but_build_scripts_and_procedural_macros(workspace: Path, toolchain: Toolchain) -> None:
    build = record(workspace, CARGO, toolchain)
    assert build.status == 0
    assert build.modules == ("draw/bin/draw.o", "shapes/shapes.o")
    assert list(build.skipped) == ["a build script or a procedural macro"]
    assert build.languages == {"Rust": 2}
    assert not build.failures
    metadata = read_metadata(build.corpus, "shapes/shapes.o")
    assert metadata["project"] == "shapes"
    assert metadata["version"] == "0.3.0"
    assert metadata["lines"] == SHAPES.count("\n")
    assert "rust" in str(metadata["compiler"])
    program = subprocess.run(
        [workspace / "target/release/draw", "circle 2"], capture_output=True, text=True, check=True
    )
    assert program.stdout == "12.56 Circle(2.0)\nmade\n"


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


@pytest.mark.slow
@needs_rust
def test_the_environments_take_a_recorded_crate(workspace: Path, toolchain: Toolchain) -> None:
    build = record(workspace, CARGO, toolchain)
    for name in ENVIRONMENTS:
        env = gym.make(name, corpus=build.corpus)
        _, info = env.reset(seed=1)
        assert info["module"] in build.modules
        ended = False
        while not ended:
            mask = info.get("action_mask")
            *_, terminated, truncated, info = env.step(env.action_space.sample(mask))
            ended = terminated or truncated
        assert not info["error"]
        env.close()


@pytest.mark.slow
@needs_rust
def test_a_crate_that_does_not_compile_ends_the_build_with_its_status(workspace: Path, toolchain: Toolchain) -> None:
    (workspace / "draw/src/main.rs").write_text("fn main() { nonsense }")
    build = record(workspace, CARGO, toolchain)
    assert build.status == 101
    assert build.modules == ("shapes/shapes.o",)


def test_options_of_rustc_are_split_in_all_spellings(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("--crate-type\nbin\n-Cmetadata=ab\n")
    words = "-C opt_level=3 -Copt-level=s --emit=dep-info,link @words --out-dir out src/main.rs -Lx".split()  # noqa: SIM905
    crate = Crate(words, str(tmp_path))
    assert (crate.name, crate.source, crate.types) == ("main", "src/main.rs", {"bin"})
    assert (crate.level, crate.emits_code, crate.output) == ("s", True, "out/main")
    assert crate.bitcode_arguments("z", "m.bc", "m.d")[:6] == [
        "--crate-type",
        "bin",
        "-Cmetadata=ab",
        "src/main.rs",
        "-Lx",
        "-C",
    ]


def test_options_that_decide_code_become_flags_of_clang_and_queries_emit_none() -> None:
    crate = Crate(["-Crelocation-model=static", "-C", "code-model=large", "-Cllvm-args=-a -b=1", "a.rs"])
    assert crate.driver_flags() == ["-fno-pic", "-mcmodel=large", "-mllvm", "-a", "-mllvm", "-b=1"]
    for query in ("--emit=metadata,dep-info a.rs", "--print=cfg a.rs", "-vV", "--emit metadata a.rs"):
        assert not Crate(query.split()).emits_code
