"""Results on disk."""

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.result import ResultFolder, read_configuration, read_episodes
from tests.evaluation.runs import CONFIGURATION, record


def test_results_are_read_back_without_an_unfinished_line(tmp_path: Path) -> None:
    failed = record("default", "a", status="failed", error={"kind": "exit"})
    first, second = record("default", "b"), record("default", "a")
    output = tmp_path / "new" / "folder"
    with closing(ResultFolder(output, CONFIGURATION)) as folder:
        folder.append(failed)
        folder.append(first)
        assert read_episodes(output) == [failed, first]
        folder.append(second)
    assert sorted(read_episodes(output), key=lambda episode: episode.module) == [second, first], "the last one counts"
    assert read_configuration(output) == CONFIGURATION
    path = output / "episodes.jsonl"
    for cut in (1, 60):
        path.write_bytes(path.read_bytes()[:-cut])
        assert sorted(read_episodes(output), key=lambda episode: episode.module) == [failed, first]
        with closing(ResultFolder(output, CONFIGURATION)) as folder:
            folder.append(second)
        assert read_episodes(output)[-1] in (first, second)
        assert len(read_episodes(output)) == 2


def test_temporary_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    left, written = (tmp_path / f".meta.json.{pid}.{'0a' * 8}" for pid in (2**22 + 1, os.getpid()))
    for path in (left, written, tmp_path / ".hidden"):
        path.touch()
    ResultFolder(tmp_path, CONFIGURATION).close()
    assert not left.exists()
    assert {written.name, ".hidden", "meta.json", "episodes.jsonl"} == {path.name for path in tmp_path.iterdir()}


def test_one_process_at_a_time_adds_policies_of_one_configuration(tmp_path: Path) -> None:
    with closing(ResultFolder(tmp_path, CONFIGURATION)), pytest.raises(MlgoError, match="another process writes"):
        ResultFolder(tmp_path, CONFIGURATION)
    # The location of the corpus does not matter.
    later = replace(CONFIGURATION, policies={"mine.py:P": "1234"}, corpus="elsewhere")
    with closing(ResultFolder(tmp_path, later)) as folder:
        assert folder.configuration.policies == {"default": "default", "mine.py:P": "1234"}
    assert read_configuration(tmp_path).policies == {"default": "default", "mine.py:P": "1234"}
    for name in ("environment", "split", "clang", "mlgo_gym", "seed", "counter", "modules_digest", "contents"):
        change: dict[str, Any] = {name: "other"}
        with pytest.raises(MlgoError, match=f"{name.partition('_digest')[0]}: recorded"):
            ResultFolder(tmp_path, replace(CONFIGURATION, **change))
    with pytest.raises(MlgoError, match=r"policy mine\.py:P: recorded 1234, requested 5678"):
        ResultFolder(tmp_path, replace(CONFIGURATION, policies={"mine.py:P": "5678"}))


def test_headers_and_lines_of_another_form_are_refused_and_kept(tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match=r"got no meta\.json"):
        read_configuration(tmp_path)
    (tmp_path / "episodes.jsonl").write_text("precious\n")
    with pytest.raises(MlgoError, match=r"no meta\.json"):
        ResultFolder(tmp_path, CONFIGURATION)
    assert [path.name for path in tmp_path.iterdir()] == ["episodes.jsonl"]
    assert (tmp_path / "episodes.jsonl").read_text() == "precious\n"
    for content in ("", "{}", '{"format": 0}', '{"format": 1, "colour": 2}', "[]"):
        (tmp_path / "meta.json").write_text(content)
        with pytest.raises(MlgoError, match="choose another output"):
            read_configuration(tmp_path)
    for line in ("", "{}", "[1]", '{"policy": "x"', '{"metrics": {"a": 3}}'):
        (tmp_path / "episodes.jsonl").write_text(f"{line}\n")
        with pytest.raises(MlgoError, match=r"episodes\.jsonl, line 1: expected (a result|JSON)"):
            read_episodes(tmp_path)
