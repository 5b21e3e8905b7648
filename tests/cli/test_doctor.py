"""`mlgo-gym doctor`, run in this process."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mlgo_gym
from mlgo_gym.cli import doctor, doctor_rust
from mlgo_gym.cli.application import application
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import clang_argument


def test_a_complete_installation_has_no_problems(any_toolchain: Toolchain) -> None:
    result = CliRunner().invoke(application, ["doctor", "--json", "--clang", clang_argument(any_toolchain)])
    assert result.exit_code == 0, result.output
    findings = json.loads(result.stdout)
    assert findings["problems"] == []
    assert findings["clang"]["version"] == any_toolchain.version_text
    advisors = findings["clang"]["advisors"]
    assert {name: found["features"] for name, found in advisors.items()} == {
        "inlining": 39 if any_toolchain.version >= (19,) else 36,
        "eviction": 21,
        "priority": 3,
    }
    assert findings["packages"]["ziglang"] == {"version": "0.17.0", "required": "==0.17.0", "extra": None}
    assert findings["packages"]["matplotlib"]["extra"] == "report"
    assert "pytest" not in findings["packages"]


def test_a_new_decision_point_is_tried_too(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    monkeypatch.setitem(mlgo_gym.ENVIRONMENTS, "mlgo/Toy-v0", "tests.envs.toy:Toy")
    findings = doctor.examine("bundled")
    assert list(findings["clang"]["advisors"]) == ["inlining", "eviction", "priority", "toy"]
    assert findings["problems"] == []


def test_a_person_reads_compiler_features_and_folders(cache: Path) -> None:
    result = CliRunner().invoke(application, ["doctor"])
    assert result.exit_code == 0, result.output
    for line in (
        "clang 22.1.8 (bundled): ",
        "  inlining   supported, 39 features",
        f"cache: {cache}",
        "no problems",
    ):
        assert line in result.stdout


def test_a_program_that_is_no_clang_is_a_problem_with_a_remedy() -> None:
    result = CliRunner().invoke(application, ["doctor", "--clang", "/bin/true"])
    assert result.exit_code == 1
    assert "problem 1: /bin/true is not clang" in result.stdout
    assert "remedy: choose clang 17 or newer" in result.stdout


def test_a_clang_without_advisors_is_a_problem_for_each(tmp_path: Path, own_cache: Path) -> None:
    program = tmp_path / "clang"
    program.write_text(
        "#!/bin/sh\ncase $* in *--version*) echo clang version 19.0.0;; *) echo broken >&2; exit 1;; esac\n"
    )
    program.chmod(0o755)
    findings = doctor.examine(str(program))
    assert findings["clang"]["version"] == "19.0.0"
    assert all("broken" in found["error"] for found in findings["clang"]["advisors"].values())
    assert len(findings["problems"]) == 3


def test_a_cache_that_cannot_be_written_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MLGO_CACHE", str(tmp_path / "file" / "cache"))
    problems: list[dict[str, str]] = []
    doctor._cache(problems)
    [problem] = problems
    assert "cannot be written: Not a directory" in problem["problem"]
    assert "$MLGO_CACHE" in problem["remedy"]


def test_a_missing_dependency_is_a_problem_and_a_missing_extra_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in ("numpy", "jinja2") else installed(name))
    problems: list[dict[str, str]] = []
    packages = doctor._packages(problems)
    assert packages["numpy"]["version"] is packages["jinja2"]["version"] is None
    assert [problem["problem"] for problem in problems] == ["numpy is not installed"]
    assert problems[0]["remedy"].startswith("pip install 'numpy>=")


def declared(*lines: str) -> Message:
    """The metadata of an installation with the extras `cli` and `rl-zoo`, and those of developers."""
    metadata = Message()
    for extra in ("cli", "rl-zoo", "test", "test-libraries"):
        metadata["Provides-Extra"] = extra
    for line in lines:
        metadata["Requires-Dist"] = line
    return metadata


def test_requirements_are_read_with_their_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = declared(
        "absent-core",
        "absent-library>=2; extra == 'rl-zoo'",
        'absent-elsewhere; sys_platform == "nowhere" and extra == "cli"',
        'absent-tool; extra == "test-libraries"',
        'mlgo_gym[cli]; extra == "rl-zoo"',
        "absent-core; extra == 'cli'",
    )
    monkeypatch.setattr(doctor, "_metadata", lambda: metadata)
    problems: list[dict[str, str]] = []
    packages = doctor._packages(problems)
    assert packages == {
        "absent-core": {"version": None, "required": "", "extra": None},
        "absent-library": {"version": None, "required": ">=2", "extra": "rl-zoo"},
    }
    assert problems == [{"problem": "absent-core is not installed", "remedy": "pip install 'absent-core'"}]


def test_a_package_of_another_version_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_metadata", lambda: declared("numpy>=1000; extra == 'cli'"))
    problems: list[dict[str, str]] = []
    doctor._packages(problems)
    [problem] = problems
    assert problem["problem"].startswith("expected numpy>=1000, got ")
    assert problem["remedy"] == "pip install 'numpy>=1000'"


def test_a_flag_without_a_model_is_a_problem_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables, the configuration of the project above the folder, and that of the user are read."""
    flag = "-Cllvm-args=-enable-ml-inliner=release"
    home, inner = tmp_path / "home", tmp_path / "project" / "crate"
    for folder in (home, inner, tmp_path / "project" / ".cargo"):
        folder.mkdir(parents=True)
    (home / "config.toml").write_text(f'[build]\nrustflags = ["{flag}"]\n')
    (tmp_path / "project" / ".cargo" / "config").write_text(f'[build]\nrustflags = ["{flag}"]\n')
    environment = {"RUSTFLAGS": flag, "CXXFLAGS": "-O2", "CARGO_HOME": str(home), "OTHER": flag}
    places = [str(tmp_path / "project" / ".cargo" / "config"), str(home / "config.toml")]
    assert list(doctor_rust.misleading_places(environment, inner)) == ["RUSTFLAGS", *places]
    monkeypatch.setenv("RUSTFLAGS", flag)
    monkeypatch.chdir(tmp_path)
    (problem,) = doctor.examine("bundled")["problems"]
    assert problem["problem"].startswith(
        "RUSTFLAGS contains -enable-ml-inliner=release, and a released compiler has no"
    )
    monkeypatch.setenv("RUSTFLAGS", f"{flag} -Cllvm-args=-inliner-interactive-channel-base=base")
    assert doctor.examine("bundled")["problems"] == []


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("release: 1.63.0\nLLVM version: 14.0.5", "expected LLVM 17 or newer; run rustup update"),
        ("release: 1.99.0\nLLVM version: 24.0.0", "clang 22 cannot read its bitcode; choose a newer clang for corpora"),
        ("nothing", "prints no version; install a toolchain with rustup"),
        ("release: 1.95.0\nLLVM version: 22.1.2", None),
    ],
)
def test_a_rustc_that_cannot_be_used_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, found: str | None
) -> None:
    (tmp_path / "rustc").write_text(f"#!/bin/sh\necho '{version}'\n")
    (tmp_path / "rustc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert doctor_rust.find_rustc(22).get("reason") == found
    monkeypatch.setenv("PATH", "/nowhere")
    assert doctor_rust.find_rustc(22) == {"reason": "not installed, needed for crates only"}
