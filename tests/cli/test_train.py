"""`mlgo-gym train`: options, and networks from real labels and episodes."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from mlgo_gym.compiler.callee_features import CALLEE_FEATURES
from mlgo_gym.corpus.training_digests import sidecar_digests
from mlgo_gym.errors import MissingExtraError, MlgoError
from mlgo_gym.policies.eviction import INPUTS
from mlgo_gym.policies.network import Network
from mlgo_gym.training import read_labels
from mlgo_gym.training.checkpoint_choice import MARGINS
from tests.cli.command import run, run_json

SMALL = ("--models", 1, "--trees", 5, "--hidden", 8, "--steps", 20)


def test_the_first_labels_are_taken_around_the_base_at_every_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)  # labels come first
    words = ("--corpus", "builtin:train", "--rounds", 1, "--compiles", 2, "--limit", 1, "--margin", 0)
    for options, base, levels in (
        ("--level Os", "threshold:5", ["Os", "Oz"]),
        ("--level Os --base threshold:7 --extra-level O2", "threshold:7", ["Os", "O2"]),
    ):
        output = tmp_path / base
        with pytest.raises(MissingExtraError):
            run("train", "policy", "--output", output, *words, *options.split())
        (path,) = output.glob("round-*/labels/labels.json")
        labels = json.loads(path.read_text())
        assert (labels["policy"], labels["compiles"]) == (base, 2)
        assert labels["corpus"] == ",".join(f"builtin@{level}:train" for level in levels)


def test_options_are_checked(corpus: Path, tmp_path: Path) -> None:
    labels, output = tmp_path / "labels", ("--output", tmp_path / "n.safetensors")
    assert run("label", corpus, "--output", labels, "--compiles", 2, "--limit", 1).exit_code == 0
    cases: tuple[tuple[Path, tuple[object, ...], str], ...] = (
        (labels, ("--hidden", "8,x"), "expected --hidden with widths ≥ 1 separated by commas, got '8,x'"),
        (labels, ("--margin", 1, "--validation", "builtin"), "expected --margin or --validation, got both"),
        (tmp_path / "none", (), str(tmp_path / "none")),
    )
    for folder, options, message in cases:
        with pytest.raises(MlgoError, match=message):
            run("train", "imitation", folder, *output, *options)


@pytest.mark.libraries
def test_networks_learn_from_labels_and_a_margin_is_chosen_on_other_modules(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    labels, valid, file = tmp_path / "labels", tmp_path / "valid", tmp_path / "n.safetensors"
    assert run("label", varied, "--output", labels, "--compiles", 3, "--callee-features").exit_code == 0
    valid.mkdir()
    shutil.copy(Path(varied, "calls.bc"), valid)
    command: tuple[object, ...] = ("train", "imitation", labels, *SMALL, "--output", file, "--validation")
    result = run(*command, valid)
    assert result.exit_code == 0, result.output
    assert result.output.count("of 1 validation modules") == len(MARGINS)
    assert set(sidecar_digests(file)) == set(read_labels([labels]).digests.tolist())
    assert set(CALLEE_FEATURES) <= set(Network.load(file).features)
    with pytest.raises(MlgoError, match="got only excluded ones"):
        run(*command, varied)
    clone = ("train", "clone", "--corpus", varied, "--expert", "inline-oz", "--rounds", 2, "--episodes", 2)
    assert run_json(*clone, "--hidden", 8, "--steps", 20, "--output", file)["agreement"][0] == 1.0
    assert set(CALLEE_FEATURES) <= set(Network.load(file).features) - {"inlining_default"}
    label = ("label", varied, "--environment", "mlgo/RegAllocEvict-v0", "--compiles", 8, "--output")
    assert run(*label, tmp_path / "evictions").exit_code == 0
    assert run("train", "imitation", tmp_path / "evictions", *SMALL, "--output", file).exit_code == 0
    assert Network.load(file).features == INPUTS
