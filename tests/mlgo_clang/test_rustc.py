"""`mlgo-rustc` as the wrapper of cargo, and as rustc itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import gymnasium as gym
import pytest

from mlgo_clang.rustc import run as run_rustc
from mlgo_gym.attribution.recipe import keep_recipe
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.env import CompilerEnv
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.search.recipes import make_recipe
from tests.mlgo_clang.conftest import counted
from tests.mlgo_clang.test_interactive import abandoned
from tests.rust import SHAPES, WITHOUT_LIBRARY, needs_rust, write_workspace

WRAPPER = Path(sys.executable).parent / "mlgo-rustc"
ONE_UNIT = ("-Copt-level=z", "-Ccodegen-units=1")

pytestmark = pytest.mark.usefixtures("own_cache")  # other tests count their compiles, too


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with the source of a library."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "shapes.rs").write_text(SHAPES)
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A cargo workspace."""
    return write_workspace(tmp_path / "workspace")


def compile_library(
    source: Path, *arguments: str, program: str | Path = WRAPPER, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Compile the library to `shapes.o`."""
    command = [program, "--crate-type=lib", "--edition=2021", "--emit=obj", *arguments, "shapes.rs"]
    return subprocess.run(
        command, cwd=source, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def cargo(workspace: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the workspace with `mlgo-rustc` as the wrapper."""
    variables = {**os.environ, "RUSTC_WRAPPER": str(WRAPPER), **environment}
    command = ["cargo", "build", "--release", "--offline", *arguments]
    return subprocess.run(command, cwd=workspace, env=variables, capture_output=True, text=True, check=False)


@needs_rust
def test_a_policy_decides_for_a_crate(source: Path) -> None:
    objects = {}
    for policy in ("default", "never", "threshold:0", "inline-oz-fast"):
        result = compile_library(source, *ONE_UNIT, MLGO_POLICY=policy)
        assert (result.returncode, result.stderr) == (0, "")
        objects[policy] = (source / "shapes.o").read_bytes()
    assert compile_library(source, *ONE_UNIT, program="rustc").returncode == 0
    assert objects["default"] == (source / "shapes.o").read_bytes()
    assert len(set(objects.values())) >= 3
    assert {path.name for path in source.iterdir()} == {"shapes.o", "shapes.rs"}


@needs_rust
def test_a_policy_with_callee_features_decides_in_advance(source: Path) -> None:
    """Clang makes the decisions on the crate's bitcode, and rustc requests as many."""
    before = counted("compiled by rustc alone")
    assert compile_library(source, *ONE_UNIT, MLGO_POLICY="inline-oz-fast").returncode == 0
    fast = (source / "shapes.o").read_bytes()
    result = compile_library(source, *ONE_UNIT, MLGO_POLICY="inline-oz")
    assert (result.returncode, result.stderr) == (0, "")
    assert counted("compiled by rustc alone") == before
    assert (source / "shapes.o").read_bytes() != fast


@needs_rust
def test_the_smallest_of_several_policies_is_kept(source: Path) -> None:
    sizes = {}
    for policy in ("never", "always", "default", "always,inline-oz,default,never"):
        result = compile_library(source, *ONE_UNIT, MLGO_POLICY=policy, MLGO_STRICT="1")
        assert (result.returncode, result.stderr) == (0, "")
        sizes[policy] = object_sizes((source / "shapes.o").read_bytes()).text
    smallest = sizes.pop("always,inline-oz,default,never")
    assert smallest <= min(sizes.values()) < max(sizes.values())


@needs_rust
def test_smallest_measures_networks_without_callee_features(source: Path) -> None:
    result = compile_library(source, *ONE_UNIT, MLGO_POLICY="smallest", MLGO_STRICT="1")
    assert (result.returncode, result.stderr) == (0, "")


@needs_rust
def test_other_levels_are_left_to_rustc(source: Path) -> None:
    before = counted("compiled with a policy")
    assert compile_library(source, "-Copt-level=2", MLGO_POLICY="never").returncode == 0
    assert counted("compiled with a policy") == before


@needs_rust
def test_a_build_of_cargo_follows_the_policy(workspace: Path) -> None:
    """Build scripts and procedural macros are compiled by rustc alone, and the program runs."""
    before = counted("compiled with a policy")
    result = cargo(workspace, MLGO_POLICY="never")
    assert result.returncode == 0
    assert "mlgo-rustc" not in result.stderr
    assert counted("compiled with a policy") == before + 2
    program = workspace / "target/release/draw"
    never = program.read_bytes()
    printed = subprocess.run([program, "polygon 0 0 2 0 2 2"], capture_output=True, text=True, check=True).stdout
    assert printed.endswith("made\n")
    # Cargo rebuilds for another policy, and only then.
    assert "Compiling" not in cargo(workspace, MLGO_POLICY="never").stderr
    assert "Compiling" in cargo(workspace, MLGO_POLICY="threshold:5").stderr
    assert program.read_bytes() != never


@needs_rust
def test_a_recipe_of_a_recorded_crate_fits_the_build(workspace: Path, tmp_path: Path) -> None:
    """The build finds the module that the recording made, and rustc requests the decisions of the recipe."""
    record_build(["cargo", "build", "--release", "--offline", "--quiet"], tmp_path / "corpus", folder=workspace)
    corpus = open_corpus(tmp_path / "corpus")
    module = next(module for module in corpus if module.name == "shapes/shapes.o")
    env = gym.make("mlgo/Inline-v0", corpus=corpus)
    env.reset(options={"module": module.name})
    actions: list[int] = []
    ended = False
    while not ended:
        actions.append(len(actions) % 2)
        *_, ended, _, _ = env.step(actions[-1])
    recipe = make_recipe(cast("CompilerEnv", env.unwrapped), module, tuple(actions), 1)
    keep_recipe(recipe, tmp_path / "recipes", module.bitcode.read_bytes())
    env.close()
    shutil.rmtree(workspace / "target")
    before = counted("compiled by a recipe")
    result = cargo(workspace, MLGO_POLICY="default", MLGO_RECIPES=str(tmp_path / "recipes"))
    assert result.returncode == 0
    assert counted("compiled by a recipe") == before + 1


@needs_rust
def test_a_compiler_cache_tells_policies_apart(workspace: Path, tmp_path: Path) -> None:
    """A cache that starts `mlgo-rustc` as rustc, as sccache does, compiles again for another policy only."""
    cache = tmp_path / "cache"
    cache.mkdir()
    wrapper = tmp_path / "wrapper"
    fake = Path(__file__).parents[1] / "fakes" / "compiler_cache.py"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} {fake} "$@"\n')
    wrapper.chmod(0o755)
    libraries = []
    for policy in ("never", "never", "threshold:0"):
        shutil.rmtree(workspace / "target", ignore_errors=True)
        variables = {"RUSTC_WRAPPER": str(wrapper), "RUSTC": str(WRAPPER), "CACHE": str(cache), "MLGO_POLICY": policy}
        result = cargo(workspace, **variables)
        assert result.returncode == 0, result.stderr
        libraries.append(next((workspace / "target/release/deps").glob("libshapes*.rlib")).read_bytes())
    assert (cache / "log").read_text().split() == ["miss", "shapes", "hit", "shapes", "miss", "shapes"]
    assert libraries[0] == libraries[1] != libraries[2]


@needs_rust
def test_messages_in_json_are_those_of_rustc(workspace: Path) -> None:
    result = cargo(workspace, "--message-format=json", "-j2", MLGO_POLICY="never")
    messages = [json.loads(line) for line in result.stdout.splitlines()]
    assert messages[-1] == {"reason": "build-finished", "success": True}
    artifacts = {each["target"]["name"] for each in messages if each["reason"] == "compiler-artifact"}
    assert {"draw", "shapes", "macros"} <= artifacts


@needs_rust
def test_several_codegen_units_become_one_with_a_message(workspace: Path) -> None:
    result = cargo(workspace, MLGO_POLICY="never", CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16")
    assert result.returncode == 0
    (line, *_) = (line for line in result.stderr.splitlines() if "shapes is" in line)
    assert line == (
        "mlgo-rustc: shapes is compiled as one codegen unit; set codegen-units = 1 in [profile.release] to have the "
        "same without a policy"
    )


@needs_rust
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["-Clto=fat"], 'expected no link time optimisation, got lto; set lto = "off" in [profile.release]'),
        (["-Clinker-plugin-lto"], "expected a plain compile, got -C linker-plugin-lto; build without it"),
        (
            ["-Cllvm-args=-enable-ml-inliner=release -ml-inliner-stop-immediately"],
            "expected no advisor in -C llvm-args, got one; remove it from RUSTFLAGS",
        ),
    ],
)
def test_other_work_is_left_to_rustc_with_the_reason(source: Path, options: list[str], problem: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CARGO")}
    command: list[str | Path] = [
        WRAPPER,
        "--crate-type=lib",
        "--edition=2021",
        "--emit=obj",
        *ONE_UNIT,
        *options,
        "shapes.rs",
    ]
    environment["MLGO_POLICY"] = "never"
    result = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert result.stderr.splitlines()[0] == f"mlgo-rustc: warning: shapes is left to rustc: {problem}"


@needs_rust
@pytest.mark.parametrize("policy", ["no-such-policy", "mlp:/nowhere", "threshold:many"])
def test_a_policy_that_cannot_decide_leaves_the_crate_to_rustc(source: Path, policy: str) -> None:
    """One line is printed, and a strict compile fails."""
    before = counted("compiled by rustc alone")
    result = compile_library(source, *ONE_UNIT, MLGO_POLICY=policy)
    assert result.returncode == 0
    assert result.stderr.startswith("mlgo-rustc: warning: shapes.rs is compiled by rustc alone: ")
    assert result.stderr.count("\n") == 1
    assert counted("compiled by rustc alone") == before + 1
    compiled = (source / "shapes.o").read_bytes()
    assert compile_library(source, *ONE_UNIT, program="rustc").returncode == 0
    assert compiled == (source / "shapes.o").read_bytes()
    assert compile_library(source, *ONE_UNIT, MLGO_POLICY=policy, MLGO_STRICT="1").returncode == 1


@needs_rust
def test_an_old_rustc_is_named_as_the_reason(source: Path) -> None:
    old = source.parent / "rustc"
    cases = "-vV) echo 'LLVM version: 14.0.6';;\n*/proc/*) exit 1;;\n*) exec rustc \"$@\";;"
    old.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\n')
    old.chmod(0o755)
    result = compile_library(source, *ONE_UNIT, MLGO_POLICY="never", MLGO_RUSTC=str(old))
    assert result.returncode == 0
    assert result.stderr == (
        "mlgo-rustc: warning: shapes.rs is compiled by rustc alone: expected a rustc with LLVM 17 or newer, got LLVM "
        "14; run rustup update\n"
    )


@needs_rust
def test_a_cross_target_without_its_library_has_the_error_of_rustc(source: Path) -> None:
    options = (*ONE_UNIT, "--target=riscv64gc-unknown-linux-gnu")
    plain = compile_library(source, *options, program="rustc")
    result = compile_library(source, *options, MLGO_POLICY="inline-oz")
    if plain.returncode == 0:
        pytest.skip("the library of this target is installed")
    assert (result.returncode, result.stderr) == (plain.returncode, plain.stderr)
    assert "can't find crate for `std`" in result.stderr


@needs_rust
@pytest.mark.parametrize("policy", ["always", "inline-oz"])
def test_a_policy_decides_for_a_cross_target(source: Path, policy: str) -> None:
    """The crate needs no library, so that rustc compiles it without the one of the target."""
    (source / "shapes.rs").write_text(WITHOUT_LIBRARY)
    options = (*ONE_UNIT, "-Cpanic=abort", "--target=aarch64-unknown-linux-gnu")
    result = compile_library(source, *options, MLGO_POLICY=policy, MLGO_STRICT="1", RUSTC_BOOTSTRAP="1")
    assert (result.returncode, result.stderr) == (0, "")
    compiled = (source / "shapes.o").read_bytes()
    assert int.from_bytes(compiled[18:20], "little") == 183  # EM_AARCH64
    assert compile_library(source, *options, program="rustc", RUSTC_BOOTSTRAP="1").returncode == 0
    assert policy == "inline-oz" or compiled != (source / "shapes.o").read_bytes()


@needs_rust
def test_an_error_of_the_source_is_that_of_rustc(source: Path) -> None:
    (source / "shapes.rs").write_text("pub fn f() -> u8 { nonsense }\n")
    plain = compile_library(source, *ONE_UNIT, program="rustc")
    result = compile_library(source, *ONE_UNIT, MLGO_POLICY="never")
    assert (result.returncode, result.stderr) == (plain.returncode, plain.stderr)


@needs_rust
def test_an_interrupted_build_leaves_no_channel(workspace: Path) -> None:
    environment = {**os.environ, "RUSTC_WRAPPER": str(WRAPPER), "MLGO_POLICY": "never"}
    command = ["cargo", "build", "--release", "--offline", "-j2"]
    with subprocess.Popen(
        command, cwd=workspace, env=environment, stderr=subprocess.PIPE, start_new_session=True
    ) as build:
        assert build.stderr is not None
        for line in build.stderr:
            if b"Compiling shapes" in line:
                break
        os.killpg(build.pid, signal.SIGINT)
        build.stderr.read()
    assert build.returncode != 0
    assert not abandoned()


def test_without_rustc_one_line_says_so(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("MLGO_RUSTC", raising=False)
    assert run_rustc(["--version"]) == 1
    assert capfd.readouterr().err == (
        "mlgo-rustc: error: expected rustc on PATH or in $MLGO_RUSTC, got none; install Rust from rustup.rs\n"
    )


def test_a_search_is_refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MLGO_SEARCH", "5")
    monkeypatch.setenv("MLGO_RECIPES", "/nowhere")
    assert run_rustc([sys.executable, "a.rs"]) == 1
    assert "record the build and run mlgo-gym search --recipes=DIR" in capfd.readouterr().err
