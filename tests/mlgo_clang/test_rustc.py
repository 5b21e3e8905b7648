"""`mlgo-rustc` as the wrapper of cargo, and as rustc itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import write_program
from tests.mlgo_clang.conftest import counted, text
from tests.rust import SHAPES, needs_rust, write_workspace

WRAPPER = Path(sys.executable).parent / "mlgo-rustc"
ONE_UNIT = ("-Copt-level=z", "-Ccodegen-units=1")

pytestmark = pytest.mark.usefixtures("own_cache")  # other tests count their compiles, too


def test_without_rustc_one_line_names_the_remedy() -> None:
    def message(*arguments: str, **variables: str) -> str:
        command = [str(WRAPPER), *arguments]
        result = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
        assert result.returncode == 1
        return result.stderr

    assert message("--version", PATH="/nowhere") == (
        "mlgo-rustc: error: expected rustc on PATH or in $MLGO_RUSTC, got none; install Rust from rustup.rs\n"
    )


def test_a_named_rustc_counts_then_the_variable_then_the_path(tmp_path: Path) -> None:
    programs = {}
    for name in ("named", "variable", "path/rustc"):
        programs[name] = write_program(tmp_path / name, f'echo {name} "$@"')
    on_path = {"PATH": f"{tmp_path / 'path'}:{os.environ['PATH']}"}
    for words, variables, printed in (
        ((programs["named"], "--version"), {"MLGO_RUSTC": str(programs["variable"])}, "named --version"),
        ((programs["named"], "second", "--version"), {}, "named second --version"),
        (("--version",), {"MLGO_RUSTC": str(programs["variable"])}, "variable --version"),
        (("--version",), {"MLGO_RUSTC": ""}, "path/rustc --version"),
    ):
        environment = {**os.environ, **on_path, **variables}
        assert subprocess.check_output([WRAPPER, *words], env=environment, text=True) == f"{printed}\n"


def test_an_old_rustc_compiles_alone_with_the_reason(tmp_path: Path) -> None:
    script = "case \"$*\" in -vV) echo 'LLVM version: 14.0.6';; */proc/*) exit 1;; esac"
    old = write_program(tmp_path / "rustc", script)
    (tmp_path / "shapes.rs").write_text(SHAPES)
    warning = (
        "mlgo-rustc: warning: shapes.rs is compiled by rustc alone: expected a rustc with LLVM 17 or newer, got LLVM "
        "14; run rustup update\n"
    )
    probe = {"OPT_LEVEL": "z", "NUM_JOBS": "2"}
    for variables, printed in (({}, warning), ({"NUM_JOBS": "2"}, warning), (probe, "")):
        result = compile_library(tmp_path, *ONE_UNIT, MLGO_POLICY="never", MLGO_RUSTC=str(old), **variables)
        assert (result.returncode, result.stderr) == (0, printed)


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
        several = "always,last-call,never"
        for policy in ("default", "never", "always", "last-call", several):
            objects[policy] = compiled(source, *ONE_UNIT, MLGO_POLICY=policy, MLGO_STRICT="1")
            sizes[policy] = text(source / "shapes.o")
        assert objects["default"] == compiled(source, *ONE_UNIT, program="rustc")
        assert len(set(objects.values())) >= 3
        assert sizes[several] == min(sizes[policy] for policy in several.split(",")) < sizes["always"]
        assert {path.name for path in source.iterdir()} == {"shapes.o", "shapes.rs"}
        before = counted("compiled with a policy")
        assert "expected opt-level=s or opt-level=z, got opt-level=2" in (
            compile_library(source, "-Copt-level=2", MLGO_POLICY="never").stderr
        )
        assert counted("compiled with a policy") == before

    def test_options_may_stand_before_rustc_and_compiles_of_build_scripts_are_probes(self, source: Path) -> None:
        script = {"OPT_LEVEL": "z", "NUM_JOBS": "2", "MLGO_POLICY": "never", "MLGO_STRICT": "1"}
        assert compiled(source, *ONE_UNIT, **script) == compiled(source, *ONE_UNIT, program="rustc")
        command = [
            str(WRAPPER),
            "--mlgo-policy=never",
            "rustc",
            "--crate-name=probe",
            "--crate-type=lib",
            *ONE_UNIT,
            "-",
        ]
        probe = subprocess.run(command, cwd=source, input=b"pub fn f() {}", capture_output=True, check=False)
        assert (probe.returncode, probe.stderr, counted("compiled with a policy")) == (0, b"", 0)
        inlining = compile_library(source, *ONE_UNIT, "-Cllvm-args=--inline-threshold=500", MLGO_POLICY="never")
        assert "shapes: --inline-threshold=500 changes the decisions of policies" in inlining.stderr

    def test_a_build_of_cargo_follows_the_policy(self, workspace: Path) -> None:
        """Build scripts and procedural macros are compiled by rustc alone, and the program runs."""
        units = {"CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
        result = cargo(workspace, "--message-format=json", MLGO_POLICY="never", **units)
        messages = [json.loads(line) for line in result.stdout.splitlines()]
        assert messages[-1] == {"reason": "build-finished", "success": True}
        assert "shapes is compiled as one codegen unit; set codegen-units = 1 in [profile.release]" in result.stderr
        assert counted("compiled with a policy") == 2
        # Cargo, and a compiler cache, read in the list of dependencies that the object depends on the policy.
        (listing,) = (workspace / "target/release/deps").glob("shapes-*.d")
        assert "# env-dep:MLGO_POLICY=never\n" in listing.read_text()
        assert "Compiling" not in cargo(workspace, MLGO_POLICY="never", **units).stderr
        assert "Compiling" in cargo(workspace, MLGO_POLICY="threshold:5", **units).stderr

    def test_a_build_at_another_level_gets_one_warning_and_is_repeated_with_the_remedy(self, workspace: Path) -> None:
        profile = {"CARGO_PROFILE_RELEASE_OPT_LEVEL": "3", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "1"}
        first = cargo(workspace, MLGO_POLICY="never", **profile).stderr
        assert first.count("mlgo-rustc: warning: ") == first.count("or set MLGO_LEVELS=3\n") == 1
        assert counted("because not at a level of MLGO_LEVELS: opt-level=3") == 2
        assert "mlgo-rustc" not in cargo(workspace, MLGO_POLICY="never", MLGO_LEVELS="3", **profile).stderr
        assert counted("compiled with a policy") == 2

    def test_other_work_and_a_policy_that_cannot_decide_leave_the_crate_to_rustc(self, source: Path) -> None:
        result = compile_library(source, *ONE_UNIT, "-Clto=fat", MLGO_POLICY="never")
        problem = 'expected no link time optimisation, got lto; set lto = "off" in [profile.release]'
        assert result.returncode == 0
        assert result.stderr.splitlines()[0] == f"mlgo-rustc: warning: shapes is left to rustc: {problem}"
        garbage = source / "garbage"
        garbage.write_bytes(bytes(100))
        result = compile_library(source, *ONE_UNIT, MLGO_POLICY=f"mlp:{garbage}")
        assert result.returncode == 0
        assert result.stderr.startswith("mlgo-rustc: warning: shapes.rs is compiled by rustc alone: ")
        assert (result.stderr.count("\n"), counted("compiled by rustc alone")) == (1, 1)
        assert (source / "shapes.o").read_bytes() == compiled(source, *ONE_UNIT, program="rustc")
        assert compile_library(source, *ONE_UNIT, MLGO_POLICY=f"mlp:{garbage}", MLGO_STRICT="1").returncode == 1
