"""Commands for builds and exports: counters, exports, recipes, and clear errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_clang.counters import count
from mlgo_gym.cli.application import application
from mlgo_gym.errors import CorpusError, MlgoError, PolicyError, ToolchainError


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(application, arguments, catch_exceptions=True)
    if isinstance(result.exception, Exception):
        raise result.exception
    return result.exit_code, result.output


def test_the_counters_of_the_driver_are_shown_and_zeroed(own_cache: Path) -> None:
    assert run("cc-stats") == (0, "mlgo-clang has compiled nothing\n")
    for names in (("left to clang",), ("compiled by clang alone", "because of rain"), ("left to clang",)):
        count(*names)
    expected = "       2  left to clang\n       1  compiled by clang alone\n       1  because of rain\n"
    assert run("cc-stats", "--zero") == (0, expected)
    assert run("cc-stats") == (0, "mlgo-clang has compiled nothing\n")


def test_a_header_is_exported(tmp_path: Path) -> None:
    output = tmp_path / "header.h"
    status, text = run("export", "llvm-header", "--policy", "threshold:20", "--output", str(output))
    assert (status, text.startswith(f"{output}: threshold:20, ")) == (0, True)
    assert "(double)features[0] < 20.0" in output.read_text()


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    output = str(tmp_path / "output")
    with pytest.raises(PolicyError, match="expected a bundled policy, got 'no-such-policy'"):
        run("export", "llvm-header", "--policy", "no-such-policy", "--output", output)
    with pytest.raises(PolicyError, match="expected threshold:NUMBER, got 'threshold:many'"):
        run("export", "llvm-header", "--policy", "threshold:many", "--output", output)
    with pytest.raises(ToolchainError, match="llvm-config-2"):
        run("export", "plugin", "--policy", "never", "--output", output, "--llvm-config", "llvm-config-2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("more", [("llvm-header", "--level", "Oz"), ("onnx",), ("tflite", "--level", "Oz")])
def test_a_policy_with_callee_features_is_refused(more: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"inline-oz needs callee features, .* or use inline-oz-fast$"):
        run("export", *more, "--policy", "inline-oz", "--output", str(tmp_path / "output"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "file/model"])
def test_an_export_that_cannot_be_written_leaves_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MlgoError, match=r"the export to .* failed"):
        run("export", "llvm-header", "--policy", "never", "--output", str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert list(tmp_path.parent.glob(f".{tmp_path.name}*")) == []


def test_a_program_that_is_no_llvm_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="expected an llvm-config, got echo with the version"):
        run("export", "plugin", "--policy", "never", "--output", str(tmp_path / "x"), "--llvm-config", "echo")


def test_a_folder_of_recipes_may_be_empty_but_must_be_there(tmp_path: Path) -> None:
    assert run("recipes", "prune", str(tmp_path)) == (0, "0 recipes removed\n")
    assert run("recipes", "verify", str(tmp_path)) == (0, "0 recipes verified, 0 failed\n")
    (tmp_path / "odd.recipe").write_text("{}")
    assert run("recipes", "verify", str(tmp_path)) == (1, "odd: damaged\n0 recipes verified, 1 failed\n")
    assert "odd              damaged" in run("recipes", "list", str(tmp_path))[1]
    with pytest.raises(CorpusError, match="expected a folder of recipes, got"):
        run("recipes", "list", str(tmp_path / "nowhere"))
