"""Labels: files, draws, and exact labels by flips of single decisions."""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from mlgo_gym import MlgoError, load_policy, open_corpus
from mlgo_gym.corpus.training_digests import sidecar_digests, write_sidecar_digests
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.protocol import run_episode
from mlgo_gym.training import Labelling, graph_labels
from mlgo_gym.training.flip_labels import GRAPH_FUNCTIONS, label_by_flips
from mlgo_gym.training.graph_labels import labels_digest, read_graphs
from mlgo_gym.training.labels import LabelStore, ModuleLabels, label_tables, read_header, read_labels
from mlgo_gym.training.pipeline import REFERENCES, drawn_modules
from tests.cli.command import run
from tests.conftest import MakeBitcode, copy_modules, failing_clang
from tests.training.label_samples import inlining_labels

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

COLUMN_TYPES = {
    "int8": "answer",
    "int32": "decisions visit position callee_calls callee_references",
    "int64": "bytes text cost_estimate node_count",
    "float": "module_share",
    "string": "context callee module project digest",
}
"""Types of columns in a file of labels of inlining."""

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
            store.add_labels(module, ("p", module), "d" * 64, ModuleLabels(columns(**changes), {"decisions": 6}))
    return folder


def test_labels_are_read_back(tmp_path: Path) -> None:
    labels = read_labels([write(tmp_path / "one", HEADER, "m", "n")])
    assert labels.features == ("cost", "histogram[0]", "histogram[1]")
    assert labels.observations[:2].tolist() == [[3, 1, 2], [4, 3, 4]]
    assert labels.answers.tolist() == [0, 1, 0, 1]
    assert labels.bytes.tolist() == [-8, 16, -8, 16]
    assert labels.share.tolist() == [3, 3, 3, 3]
    assert labels.groups.tolist() == [0, 0, 1, 1]
    assert (labels.modules.tolist(), labels.trained_on) == (["p/m", "p/m", "p/n", "p/n"], {"d" * 64: "p/m"})
    with closing(LabelStore(tmp_path / "unnamed", HEADER)) as store:
        store.add_labels("m", ("p", "m"), "", ModuleLabels(columns(), {"decisions": 2}))
    assert read_labels([tmp_path / "unnamed"]).trained_on is None
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
    assert set(one.modules.tolist()) == set(other.modules.tolist()) == {"p/m", "p/n"}
    assert len(set(other.groups.tolist())) == 2
    parquet.write_table(table.drop_columns(["digest"]), file)
    assert set(read_labels([file]).digests.tolist()) == {""}
    parquet.write_table(table.drop_columns(["bytes"]), file)
    with pytest.raises(MlgoError, match="expected a Parquet file of labels"):
        read_labels([file])


def test_labels_of_other_kinds_are_not_mixed(tmp_path: Path) -> None:
    first, second = write(tmp_path / "first"), write(tmp_path / "second", {**HEADER, "clang": "21"})
    with closing(LabelStore(first, HEADER)) as store:
        store.add_labels("empty", ("p", "empty"), "e", ModuleLabels({}, {"decisions": 0}))
        store.add_labels("broken", ("p", "broken"), "e", "clang failed")
        assert store.done["broken"]["error"] == "clang failed"
    assert set(read_labels([first]).modules.tolist()) == {"p/m"}
    assert len(list(first.glob("parts/*"))) == 1
    with pytest.raises(MlgoError, match="clang"):
        LabelStore(first, {**HEADER, "clang": "21"})
    assert read_header(first)["clang"] == "22"
    with pytest.raises(MlgoError, match=r"expected labels of one clang, got '22' in .*first and '21'"):
        read_labels([first, second])
    frames = write(tmp_path / "frames", {**HEADER, "arguments": {"metric": "loaded"}})
    with pytest.raises(MlgoError, match=r"expected labels of one metric, got None in .*first and 'loaded' in .*frames"):
        read_labels([first, frames])
    for header in (b"{", b"[]", b'{"format": 2}', None):
        (first / "labels.json").unlink() if header is None else (first / "labels.json").write_bytes(header)
        with pytest.raises(MlgoError, match=r"expected a folder of labels, got .*; make one with `mlgo-gym label`"):
            LabelStore(first, HEADER)
    third = write(tmp_path / "third", users=np.array([0, 0]))
    fourth = write(tmp_path / "fourth")
    for folders, difference in (([fourth, third], "additional"), ([third, fourth], "missing")):
        with pytest.raises(MlgoError, match=rf"expected labels of the same features, got .* with {difference} users;"):
            read_labels(folders)


def test_weights_follow_bytes_and_size() -> None:
    labels = replace(inlining_labels(3), bytes=np.array([10.0, 20, 10]), text=np.array([100, 100, 400]))
    weights = labels.weights
    assert weights[1:] == pytest.approx([weights[0] * 2**0.8, weights[0] / 2])


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if "seconds" not in name}


def test_labels_have_a_line_per_module_and_are_written_once(varied: str, tmp_path: Path) -> None:
    labelling, folder = Labelling(varied, compiles=4, arguments={"callee_features": True}), tmp_path
    assert len(list(labelling.run(folder))) == 5
    labels = read_labels([folder])
    ((_, table), *_) = label_tables([folder])
    text = folder.joinpath("modules.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(labels) == sum(line["labels"] for line in lines) > 0
    assert labels.observations.shape == (len(labels), len(labels.features)) == (len(labels), 62)
    assert len(list(labelling.run(folder))) == 5
    assert folder.joinpath("modules.jsonl").read_text() == text, "finished modules are not labelled again"
    assert read_header(folder)["policies"] == {"policy": "default"}
    for kind, names in COLUMN_TYPES.items():
        assert {str(table.schema.field(name).type) for name in names.split()} == {kind}


def test_a_frozen_set_has_the_graph_of_each_label(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, folder = tmp_path / "plain", tmp_path / "graphs"
    list(Labelling(str(calls), compiles=6).run(plain))
    labelling = Labelling(str(calls), compiles=6, arguments={"ir": True})
    list(labelling.run(folder))
    labels, graphs = read_labels([folder]), read_graphs([folder])
    assert labels.bytes.tolist() == read_labels([plain]).bytes.tolist()
    ((_, table),) = label_tables([folder])
    columns = (table.column(name).to_pylist() for name in ("context", "visit", "position"))
    remaining = dict(zip(zip(*columns, strict=True), graphs, strict=True))
    assert len(remaining) == len(labels) > 5
    with closing(make_environment("mlgo/Inline-v0", {"corpus": str(calls), "ir": True})) as env:
        _, info = env.reset()
        done = False
        while not done:
            if (graph := remaining.pop(tuple(info["site"]), None)) is not None:
                shown = env.call_graph(GRAPH_FUNCTIONS)
                for part in ("nodes", "edges", "edge_links"):
                    assert getattr(graph, part).tolist() == getattr(shown, part).tolist()
            *_, done, _, info = env.step(info["default_action"])
    assert not remaining
    with pytest.raises(MlgoError, match=r"expected labels with call graphs, got .* use `mlgo-gym label --graphs`"):
        read_graphs([plain])
    digest, name = labels_digest([folder]), "mlgo/test-v0"
    other: object
    for part in ("observations", "answers", "bytes", "modules", "digests", "nodes", "edges", "edge_links"):
        of_graphs = hasattr(graphs[0], part)
        value = getattr(graphs[0] if of_graphs else labels, part)
        changed = {part: value + ("x" if value.dtype == object else 1)}
        other = [replace(graphs[0], **changed), *graphs[1:]] if of_graphs else replace(labels, **changed)
        with monkeypatch.context() as patch:
            patch.setattr(graph_labels, "read_graphs" if of_graphs else "read_labels", lambda _, other=other: other)
            assert labels_digest([folder]) != digest, part
    monkeypatch.setitem(cast("dict[str, Any]", REFERENCES), name, (labelling, digest))
    command = ("label", name, "--output", tmp_path / "again")
    assert run(*command).exit_code == 0
    with pytest.raises(MlgoError, match=f"expected no options of labels beside {name}, got some"):
        run(*command, "--seed", 1)
    monkeypatch.setitem(cast("dict[str, Any]", REFERENCES), name, (labelling, digest[::-1]))
    with pytest.raises(
        MlgoError, match=f"expected the labels of {name}, {digest[::-1]}, got {digest}; use the bundled"
    ):
        run(*command)


def test_names_that_are_no_utf8_or_have_two_lines_are_labelled(calls: Path, tmp_path: Path) -> None:
    names = ["bytes \udcff", "two\nlines", "zero \x01"]
    folder = copy_modules(tmp_path / "corpus", dict.fromkeys(names, calls))
    labelling = Labelling(str(folder), compiles=2)
    lines = {line["module"]: line for line in labelling.run(tmp_path / "labels")}
    assert sorted(lines) == names
    assert all(line["labels"] for line in lines.values())
    labels = read_labels([tmp_path / "labels"])
    assert len(set(labels.modules.tolist())) == 3
    digests = labels.trained_on
    assert digests is not None
    write_sidecar_digests(tmp_path / "policy", {**digests, "0" * 64: "two\nlines", "1" * 64: "bytes \udcff"})
    assert sorted(sidecar_digests(tmp_path / "policy")) == sorted({*digests, "0" * 64, "1" * 64})
    assert list(labelling.run(tmp_path / "labels")) == [lines[name] for name in labelling.modules(open_corpus(folder))]


def test_limits_of_a_labelling_arrive(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    limits: dict[str, Any]
    for limits, compiles in (({"compiles": 3}, 3), ({"compiles": 9, "seconds": 1e-9}, 2)):
        (line,) = Labelling(str(make_bitcode("calls.c")), **limits).run(tmp_path / str(len(list(tmp_path.iterdir()))))
        assert line["compiles"] == compiles, limits


def test_modules_are_drawn_by_the_seed_with_limits(varied: str, toolchain: Toolchain) -> None:
    corpus = open_corpus(varied, toolchain=toolchain)
    everything = drawn_modules(corpus, 3)
    assert sorted(everything) == sorted(corpus.names)
    assert everything != drawn_modules(corpus, 4)
    assert drawn_modules(corpus, 3, limit=2) == everything[:2]
    largest = min(map(corpus.size, corpus.names))
    assert {corpus.size(name) for name in drawn_modules(corpus, 3, largest)} == {largest}


def test_labels_by_flips_equal_single_flips(varied: str) -> None:
    env = make_environment("mlgo/Inline-v0", {"corpus": varied, "ir": True})
    columns, counts = label_by_flips(env, load_policy("default", env), "mixed", compiles=6)
    assert counts["decisions"] == sum(env.decisions(env.corpus.module("mixed")).values())
    flipped: tuple[Any, ...] = ()

    def choose(_: Any, info: Mapping[str, Any]) -> int:
        return int(info["default_action"]) ^ (tuple(info["site"]) == flipped)

    plain = run_episode(env, choose, options={"module": "mixed"})["text"]
    names = "context", "visit", "position", "answer", "bytes"
    for *site, answer, label in list(zip(*(list(columns[name]) for name in names), strict=True))[::3]:
        flipped = tuple(site)
        change = run_episode(env, choose, options={"module": "mixed"})["text"] - plain
        assert abs((-change if answer else change) - label) <= 16, site
    assert set(env.task.headers[0].dtype.names or ()) < set(columns)
    assert {len(values) for values in columns.values()} == {len(columns["bytes"])}
    assert set(label_by_flips(env, load_policy("never", env), "mixed", compiles=3).columns["answer"]) == {0}
    assert label_by_flips(env, load_policy("never", env), "leaf").columns == {}


def test_a_seed_decides_which_decisions_are_flipped(make_bitcode: MakeBitcode) -> None:
    # A change of the labelling changes its results: the changelog says so.
    env = make_environment("mlgo/Inline-v0", {"corpus": str(make_bitcode("families.c"))})
    found = label_by_flips(env, load_policy("default", env), "families", compiles=5, seed=3)
    assert " ".join(map(str, found.columns["bytes"])) == "-11 83 3 14 14 -5 31 14 -5 31 12 7 18 -13"
    counts = " ".join(f"{name}:{count}" for name, count in found.counts.items() if isinstance(count, int))
    assert counts == "text:744 decisions:30 compiles:5 flips:36 missed:12 ambiguous:10 unbalanced:0 failed:0"
    found = label_by_flips(env, load_policy("never", env), "families", compiles=3, seed=3)
    assert " ".join(map(str, found.columns["bytes"])) == "0 0 -9 25 3 36 -5 31 -5 31 10 6 17 0"


def test_a_failed_flip_is_counted_and_others_follow(make_bitcode: MakeBitcode, tmp_path: Path, own_cache: Path) -> None:
    clang = failing_clang(tmp_path, "3|5")
    env = make_environment("mlgo/Inline-v0", {"corpus": str(make_bitcode("calls.c")), "clang": clang})
    counts = label_by_flips(env, load_policy("default", env), env.corpus[0].name, compiles=5).counts
    assert (counts["failed"], counts["flips"] > 2) == (2, True), counts
