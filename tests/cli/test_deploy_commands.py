"""Commands for builds and exports: counters, exports, recipes, and clear errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_clang.counters import count
from mlgo_gym.errors import CorpusError, MlgoError, PolicyError, ToolchainError
from tests.cli.command import run


def test_the_counters_of_the_driver_are_shown_and_zeroed(own_cache: Path) -> None:
    nothing = "mlgo-clang has compiled nothing\n"
    assert run("cc-stats").stdout == nothing
    for names in (("left to clang",), ("compiled by clang alone", "because of rain"), ("left to clang",)):
        count(*names)
    expected = "       2  left to clang\n       1  compiled by clang alone\n       1  because of rain\n"
    assert run("cc-stats", "--zero").stdout == expected
    assert run("cc-stats").stdout == nothing


NEEDS_CALLEES = r"inline-oz needs callee features, .* or use inline-oz-fast$"


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ("llvm-header --policy no-such-policy", PolicyError, "expected a bundled policy, got 'no-such-policy'"),
        ("llvm-header --policy threshold:many", PolicyError, "expected threshold:NUMBER, got 'threshold:many'"),
        ("plugin --policy never --llvm-config llvm-config-2", ToolchainError, "llvm-config-2"),
        ("plugin --policy never --llvm-config echo", ToolchainError, "an llvm-config, got echo with the version"),
        ("llvm-header --level Oz --policy inline-oz", PolicyError, NEEDS_CALLEES),
        ("onnx --policy inline-oz", PolicyError, NEEDS_CALLEES),
        ("tflite --level Oz --policy inline-oz", PolicyError, NEEDS_CALLEES),
        ("onnx --policy threshold:3", PolicyError, "expected a network, got the rule 'threshold:3'"),
        ("tflite --policy threshold:3", PolicyError, "expected a network, got the rule 'threshold:3'"),
    ],
)
def test_an_export_that_is_impossible_is_refused(
    words: str, error: type[MlgoError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        run("export", *words.split(), "--output", tmp_path / "output")
    assert list(tmp_path.iterdir()) == []


def test_an_export_names_its_policy_and_one_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    output = tmp_path / "header.h"
    result = run("export", "llvm-header", "--policy", "threshold:20", "--output", output)
    assert (result.exit_code, result.stdout.startswith(f"{output}: threshold:20, ")) == (0, True)
    assert "(double)features[0] < 20.0" in output.read_text()
    for name in ("", "header.h/model"):
        with pytest.raises(MlgoError, match=r"the export to .* failed"):
            run("export", "llvm-header", "--policy", "never", "--output", tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["header.h"]
    assert list(tmp_path.parent.glob(f".{tmp_path.name}*")) == []


def test_a_folder_of_recipes_may_be_empty_but_must_exist(tmp_path: Path) -> None:
    assert run("recipes", "prune", tmp_path).stdout == "0 recipes removed\n"
    assert run("recipes", "verify", tmp_path).stdout == "0 recipes verified, 0 failed\n"
    (tmp_path / "odd.recipe").write_text("{}")
    verified = run("recipes", "verify", tmp_path)
    assert (verified.exit_code, verified.stdout) == (1, "odd: damaged\n0 recipes verified, 1 failed\n")
    assert "odd              damaged" in run("recipes", "list", tmp_path).stdout
    with pytest.raises(CorpusError, match="expected a folder of recipes, got"):
        run("recipes", "list", tmp_path / "nowhere")
