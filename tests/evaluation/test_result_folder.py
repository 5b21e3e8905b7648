"""Results on disk."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.result_folder import ResultFolder, read_configuration, read_episodes
from tests.evaluation.conftest import MakeResult


def test_what_is_appended_is_read_back(tmp_path: Path, configuration: Configuration, make_result: MakeResult) -> None:
    results = [make_result("default", "a"), make_result("default", "b", status="failed", error={"kind": "exit"})]
    with closing(ResultFolder(tmp_path / "new" / "folder", configuration)) as folder:
        for result in results:
            folder.append(result)
    assert read_episodes(tmp_path / "new" / "folder") == results
    assert read_configuration(tmp_path / "new" / "folder") == configuration


def test_the_last_result_of_a_policy_and_module_counts(
    tmp_path: Path, configuration: Configuration, make_result: MakeResult
) -> None:
    with closing(ResultFolder(tmp_path, configuration)) as folder:
        folder.append(make_result("default", "a", status="failed"))
        folder.append(make_result("default", "a"))
    [result] = read_episodes(tmp_path)
    assert result.status == "done"


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_an_unfinished_last_line_is_ignored_and_removed(
    tmp_path: Path, configuration: Configuration, make_result: MakeResult, cut: int
) -> None:
    with closing(ResultFolder(tmp_path, configuration)) as folder:
        folder.append(make_result("default", "a"))
        folder.append(make_result("default", "b"))
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert [each.module for each in read_episodes(tmp_path)] == ["a"]
    with closing(ResultFolder(tmp_path, configuration)) as folder:
        folder.append(make_result("default", "c"))
    assert [each.module for each in read_episodes(tmp_path)] == ["a", "c"]


@pytest.mark.parametrize("line", ["", "{}", "[1]", '{"policy": "x"', '{"metrics": {"a": 3}}'])
def test_a_damaged_line_names_itself(tmp_path: Path, line: str) -> None:
    (tmp_path / "episodes.jsonl").write_text(f"{line}\n")
    with pytest.raises(MlgoError, match=r"episodes\.jsonl, line 1: expected (a result|JSON)"):
        read_episodes(tmp_path)


def test_a_result_is_on_disk_when_append_returns(
    tmp_path: Path, configuration: Configuration, make_result: MakeResult
) -> None:
    program = f"""
import os, signal
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.episode_result import EpisodeResult
from mlgo_gym.evaluation.result_folder import ResultFolder
folder = ResultFolder(__import__("pathlib").Path({str(tmp_path)!r}), Configuration(**{_fields(configuration)!r}))
folder.append(EpisodeResult("default", "a", "p", "done"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert [each.module for each in read_episodes(tmp_path)] == ["a"]


def _fields(configuration: Configuration) -> dict[str, object]:
    fields = configuration.to_json()
    del fields["format"]
    return fields


def test_only_one_process_at_a_time_adds_results(tmp_path: Path, configuration: Configuration) -> None:
    with closing(ResultFolder(tmp_path, configuration)), pytest.raises(MlgoError, match="another process writes"):
        ResultFolder(tmp_path, configuration)
    ResultFolder(tmp_path, configuration).close()


def test_policies_are_added_to_existing_ones(tmp_path: Path, configuration: Configuration) -> None:
    ResultFolder(tmp_path, configuration).close()
    with closing(ResultFolder(tmp_path, replace(configuration, policies={"never": "never"}))) as folder:
        assert folder.configuration.policies == {"default": "default", "never": "never"}
    assert read_configuration(tmp_path).policies == {"default": "default", "never": "never"}


def test_a_policy_whose_file_has_changed_is_refused(tmp_path: Path, configuration: Configuration) -> None:
    ResultFolder(tmp_path, replace(configuration, policies={"mine.py:P": "1234"})).close()
    with pytest.raises(MlgoError, match=r"policy mine\.py:P: its file has changed"):
        ResultFolder(tmp_path, replace(configuration, policies={"mine.py:P": "5678"}))


def test_the_place_of_the_corpus_and_the_release_do_not_matter(tmp_path: Path, configuration: Configuration) -> None:
    ResultFolder(tmp_path, configuration).close()
    ResultFolder(tmp_path, replace(configuration, mlgo_gym="9.9", corpus="elsewhere")).close()


@pytest.mark.parametrize("content", ["", "{}", '{"format": 0}', '{"format": 1, "colour": 2}', "[]"])
def test_a_header_of_another_form_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "meta.json").write_text(content)
    with pytest.raises(MlgoError, match="choose another output"):
        read_configuration(tmp_path)


def test_a_folder_without_results_says_so(tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match=r"got no meta\.json"):
        read_configuration(tmp_path)


def test_results_without_a_header_are_kept(tmp_path: Path, configuration: Configuration) -> None:
    (tmp_path / "episodes.jsonl").write_text("precious\n")
    with pytest.raises(MlgoError, match=r"no meta\.json"):
        ResultFolder(tmp_path, configuration)
    assert (tmp_path / "episodes.jsonl").read_text() == "precious\n"
    assert [path.name for path in tmp_path.iterdir()] == ["episodes.jsonl"]
