"""`mlgo-rustc` as the wrapper of cargo, and as rustc itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.attribution.recipe import keep_recipe
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.envs import InlineEnv
from mlgo_gym.search.recipes import make_recipe
from tests.mlgo_clang.conftest import counted, text
from tests.rust import SHAPES, WITHOUT_LIBRARY, needs_rust, write_workspace

WRAPPER = Path(sys.executable).parent / "mlgo-rustc"
ONE_UNIT = ("-Copt-level=z", "-Ccodegen-units=1")

pytestmark = pytest.mark.usefixtures("own_cache")  # other tests count their compiles, too


def test_without_rustc_and_for_a_search_one_line_names_the_remedy() -> None:
    def message(*arguments: str, **variables: str) -> str:
        command = [str(WRAPPER), *arguments]
        result = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
        assert result.returncode == 1
        return result.stderr

    search = message(sys.executable, "a.rs", MLGO_SEARCH="5", MLGO_RECIPES="/nowhere")
    assert "record the build and run mlgo-gym search --recipes=DIR" in search
    assert message("--version", PATH="/nowhere") == (
        "mlgo-rustc: error: expected rustc on PATH or in $MLGO_RUSTC, got none; install Rust from rustup.rs\n"
    )


def test_an_old_rustc_compiles_alone_with_the_reason(tmp_path: Path) -> None:
    old = tmp_path / "rustc"
    old.write_text("#!/bin/sh\ncase \"$*\" in -vV) echo 'LLVM version: 14.0.6';; */proc/*) exit 1;; esac\n")
    old.chmod(0o755)
    (tmp_path / "shapes.rs").write_text(SHAPES)
    result = compile_library(tmp_path, *ONE_UNIT, MLGO_POLICY="never", MLGO_RUSTC=str(old))
    assert result.returncode == 0
    assert result.stderr == (
        "mlgo-rustc: warning: shapes.rs is compiled by rustc alone: expected a rustc with LLVM 17 or newer, got LLVM "
        "14; run rustup update\n"
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with the source of a library."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "shapes.rs").write_text(SHAPES)
    return tmp_path / "source"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A cargo workspace."""
    return write_workspace(tmp_path / "workspace")


def compile_library(
    source: Path, *arguments: str, program: str | Path = WRAPPER, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Compile the library to `shapes.o`."""
    command = [program, "--crate-type=lib", "--edition=2021", "--emit=obj", *arguments, "shapes.rs"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CARGO")} | variables
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)


def compiled(source: Path, *arguments: str, program: str | Path = WRAPPER, **variables: str) -> bytes:
    """Return the object of a compile without a message."""
    result = compile_library(source, *arguments, program=program, **variables)
    assert (result.returncode, result.stderr) == (0, "")
    return (source / "shapes.o").read_bytes()


def cargo(workspace: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Build the workspace with `mlgo-rustc` as the wrapper."""
    environment = {**os.environ, "RUSTC_WRAPPER": str(WRAPPER), **variables}
    command = ["cargo", "build", "--release", "--offline", *arguments]
    return subprocess.run(command, cwd=workspace, env=environment, capture_output=True, text=True, check=False)


@needs_rust
@pytest.mark.slow
@pytest.mark.timeout(600)
class TestRust:
    """Compiles by rustc and builds by cargo."""

    def test_a_policy_decides_for_a_crate_and_of_several_the_smallest_is_kept(self, source: Path) -> None:
        objects, sizes = {}, {}
        several = "always,inline-oz,default,never"
        # The fast network of `smallest` has no callee features.
        policies = ("default", "never", "always", "threshold:0", "inline-oz-fast", "inline-oz", several, "smallest")
        for policy in policies:
            objects[policy] = compiled(source, *ONE_UNIT, MLGO_POLICY=policy, MLGO_STRICT="1")
            sizes[policy] = text(source / "shapes.o")
        assert objects["default"] == compiled(source, *ONE_UNIT, program="rustc")
        assert len(set(objects.values())) >= 3
        # With callee features clang makes the decisions on the crate's bitcode, and rustc requests as many.
        assert objects["inline-oz"] != objects["inline-oz-fast"]
        assert sizes[several] == min(sizes[policy] for policy in several.split(",")) < sizes["always"]
        assert {path.name for path in source.iterdir()} == {"shapes.o", "shapes.rs"}
        before = counted("compiled with a policy")
        compiled(source, "-Copt-level=2", MLGO_POLICY="never")
        assert counted("compiled with a policy") == before

    def test_a_build_of_cargo_follows_the_policy(self, workspace: Path) -> None:
        """Build scripts and procedural macros are compiled by rustc alone, and the program runs."""
        units = {"CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
        result = cargo(workspace, "--message-format=json", MLGO_POLICY="never", **units)
        messages = [json.loads(line) for line in result.stdout.splitlines()]
        assert messages[-1] == {"reason": "build-finished", "success": True}
        assert "shapes is compiled as one codegen unit; set codegen-units = 1 in [profile.release]" in result.stderr
        assert counted("compiled with a policy") == 2
        program = workspace / "target/release/draw"
        never = program.read_bytes()
        printed = subprocess.run([program, "polygon 0 0 2 0 2 2"], capture_output=True, text=True, check=True).stdout
        assert printed.endswith("made\n")
        # Cargo, and a compiler cache, read in the list of dependencies that the object depends on the policy.
        (listing,) = (workspace / "target/release/deps").glob("shapes-*.d")
        assert "# env-dep:MLGO_POLICY=never\n" in listing.read_text()
        assert "Compiling" not in cargo(workspace, MLGO_POLICY="never", **units).stderr
        assert "Compiling" in cargo(workspace, MLGO_POLICY="threshold:5", **units).stderr
        assert program.read_bytes() != never

    def test_a_recipe_of_a_recorded_crate_fits_the_build(self, workspace: Path, tmp_path: Path) -> None:
        """The build finds the module that the recording made, and rustc requests the decisions of the recipe."""
        record_build(["cargo", "build", "--release", "--offline", "--quiet"], tmp_path / "corpus", folder=workspace)
        corpus = open_corpus(tmp_path / "corpus")
        module = next(module for module in corpus if module.name == "shapes/shapes.o")
        with InlineEnv(corpus=corpus) as env:
            env.reset(options={"module": module.name})
            actions: list[int] = []
            ended = False
            while not ended:
                actions.append(len(actions) % 2)
                *_, ended, _, _ = env.step(actions[-1])
            recipe = make_recipe(env, module, tuple(actions), 1)
        keep_recipe(recipe, tmp_path / "recipes", module.bitcode.read_bytes())
        shutil.rmtree(workspace / "target")
        result = cargo(workspace, MLGO_POLICY="default", MLGO_RECIPES=str(tmp_path / "recipes"))
        assert (result.returncode, counted("compiled by a recipe")) == (0, 1)

    def test_other_work_is_left_to_rustc_with_the_reason(self, source: Path) -> None:
        model = "-Cllvm-args=-enable-ml-inliner=release -ml-inliner-stop-immediately"
        for options, problem in (
            ("-Clto=fat", 'expected no link time optimisation, got lto; set lto = "off" in [profile.release]'),
            ("-Clinker-plugin-lto", "expected a plain compile, got -C linker-plugin-lto; build without it"),
            (model, "expected no advisor in -C llvm-args, got one; remove it from RUSTFLAGS"),
        ):
            result = compile_library(source, *ONE_UNIT, options, MLGO_POLICY="never")
            assert result.returncode == 0
            assert result.stderr.splitlines()[0] == f"mlgo-rustc: warning: shapes is left to rustc: {problem}"

    def test_a_policy_that_cannot_decide_leaves_the_crate_to_rustc(self, source: Path) -> None:
        result = compile_library(source, *ONE_UNIT, MLGO_POLICY="mlp:/nowhere")
        assert result.returncode == 0
        assert result.stderr.startswith("mlgo-rustc: warning: shapes.rs is compiled by rustc alone: ")
        assert (result.stderr.count("\n"), counted("compiled by rustc alone")) == (1, 1)
        assert (source / "shapes.o").read_bytes() == compiled(source, *ONE_UNIT, program="rustc")
        assert compile_library(source, *ONE_UNIT, MLGO_POLICY="mlp:/nowhere", MLGO_STRICT="1").returncode == 1

    @pytest.mark.parametrize("policy", ["always", "inline-oz"])
    def test_a_policy_decides_for_a_cross_target(self, source: Path, policy: str) -> None:
        """The crate needs no library, so that rustc compiles it without the one of the target."""
        (source / "shapes.rs").write_text(WITHOUT_LIBRARY)
        options = (*ONE_UNIT, "-Cpanic=abort", "--target=aarch64-unknown-linux-gnu")
        made = compiled(source, *options, MLGO_POLICY=policy, MLGO_STRICT="1", RUSTC_BOOTSTRAP="1")
        assert int.from_bytes(made[18:20], "little") == 183  # EM_AARCH64
        assert policy == "inline-oz" or made != compiled(source, *options, program="rustc", RUSTC_BOOTSTRAP="1")

    def test_an_error_is_that_of_rustc(self, source: Path) -> None:
        (source / "shapes.rs").write_text("pub fn f() -> u8 { nonsense }\n")
        for options in (ONE_UNIT, (*ONE_UNIT, "--target=no-such-target")):
            plain = compile_library(source, *options, program="rustc")
            result = compile_library(source, *options, MLGO_POLICY="inline-oz")
            assert (result.returncode, result.stderr) == (plain.returncode, plain.stderr)
            assert plain.returncode != 0
