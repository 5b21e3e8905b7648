"""Searches of a corpus, in several processes and resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.scheduling import Execution
from mlgo_gym.search import CorpusSearch, SearchResult


def test_an_interrupted_search_resumes(corpus: Path, tmp_path: Path) -> None:
    search = CorpusSearch("mlgo/Inline-v0", {"corpus": str(corpus)}, "greedy", compiles=3)
    output = tmp_path / "found.jsonl"
    full = list(search.run(output))
    assert full
    assert all(result.verified for result in full)
    lines = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    again = list(search.run(output, execution=Execution(2)))
    assert sorted(result.module for result in again) == sorted(result.module for result in full)
    assert [SearchResult.from_json(json.loads(line)).module for line in output.read_bytes().splitlines()[1:]]


def test_results_of_another_search_are_not_mixed(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "found.jsonl"
    list(CorpusSearch("mlgo/Inline-v0", {"corpus": str(corpus)}, "greedy", compiles=3).run(output))
    with pytest.raises(MlgoError, match="choose another output"):
        list(CorpusSearch("mlgo/Inline-v0", {"corpus": str(corpus)}, "beam", compiles=3).run(output))


def test_a_start_policy_with_callee_features_switches_them_on(varied: str) -> None:
    arguments = {"corpus": varied}
    names = ("many_calls",)
    (found,) = CorpusSearch("mlgo/Inline-v0", arguments, "bundles", 2, names=names, start="inline-oz").run()
    assert found.error is None
    assert found.verified


def test_an_unknown_module_is_an_error(corpus: Path) -> None:
    search = CorpusSearch("mlgo/Inline-v0", {"corpus": str(corpus)}, "greedy", names=("no_such",))
    with pytest.raises(CorpusError, match="has no module 'no_such'"):
        search.modules()
