"""Labels survive the way to disk; modules are labelled once, in any process, around the network of the round before."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.corpus import open_corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.scheduling import Execution
from mlgo_gym.training import Labelling
from mlgo_gym.training.label_collector import drawn_modules
from mlgo_gym.training.labels import LABELS, LabelStore, ModuleLabels, read_labels
from tests.training.label_samples import inlining_labels

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

HEADER = {"environment": "mlgo/Inline-v0", "clang": "22"}


def columns(**changes: Any) -> dict[str, Any]:
    """Return the columns of two labels: of a call that the policy kept, and of one that it inlined."""
    return {
        "cost": np.array([3, 4]),
        "histogram": [[1, 2], [3, 4]],
        "answer": np.array([0, 1], np.int8),
        "bytes": np.array([-8, 16]),
        "text": np.array([1000, 1000]),
        "decisions": np.array([6, 6]),
        **changes,
    }


def write(folder: Path, header: dict[str, Any] = HEADER, *modules: str, **changes: Any) -> Path:
    with closing(LabelStore(folder, header)) as store:
        for module in modules or ("m",):
            store.add_labels(module, "p", "d" * 64, ModuleLabels(columns(**changes), {"decisions": 6}))
    return folder


def test_labels_are_read_back(tmp_path: Path) -> None:
    labels = read_labels([write(tmp_path / "one", HEADER, "m", "n")])
    assert labels.features == ("cost", "histogram[0]", "histogram[1]")
    assert labels.observations[:2].tolist() == [[3, 1, 2], [4, 3, 4]]
    assert labels.answers.tolist() == [0, 1, 0, 1]
    assert labels.bytes.tolist() == [-8, 16, -8, 16]
    assert labels.costs[:2].tolist() == [[0, -8], [-16, 0]]
    assert labels.share.tolist() == [3, 3, 3, 3]
    assert labels.groups.tolist() == [0, 0, 1, 1]
    assert (labels.modules.tolist(), labels.trained_on) == (["m", "m", "n", "n"], {"d" * 64: "m"})
    costs = [np.array([0, 0.25, np.inf]), np.array([np.nan, 0, -1])]
    several = columns(costs=costs, weight=[[0, 1], [3, 4]])
    del several["bytes"]
    with closing(LabelStore(tmp_path / "several", HEADER)) as store:
        store.add_labels("m", "p", "", ModuleLabels(several, {"decisions": 2}))
    labels = read_labels([tmp_path / "several"])
    assert labels.features[-2:] == ("weight[0]", "weight[1]")
    assert labels.observations[:, -2:].tolist() == [[0, 1], [3, 4]]
    assert np.array_equal(labels.costs, np.stack(costs), equal_nan=True)
    assert labels.trained_on is None
    old = read_labels([write(tmp_path / "old", callee_last=np.array([0, 1]))])
    assert old.features[-3:] == ("callee_last", "callee_copies", "callee_references"), "labels without link facts"
    assert old.observations[:, -2:].tolist() == [[-1, -1], [-1, -1]]


def test_labels_in_one_file_are_those_of_a_folder(tmp_path: Path) -> None:
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    folder, file = write(tmp_path / "folder", HEADER, "m", "n"), tmp_path / "labels.parquet"
    table = arrow.concat_tables([parquet.read_table(path) for path in sorted(folder.glob("parts/*.parquet"))])
    table = table.append_column("dataset", table.column("project"))
    table = table.append_column("round", arrow.array([0] * len(table)))
    parquet.write_table(table, file)
    one, other = read_labels([folder]), read_labels([file])
    assert one.features == other.features
    for name in ("bytes", "share", "digests"):
        assert sorted(getattr(one, name).tolist()) == sorted(getattr(other, name).tolist()), name
    assert set(other.modules.tolist()) == {"p/m", "p/n"}
    assert len(set(other.groups.tolist())) == 2
    parquet.write_table(table.drop_columns(["bytes"]), file)
    with pytest.raises(MlgoError, match="expected a Parquet file of labels"):
        read_labels([file])


def test_labels_of_other_kinds_are_not_mixed(tmp_path: Path) -> None:
    first, second = write(tmp_path / "first"), write(tmp_path / "second", {**HEADER, "clang": "21"})
    with closing(LabelStore(first, HEADER)) as store:
        store.add_labels("empty", "p", "e", ModuleLabels({}, {"decisions": 0}))
        store.add_labels("broken", "p", "e", "clang failed")
        assert store.done["broken"]["error"] == "clang failed"
    assert set(read_labels([first]).modules.tolist()) == {"m"}
    assert len(list(first.glob("parts/*"))) == 1
    with pytest.raises(MlgoError, match="clang"):
        LabelStore(first, {**HEADER, "clang": "21"})
    assert LABELS.read_header(first)["clang"] == "22"
    with pytest.raises(MlgoError, match=r"expected labels of one clang, got '22' in .*first and '21'"):
        read_labels([first, second])
    third = write(tmp_path / "third", users=np.array([0, 0]))
    with pytest.raises(MlgoError, match=r"expected labels of the same features, got .* with additional users"):
        read_labels([first, third])


def test_the_cheapest_tried_action_is_the_best_and_weights_follow_bytes_and_size() -> None:
    costs = np.array([[0, -1, np.nan], [0, 0, np.inf], [np.nan, 0, 1], [np.nan, 0, -2]])
    labels = replace(inlining_labels(4), costs=costs, answers=np.array([0, 1, 1, 1]))
    assert labels.best_actions.tolist() == [1, 1, 1, 2]
    costs = np.array([[0.0, 10], [0, 20], [0, 10]])
    weights = replace(inlining_labels(3), costs=costs, text=np.array([100, 100, 400])).weights
    assert weights[1:] == pytest.approx([weights[0] * 2**0.8, weights[0] / 2])


@pytest.fixture(scope="module")
def labelled(varied: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Labelling, Path]:
    """The labels of five small modules."""
    folder = tmp_path_factory.mktemp("labels")
    labelling = Labelling(varied, compiles=4, check=2)
    assert len(list(labelling.run(folder))) == 5
    return labelling, folder


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if "seconds" not in name}


def test_labels_have_a_line_per_module_and_a_run_resumes(labelled: tuple[Labelling, Path], tmp_path: Path) -> None:
    labelling, folder = labelled
    labels = read_labels([folder])
    text = folder.joinpath("modules.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(labels) == sum(line["labels"] for line in lines) > 0
    assert labels.observations.shape == (len(labels), len(labels.features)) == (len(labels), 39)
    assert len(list(labelling.run(folder))) == 5
    assert folder.joinpath("modules.jsonl").read_text() == text, "finished modules are not labelled again"
    run = labelling.run(tmp_path)
    next(run)
    run.close()
    list(labelling.run(tmp_path))
    resumed = read_labels([tmp_path])
    for name in ("observations", "costs", "text", "modules"):
        assert np.array_equal(getattr(resumed, name), getattr(labels, name)), name
    with pytest.raises(MlgoError, match=r"expected labels of \{'policy': 'never'\}"):
        list(replace(labelling, policy="never").run(folder))
    assert LABELS.read_header(folder)["policy"] == "default"


def test_evictions_are_labelled_by_flips_in_any_process(varied: str, tmp_path: Path) -> None:
    labelling = Labelling(varied, environment="mlgo/RegAllocEvict-v0", compiles=2)
    one, two = (
        {line["module"]: without_times(line) for line in labelling.run(tmp_path / name, execution)}
        for name, execution in (("one", Execution()), ("two", Execution(2)))
    )
    assert one == two
    labels, other = (read_labels([tmp_path / name]) for name in ("one", "two"))
    assert labels.costs.shape == (len(labels), 33)
    assert np.array_equal(labels.costs, other.costs, equal_nan=True)
    assert len(labels.features) == labels.observations.shape[1] == 628
    for environment in ("mlgo/RegAllocPriority-v0", "mlgo/Joint-v0"):
        with pytest.raises(MlgoError, match=f"expected inlining, or evictions of whole modules .* got {environment}"):
            list(Labelling(varied, environment=environment).run(tmp_path))


def test_modules_are_drawn_by_the_seed_with_limits(varied: str, toolchain: Toolchain) -> None:
    corpus = open_corpus(varied, toolchain=toolchain)
    everything = drawn_modules(corpus, 3)
    assert sorted(everything) == sorted(corpus.names)
    assert everything != drawn_modules(corpus, 4)
    assert drawn_modules(corpus, 3, limit=2) == everything[:2]
    largest = min(map(corpus.size, corpus.names))
    assert {corpus.size(name) for name in drawn_modules(corpus, 3, largest)} == {largest}
