"""`mlgo-gym train`: options, and networks from real labels and episodes."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from mlgo_gym.cli.train import at_level
from mlgo_gym.corpus.modules.training_digests import sidecar_digests
from mlgo_gym.errors import MissingExtraError, MlgoError
from mlgo_gym.policies.bundled import bundled_file
from mlgo_gym.policies.network import Network
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.training import read_labels
from mlgo_gym.training.checkpoint_choice import MARGINS
from mlgo_gym.training.eviction_imitation import MARGINS as EVICTION_MARGINS
from tests.cli.command import run, run_json

SMALL = ("--models", 1, "--trees", 5, "--hidden", 8, "--steps", 20)
EVICT = "mlgo/RegAllocEvict-v0"


@pytest.mark.parametrize(
    ("options", "base", "levels"),
    [
        ("--level Oz", "default", ["Oz"]),
        ("--level Os", "threshold:5", ["Os", "Oz"]),
        ("--level Os --base default", "default", ["Os", "Oz"]),
        ("--level Os --base threshold:7 --extra-level O2", "threshold:7", ["Os", "O2"]),
    ],
)
def test_the_first_labels_are_taken_around_the_base_at_every_level(
    options: str, base: str, levels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)  # labels come first
    words = ("--corpus", "builtin:train", "--rounds", 1, "--compiles", 2, "--limit", 1, "--margin", 0)
    with pytest.raises(MissingExtraError):
        run("train", "policy", "--output", tmp_path, *words, *options.split())
    (path,) = tmp_path.glob("round-*/labels/labels.json")
    labels = json.loads(path.read_text())
    assert (labels["policy"], labels["compiles"]) == (base, 2)
    assert labels["corpus"] == ",".join(f"builtin@{level}:train" for level in levels)


def test_a_level_precedes_the_split_of_a_corpus() -> None:
    for corpus, expected in {
        "zstd": "zstd@Os",
        "catalogue:train-projects": "catalogue@Os:train-projects",
        "pypi:lz4==4.4.5": "pypi:lz4==4.4.5@Os",
        "/": "/",
    }.items():
        assert at_level(corpus, "Os") == expected


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
def test_a_margin_is_chosen_by_compiles_of_modules_that_were_not_trained_on(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    labels, valid, file = tmp_path / "labels", tmp_path / "valid", tmp_path / "n.safetensors"
    assert run("label", varied, "--output", labels, "--compiles", 3, "--callee-features").exit_code == 0
    valid.mkdir()
    shutil.copy(Path(varied, "calls.bc"), valid)
    command = ("train", "imitation", labels, *SMALL, "--output", file, "--validation")
    result = run(*command, valid)
    assert result.exit_code == 0, result.output
    assert result.output.count("of 1 validation modules") == len(MARGINS)
    fitted = [json.loads(path.read_bytes())["modules"] for path in tmp_path.glob("n.margins/*.json")]
    assert sorted(fitted) == [3, 4]
    assert set(sidecar_digests(file)) == set(read_labels([labels]).digests.tolist())
    assert set(CALLEE_FEATURES) <= set(Network.load(file).features)
    before = file.read_bytes()
    assert (run(*command, valid).stdout, file.read_bytes()) == (result.stdout, before)
    with pytest.raises(MlgoError, match="got only excluded ones"):
        run(*command, varied)
    # The next labels are taken around the network, and have its features.
    again = ("label", varied, "--output", tmp_path / "second", "--compiles", 3, "--policy", f"mlp:{file}")
    assert run(*again).exit_code == 0
    assert read_labels([tmp_path / "second"]).features == read_labels([labels]).features


@pytest.mark.libraries
def test_labels_of_evictions_make_networks(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("capstone")
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    actions, flips, valid, file = (tmp_path / name for name in ("actions", "flips", "valid", "n.safetensors"))
    label = ("label", varied, "--environment", EVICT, "--compiles", 8, "--output")
    assert run(*label, actions).exit_code == 0
    command = ("train", "imitation", actions, "--steps", 20, "--output", file)
    assert run(*command).exit_code == 0
    assert Network.load(file).outputs == 33
    assert sidecar_digests(file)
    with pytest.raises(MlgoError, match="expected labels of inlining with --margin or --validation"):
        run(*command, "--margin", 1)
    assert run(*label, flips, "--metric", "estimated-instructions").exit_code == 0
    valid.mkdir()
    shutil.copy(Path(varied, "many_calls.bc"), valid)
    chosen = run_json("train", "imitation", flips, *SMALL, "--output", file, "--validation", valid)
    assert [tried["margin"] for tried in chosen["tried"]] == list(EVICTION_MARGINS)
    assert chosen["margin"] in EVICTION_MARGINS
    assert {tried["modules"] for tried in chosen["tried"]} == {1}


@pytest.mark.libraries
def test_a_clone_of_a_policy_with_callee_features_has_them_too(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    file = tmp_path / "n.safetensors"
    options = ("--rounds", 2, "--episodes", 2, "--hidden", 8, "--steps", 20, "--output", file)
    assert run_json("train", "clone", "--corpus", varied, "--expert", "inline-oz", *options)["agreement"][0] == 1.0
    features = Network.load(file).features
    assert "inlining_default" not in features
    assert set(CALLEE_FEATURES) <= set(features)
    assert sidecar_digests(file)


@pytest.mark.libraries
def test_evolution_starts_from_a_network(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    start, file = bundled_file("inline-oz-fast"), tmp_path / "n.safetensors"
    options = ("--generations", 1, "--directions", 1, "--best", 1, "--modules", 1, "--optimiser", "cma")
    result = run("train", "evolve", start, "--corpus", corpus, *options, "--output", file)
    assert result.exit_code == 0, result.output
    assert "change in the last generation" in result.output
    assert Network.load(file).features == Network.load(start).features
