"""`mlgo-gym label`: labels on disk, and what it says of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli import train_policy
from mlgo_gym.cli.application import application
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.leaderboard.training_digests import digests_of_policy
from mlgo_gym.policies.loading import wants_calls
from mlgo_gym.training.label_store import read_labels
from mlgo_gym.training.margin_choice import MARGINS


def test_it_labels_a_corpus_and_goes_on_where_it_was(corpus: Path, tmp_path: Path) -> None:
    command = ["label", str(corpus), "--output", str(tmp_path), "--compiles", "3", "--check", "1"]
    first = CliRunner().invoke(application, command)
    assert first.exit_code == 0, first.output
    labels = read_labels([tmp_path])
    assert f"{len(labels)} labels of 18 decisions in 3 modules" in first.output
    assert "2 labels against single flips: 100% exact" in first.output
    again = CliRunner().invoke(application, command)
    assert again.output == first.output


@pytest.mark.libraries
def test_labels_with_calls_make_a_network_that_sees_them(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    folder, file = tmp_path / "labels", tmp_path / "n.safetensors"
    command = ["label", str(corpus), "--output", str(folder), "--compiles", "3", "--calls"]
    assert CliRunner().invoke(application, command).exit_code == 0
    imitation = ["train", "imitation", str(folder), "--output", str(file), "--teachers", "1", "--trees", "5"]
    result = CliRunner().invoke(application, [*imitation, "--hidden", "8", "--steps", "20", "--margin", "0.5"])
    assert result.exit_code == 0, result.output
    assert wants_calls(f"mlp:{file}")
    told = digests_of_policy(file)
    assert told
    assert told <= {module.digest() for module in InlineEnv(corpus=str(corpus)).corpus}
    again = ["label", str(corpus), "--output", str(tmp_path / "second"), "--compiles", "3", "--policy", f"mlp:{file}"]
    result = CliRunner().invoke(application, again)
    assert result.exit_code == 0, result.output
    assert read_labels([tmp_path / "second"]).features == read_labels([folder]).features


def test_labels_in_one_file_are_those_of_a_folder(corpus: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    folder, file = tmp_path / "labels", tmp_path / "labels.parquet"
    command = ["label", str(corpus), "--compiles", "4", "--output", str(folder)]
    assert CliRunner().invoke(application, command).exit_code == 0
    tables = [parquet.read_table(path) for path in sorted(folder.glob("parts/*.parquet"))]
    together = arrow.concat_tables(tables)
    together = together.append_column("dataset", together.column("project"))
    together = together.append_column("round", arrow.array([0] * len(together)))
    parquet.write_table(together, file)
    one, other = read_labels([folder]), read_labels([file])
    assert one.features == other.features
    assert sorted(one.bytes.tolist()) == sorted(other.bytes.tolist())
    assert sorted(one.share.tolist()) == sorted(other.share.tolist())
    assert len(set(one.modules.tolist())) == len(set(other.modules.tolist()))
    assert set(one.digests.tolist()) == set(other.digests.tolist()) != {""}
    parquet.write_table(together.drop_columns(["digest"]), file)
    assert set(read_labels([file]).digests.tolist()) == {""}
    parquet.write_table(together.drop_columns(["bytes"]), file)
    with pytest.raises(MlgoError, match="was to be a file of labels"):
        read_labels([file])


@pytest.mark.libraries
def test_a_margin_is_chosen_by_compiles_of_modules_that_were_not_learned_from(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    labels, valid, file = tmp_path / "labels", tmp_path / "valid", tmp_path / "n.safetensors"
    assert CliRunner().invoke(application, ["label", varied, "--output", str(labels), "--compiles", "3"]).exit_code == 0
    valid.mkdir()
    shutil.copy(Path(varied, "calls.bc"), valid)
    small = ["--teachers", "1", "--trees", "5", "--hidden", "8", "--steps", "20"]
    command = ["train", "imitation", str(labels), *small, "--output", str(file), "--validation", str(valid)]
    result = CliRunner().invoke(application, command)
    assert result.exit_code == 0, result.output
    assert result.output.count("of 1 validation modules") == len(MARGINS)
    learned = len(set(read_labels([labels]).digests.tolist()))
    kept = json.loads(tmp_path.joinpath("n.margins", "network.json").read_bytes())
    assert len(set(read_labels([labels]).modules.tolist())) - kept["modules"] == 1
    assert len(digests_of_policy(file) or ()) == learned
    before = file.read_bytes()
    again = CliRunner().invoke(application, command)
    assert (again.output, file.read_bytes()) == (result.output, before)

    result = CliRunner().invoke(application, [*command, "--margin", "1"])
    assert "give one of the two" in str(result.exception)
    result = CliRunner().invoke(application, [*command[:-1], varied])
    assert "every label is of a module that is kept apart" in str(result.exception)


def test_a_network_cannot_be_trained_on_what_is_no_label(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        application, ["train", "imitation", str(tmp_path), "--output", str(tmp_path / "n.safetensors")]
    )
    assert result.exit_code != 0
    assert "was to be a folder of labels" in str(result.exception)


@pytest.mark.parametrize(
    ("corpus", "at_level"),
    [
        ("zstd", "zstd@Os"),
        ("zstd:train", "zstd@Os:train"),
        ("catalogue:train-projects", "catalogue@Os:train-projects"),
        ("pypi:lz4==4.4.5", "pypi:lz4==4.4.5@Os"),
        ("/", "/"),
    ],
)
def test_a_level_goes_before_the_part_of_a_corpus(corpus: str, at_level: str) -> None:
    assert train_policy.at_level(corpus, "Os") == at_level
