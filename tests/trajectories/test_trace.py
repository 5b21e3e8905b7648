"""Traces: training logs that others read, and that come out again."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.errors import ActionError, CompilerError, MlgoError
from mlgo_gym.llvm.log_reader import read_log
from mlgo_gym.trajectories import replay, trace
from mlgo_gym.trajectories.trace_folder import TracedEpisode, log_name, read_trace
from mlgo_gym.trajectories.trajectory import Trajectory
from tests.conftest import MakeBitcode

POLICY = "threshold:0"


@pytest.fixture
def traced(corpus: Path, tmp_path: Path) -> tuple[Path, list[TracedEpisode]]:
    folder = tmp_path / "trace"
    return folder, trace("mlgo/Inline-v0", POLICY, corpus=str(corpus), output=folder)


def test_modules_with_a_decision_have_a_log_and_the_others_none(traced: tuple[Path, list[TracedEpisode]]) -> None:
    folder, episodes = traced
    assert [episode.module for episode in episodes] == ["calls", "more/calls"]
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.log")) == [
        "logs/calls.log",
        "logs/more/calls.log",
    ]
    meta, again = read_trace(folder)
    assert again == episodes
    assert (meta.environment, meta.policy) == ("mlgo/Inline-v0", POLICY)


def test_a_log_is_llvms_format_byte_for_byte(traced: tuple[Path, list[TracedEpisode]]) -> None:
    folder, (episode, _) = traced
    data = (folder / "logs/calls.log").read_bytes()
    header, _, rest = data.partition(b"\n")
    value = json.loads(header)
    assert header == json.dumps(value, separators=(",", ":")).encode()
    assert list(value) == ["features", "score"]
    assert [list(spec) for spec in value["features"]] == [["name", "type", "port", "shape"]] * 40
    assert [spec["name"] for spec in value["features"][-2:]] == ["inlining_default", "inlining_decision"]
    assert value["score"] == {"name": "reward", "type": "float", "port": 0, "shape": [1]}
    size = 8 * 40
    expected = b'{"context":""}\n'
    position = len(expected)
    rewards = []
    for number in range(episode.decisions):
        line = b'{"observation":%d}\n' % number
        position += len(line)
        payload = rest[position : position + size]
        position += size + 1
        outcome = b'{"outcome":%d}\n' % number
        position += len(outcome)
        score = rest[position : position + 4]
        position += 5
        expected += line + payload + b"\n" + outcome + score + b"\n"
        rewards.append(struct.unpack("<f", score)[0])
        assert struct.unpack("<q", payload[-8:])[0] in (0, 1)
    assert rest == expected
    assert rewards[:-1] == [0] * (episode.decisions - 1)
    assert rewards[-1] == pytest.approx(episode.reward, rel=1e-6)


def test_with_credit_each_decision_has_its_outcome_and_its_place(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    found: list[Trajectory | None] = []
    episodes = trace(
        "mlgo/Inline-v0",
        "random",
        corpus=str(make_bitcode("families.c")),
        output=tmp_path / "trace",
        env_kwargs={"credit": True},
        progress=found.append,
    )
    (trajectory,) = found
    assert trajectory is not None
    assert trajectory.rewards is not None
    with (tmp_path / "trace" / episodes[0].logs[0]).open("rb") as stream:
        records = list(read_log(stream)[1])
    outcomes = [float(record.outcome[0]) for record in records if record.outcome is not None]
    assert outcomes == pytest.approx(list(trajectory.rewards), rel=1e-6)
    assert sum(trajectory.rewards) == pytest.approx(episodes[0].reward)
    assert sum(outcome != 0 for outcome in outcomes) > 1
    assert [record.context for record in records] == [step.decision.context for step in trajectory.steps]
    assert len({record.context for record in records}) > 3
    assert [verdict.problem for verdict in replay(tmp_path / "trace")] == [""]


def test_our_reader_reads_it_and_the_decision_is_what_the_policy_says(
    traced: tuple[Path, list[TracedEpisode]],
) -> None:
    folder, (episode, _) = traced
    with (folder / "logs/calls.log").open("rb") as stream:
        _, records = read_log(stream)
        rows = list(records)
    assert len(rows) == episode.decisions
    for row in rows:
        features: Any = row.features
        assert features["inlining_decision"].item() == int(features["cost_estimate"].item() < 0)
        assert row.outcome is not None


def test_a_trace_comes_out_again(traced: tuple[Path, list[TracedEpisode]]) -> None:
    verdicts = replay(traced[0])
    assert [(verdict.module, verdict.problem) for verdict in verdicts] == [("calls", ""), ("more/calls", "")]


def test_a_wrong_size_is_seen(traced: tuple[Path, list[TracedEpisode]]) -> None:
    folder, _ = traced
    lines = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    lines[1]["measures"]["text_size"][0] += 1
    (folder / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    first, second = replay(folder)
    assert not first.problem
    assert "text_size was" in second.problem


def test_a_changed_decision_is_seen(traced: tuple[Path, list[TracedEpisode]]) -> None:
    folder, (episode, _) = traced
    path = folder / "logs/calls.log"
    data = path.read_bytes()
    # The decision is the last of the features.
    end = data.index(b'\n{"outcome":0}')
    path.write_bytes(data[: end - 8] + struct.pack("<q", 1 - data[end - 8]) + data[end:])
    assert replay(folder)[0].problem
    assert episode.module == replay(folder)[0].module


def test_a_log_that_is_cut_off_is_an_error(traced: tuple[Path, list[TracedEpisode]]) -> None:
    folder, _ = traced
    path = folder / "logs/calls.log"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(MlgoError, match="cannot be read"):
        replay(folder)


def test_another_clang_is_refused(traced: tuple[Path, list[TracedEpisode]]) -> None:
    folder, _ = traced
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"clang": "1.2.3"}))
    with pytest.raises(MlgoError, match=r"made by clang 1\.2\.3"):
        replay(folder)


def test_decisions_handed_over_are_made_again(corpus: Path, tmp_path: Path) -> None:
    episodes = trace(
        "mlgo/Inline-v0", POLICY, corpus=str(corpus), output=tmp_path / "t", env_kwargs={"max_decisions": 3}
    )
    assert [episode.decisions for episode in episodes] == [3, 3]
    assert all(episode.handed_over for episode in episodes)
    assert not any(verdict.problem for verdict in replay(tmp_path / "t"))


@pytest.fixture
def half_broken(calls: Path, broken: Path, tmp_path: Path) -> str:
    """A folder with a module that clang compiles and one that it cannot read."""
    folder = tmp_path / "half_broken"
    folder.mkdir()
    folder.joinpath("calls.bc").write_bytes(calls.read_bytes())
    folder.joinpath("broken.bc").write_bytes(broken.read_bytes())
    return str(folder)


def test_a_compile_that_fails_is_told_and_fails_again(half_broken: str, tmp_path: Path) -> None:
    failed, done = trace("mlgo/Inline-v0", POLICY, corpus=half_broken, output=tmp_path / "t")
    assert (failed.module, failed.decisions, failed.logs) == ("broken", 0, ())
    assert failed.error is not None
    assert "Invalid encoding" in failed.error["stderr"]
    assert (done.module, done.error) == ("calls", None)
    assert [verdict.problem for verdict in replay(tmp_path / "t")] == ["", ""]


def test_a_failure_that_does_not_come_again_is_seen(half_broken: str, calls: Path, tmp_path: Path) -> None:
    trace("mlgo/Inline-v0", POLICY, corpus=half_broken, output=tmp_path / "t")
    Path(half_broken, "broken.bc").write_bytes(calls.read_bytes())
    assert "more than the 0 questions" in replay(tmp_path / "t")[0].problem


def test_where_failures_are_to_raise_a_trace_raises(half_broken: str, tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="Invalid encoding"):
        trace("mlgo/Inline-v0", POLICY, corpus=half_broken, output=tmp_path / "t", env_kwargs={"on_error": "raise"})


def test_an_illegal_action_is_replaced_or_refused_as_the_environment_has_it(calls: Path, tmp_path: Path) -> None:
    code = tmp_path / "wrong.py"
    code.write_text("class Wrong:\n    def act(self, observation, info):\n        return 7\n")
    arguments: dict[str, Any] = {"policy": f"{code}:Wrong", "corpus": str(calls)}
    (replaced,) = trace("mlgo/Inline-v0", output=tmp_path / "lenient", **arguments)
    (default,) = trace("mlgo/Inline-v0", "default", corpus=str(calls), output=tmp_path / "default")
    assert replaced.measures == default.measures
    with pytest.raises(ActionError, match="action 7 is not legal at this decision"):
        trace("mlgo/Inline-v0", output=tmp_path / "strict", env_kwargs={"strict": True}, **arguments)


@pytest.mark.parametrize("environment", ["mlgo/RegAllocPriority-v0", "mlgo/Joint-v0"])
def test_every_task_comes_out_again(environment: str, corpus: Path, tmp_path: Path) -> None:
    episodes = trace(environment, "random", corpus=str(corpus), output=tmp_path / "t", limit=2)
    assert episodes
    assert sum(episode.decisions for episode in episodes) > 0
    assert not any(verdict.problem for verdict in replay(tmp_path / "t"))
    names = {"mlgo/Joint-v0": ["inlining", "eviction", "priority"]}.get(environment)
    expected = [f"logs/{episodes[0].module}{'.' + name if name else ''}.log" for name in names or [""]]
    assert list(episodes[0].logs) == expected


def test_decisions_of_a_policy_that_sees_calls_come_out_again(corpus: Path, tmp_path: Path) -> None:
    assert trace("mlgo/Inline-v0", "inline-oz-calls", corpus=str(corpus), output=tmp_path / "t")
    assert not any(verdict.problem for verdict in replay(tmp_path / "t"))


def test_a_folder_with_something_in_it_is_refused(corpus: Path) -> None:
    with pytest.raises(MlgoError, match="empty folder"):
        trace("mlgo/Inline-v0", "default", corpus=str(corpus), output=corpus)


def test_a_folder_without_a_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match="holds no trace"):
        replay(tmp_path)


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "a/../../b"])
def test_names_that_lead_out_of_the_folder_are_refused(name: str) -> None:
    with pytest.raises(MlgoError, match="stays in the trace's folder"):
        log_name(name)
