"""`mlgo-gym train`: options, and networks from real labels and episodes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.cli.train import at_level
from mlgo_gym.corpus.modules.training_digests import sidecar_digests
from mlgo_gym.envs import InlineEnv
from mlgo_gym.policies.network import Network
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.training import PolicyTraining, read_labels
from mlgo_gym.training.checkpoint_choice import MARGINS
from mlgo_gym.training.eviction_imitation import MARGINS as EVICTION_MARGINS

SMALL = ["--models", "1", "--trees", "5", "--hidden", "8", "--steps", "20"]


@pytest.mark.parametrize(
    ("options", "base"),
    [
        (["--level", "Oz"], "default"),
        (["--level", "Os"], "threshold:5"),
        (["--level", "Os", "--base", "default"], "default"),
        (["--level", "Os", "--base", "threshold:7"], "threshold:7"),
    ],
)
def test_the_base_is_the_given_one_or_that_of_the_level(
    options: list[str], base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[PolicyTraining] = []

    def run(training: PolicyTraining, *_: object) -> None:
        started.append(training)
        raise KeyboardInterrupt

    monkeypatch.setattr(PolicyTraining, "run", run)
    CliRunner().invoke(application, ["train", "policy", "--output", str(tmp_path), *options])
    assert [(training.fit.base, training.labelling.policy) for training in started] == [(base, base)]


@pytest.mark.parametrize(
    ("corpus", "expected"),
    [
        ("zstd", "zstd@Os"),
        ("zstd:train", "zstd@Os:train"),
        ("catalogue:train-projects", "catalogue@Os:train-projects"),
        ("pypi:lz4==4.4.5", "pypi:lz4==4.4.5@Os"),
        ("/", "/"),
    ],
)
def test_a_level_precedes_the_split_of_a_corpus(corpus: str, expected: str) -> None:
    assert at_level(corpus, "Os") == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hidden", "8,x"], "expected --hidden with widths ≥ 1 separated by commas, got '8,x'"),
        (["--margin", "1", "--validation", "builtin"], "expected --margin or --validation, got both"),
    ],
)
def test_options_are_checked(options: list[str], message: str, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "labels"
    command = ["label", str(corpus), "--output", str(folder), "--compiles", "2", "--limit", "1"]
    assert CliRunner().invoke(application, command).exit_code == 0
    command = ["train", "imitation", str(folder), "--output", str(tmp_path / "n.safetensors"), *options]
    assert message in str(CliRunner().invoke(application, command).exception)


def test_a_folder_without_labels_is_refused(tmp_path: Path) -> None:
    command = ["train", "imitation", str(tmp_path), "--output", str(tmp_path / "n.safetensors")]
    result = CliRunner().invoke(application, command)
    assert result.exit_code != 0
    assert str(tmp_path) in str(result.exception)


@pytest.mark.libraries
def test_labels_with_callee_features_make_a_network_that_sees_them(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    folder, file = tmp_path / "labels", tmp_path / "n.safetensors"
    command = ["label", str(corpus), "--output", str(folder), "--compiles", "3", "--callee-features"]
    assert CliRunner().invoke(application, command).exit_code == 0
    imitation = ["train", "imitation", str(folder), "--output", str(file), *SMALL, "--margin", "0.5"]
    result = CliRunner().invoke(application, imitation)
    assert result.exit_code == 0, result.output
    assert set(CALLEE_FEATURES) <= set(Network.load(file).features)
    digests = set(sidecar_digests(file))
    assert digests
    assert digests <= {module.digest() for module in InlineEnv(corpus=str(corpus)).corpus}
    again = ["label", str(corpus), "--output", str(tmp_path / "second"), "--compiles", "3", "--policy", f"mlp:{file}"]
    result = CliRunner().invoke(application, again)
    assert result.exit_code == 0, result.output
    assert read_labels([tmp_path / "second"]).features == read_labels([folder]).features


@pytest.mark.libraries
def test_a_margin_is_chosen_by_compiles_of_modules_that_were_not_trained_on(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    labels, valid, file = tmp_path / "labels", tmp_path / "valid", tmp_path / "n.safetensors"
    assert CliRunner().invoke(application, ["label", varied, "--output", str(labels), "--compiles", "3"]).exit_code == 0
    valid.mkdir()
    shutil.copy(Path(varied, "calls.bc"), valid)
    command = ["train", "imitation", str(labels), *SMALL, "--output", str(file), "--validation", str(valid)]
    result = CliRunner().invoke(application, command)
    assert result.exit_code == 0, result.output
    assert result.output.count("of 1 validation modules") == len(MARGINS)
    fitted = [json.loads(path.read_bytes())["modules"] for path in tmp_path.glob("n.margins/*.json")]
    assert sorted(fitted) == [3, 4]
    assert set(sidecar_digests(file)) == set(read_labels([labels]).digests.tolist())
    before = file.read_bytes()
    again = CliRunner().invoke(application, command)
    assert (again.stdout, file.read_bytes()) == (result.stdout, before)
    result = CliRunner().invoke(application, [*command[:-1], varied])
    assert "got only excluded ones" in str(result.exception)


@pytest.mark.libraries
def test_labels_of_evictions_make_a_network_of_their_actions(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    labels, file = tmp_path / "labels", tmp_path / "n.safetensors"
    command = ["label", varied, "--environment", "mlgo/RegAllocEvict-v0", "--output", str(labels), "--compiles", "8"]
    assert CliRunner().invoke(application, command).exit_code == 0
    command = ["train", "imitation", str(labels), "--steps", "20", "--output", str(file)]
    result = CliRunner().invoke(application, command)
    assert result.exit_code == 0, result.output
    assert Network.load(file).outputs == 33
    assert sidecar_digests(file)
    result = CliRunner().invoke(application, [*command, "--margin", "1"])
    assert "expected labels of inlining with --margin or --validation" in str(result.exception)


@pytest.mark.libraries
def test_a_margin_of_evictions_is_chosen_by_estimated_instructions(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("capstone")
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    labels, valid, file = tmp_path / "labels", tmp_path / "valid", tmp_path / "n.safetensors"
    command = ["label", varied, "--environment", "mlgo/RegAllocEvict-v0", "--output", str(labels), "--compiles", "9"]
    assert CliRunner().invoke(application, [*command, "--metric", "estimated-instructions"]).exit_code == 0
    valid.mkdir()
    shutil.copy(Path(varied, "many_calls.bc"), valid)
    command = ["train", "imitation", str(labels), *SMALL, "--output", str(file), "--validation", str(valid), "--json"]
    result = CliRunner().invoke(application, command)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [tried["margin"] for tried in found["tried"]] == list(EVICTION_MARGINS)
    assert found["margin"] in EVICTION_MARGINS
    assert {tried["modules"] for tried in found["tried"]} == {1}


@pytest.mark.libraries
def test_a_clone_of_a_policy_with_callee_features_has_them_too(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    file = tmp_path / "n.safetensors"
    command = ["train", "clone", "--corpus", varied, "--expert", "inline-oz", "--rounds", "2", "--episodes", "2"]
    command += ["--hidden", "8", "--steps", "20", "--output", str(file), "--json"]
    result = CliRunner().invoke(application, command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["agreement"][0] == 1.0
    features = Network.load(file).features
    assert "inlining_default" not in features
    assert set(CALLEE_FEATURES) <= set(features)
    assert sidecar_digests(file)


@pytest.mark.libraries
def test_evolution_starts_from_a_network(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("cmaes", reason="cmaes is not installed")
    from mlgo_gym.policies.bundled import bundled_file

    start, file = bundled_file("inline-oz-fast"), tmp_path / "n.safetensors"
    command = ["train", "evolve", str(start), "--corpus", str(corpus), "--generations", "1", "--directions", "1"]
    command += ["--best", "1", "--modules", "1", "--optimiser", "cma", "--output", str(file)]
    result = CliRunner().invoke(application, command)
    assert result.exit_code == 0, result.output
    assert "change in the last generation" in result.output
    assert Network.load(file).features == Network.load(start).features
