"""Traces: training logs that other readers accept, and their reproduction."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import EvaluationResult, load_result
from mlgo_gym.evaluation.record import EpisodeRecord
from mlgo_gym.integrations.logs import log_names
from mlgo_gym.integrations.replay import replay, validate
from mlgo_gym.integrations.trace import trace
from mlgo_gym.integrations.trajectory import Trajectory
from mlgo_gym.llvm.training_log import read_log
from tests.conftest import MakeBitcode

POLICY = "threshold:0"


def episodes_of(result: EvaluationResult) -> list[EpisodeRecord]:
    """Return the episodes with decisions, and the failed ones."""
    return [episode for episode in result.episodes if episode.status != "no-decisions"]


@pytest.fixture
def traced(corpus: Path, tmp_path: Path) -> tuple[Path, list[EpisodeRecord]]:
    folder = tmp_path / "trace"
    return folder, episodes_of(trace("mlgo/Inline-v0", POLICY, corpus=str(corpus), output=folder))


def test_modules_with_a_decision_have_a_log_and_the_others_none(traced: tuple[Path, list[EpisodeRecord]]) -> None:
    folder, episodes = traced
    assert [episode.module for episode in episodes] == ["calls", "more/calls"]
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.log")) == [
        "logs/calls.log",
        "logs/more/calls.log",
    ]
    header = (folder / "logs/calls.log").read_bytes().partition(b"\n")[0].decode()
    assert header == json.dumps(json.loads(header), separators=(",", ":"))
    assert '"inlining_decision","type":"int64_t","port":0,"shape":[1]}],"score":{"name":"reward",' in header
    result = load_result(folder)
    assert episodes_of(result) == episodes
    assert result.without_decisions == ["leaf"]
    assert (result.configuration.environment, result.policies) == ("mlgo/Inline-v0", (POLICY,))


def test_with_credit_each_decision_has_its_outcome_and_its_context(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    found: list[Trajectory] = []
    result = trace(
        "mlgo/Inline-v0",
        "random",
        corpus=str(make_bitcode("families.c")),
        output=tmp_path / "trace",
        env_kwargs={"credit": True},
        progress=found.append,
    )
    (trajectory,) = found
    (episode,) = result.episodes
    assert trajectory.rewards is not None
    with (tmp_path / "trace" / "logs" / f"{episode.module}.log").open("rb") as stream:
        records = list(read_log(stream)[1])
    outcomes = [float(record.outcome[0]) for record in records if record.outcome is not None]
    assert outcomes == pytest.approx(list(trajectory.rewards), rel=1e-6)
    assert sum(trajectory.rewards) == pytest.approx(episode.reward)
    assert sum(outcome != 0 for outcome in outcomes) > 1
    assert [record.context for record in records] == [step.decision.context for step in trajectory.steps]
    assert len({record.context for record in records}) > 3
    assert [verdict.problem for verdict in replay(tmp_path / "trace")] == [""]


def test_a_trace_is_reproduced(traced: tuple[Path, list[EpisodeRecord]]) -> None:
    verdicts = replay(traced[0])
    assert [(verdict.module, verdict.problem) for verdict in verdicts] == [("calls", ""), ("more/calls", "")]


def test_a_wrong_size_is_a_problem(traced: tuple[Path, list[EpisodeRecord]]) -> None:
    folder, _ = traced
    lines = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    next(line for line in lines if line["module"] == "more/calls")["metrics"]["text"][0] += 1
    (folder / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    first, second = replay(folder)
    assert not first.problem
    assert "text was" in second.problem


def test_a_changed_decision_is_a_problem(traced: tuple[Path, list[EpisodeRecord]]) -> None:
    folder, (episode, _) = traced
    path = folder / "logs/calls.log"
    data = path.read_bytes()
    # The decision is the last of the features.
    end = data.index(b'\n{"outcome":0}')
    path.write_bytes(data[: end - 8] + struct.pack("<q", 1 - data[end - 8]) + data[end:])
    assert replay(folder)[0].problem
    assert episode.module == replay(folder)[0].module


def test_a_log_that_is_cut_off_is_an_error(traced: tuple[Path, list[EpisodeRecord]]) -> None:
    folder, _ = traced
    path = folder / "logs/calls.log"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(MlgoError, match="expected a training log"):
        replay(folder)


@pytest.fixture
def half_broken(calls: Path, broken: Path, tmp_path: Path) -> str:
    """A folder with a module that clang compiles and one that it cannot read."""
    folder = tmp_path / "half_broken"
    folder.mkdir()
    folder.joinpath("calls.bc").write_bytes(calls.read_bytes())
    folder.joinpath("broken.bc").write_bytes(broken.read_bytes())
    return str(folder)


def test_a_failed_compile_is_recorded_and_reproduced(half_broken: str, tmp_path: Path) -> None:
    result = trace("mlgo/Inline-v0", POLICY, corpus=half_broken, output=tmp_path / "t")
    failed, done = sorted(result.episodes, key=lambda episode: episode.module)
    assert (failed.module, failed.decisions) == ("broken", 0)
    assert not (tmp_path / "t" / "logs" / "broken.log").exists()
    assert failed.error is not None
    assert "Invalid encoding" in failed.error["stderr"]
    assert (done.module, done.error) == ("calls", None)
    assert [verdict.problem for verdict in replay(tmp_path / "t")] == ["", ""]


def test_a_failure_that_is_not_reproduced_is_a_problem(half_broken: str, calls: Path, tmp_path: Path) -> None:
    trace("mlgo/Inline-v0", POLICY, corpus=half_broken, output=tmp_path / "t")
    Path(half_broken, "broken.bc").write_bytes(calls.read_bytes())
    problems = {verdict.module: verdict.problem for verdict in replay(tmp_path / "t")}
    assert "expected 0 decisions, got more" in problems["broken"]


@pytest.mark.parametrize(
    ("environment", "policy", "budget"),
    [("mlgo/RegAllocPriority-v0", "random", None), ("mlgo/Joint-v0", "random", None), ("mlgo/Inline-v0", POLICY, 3)],
)
def test_every_task_and_a_budget_are_reproduced(
    environment: str, policy: str, budget: int | None, corpus: Path, tmp_path: Path
) -> None:
    arguments = {"max_decisions": budget}
    result = trace(environment, policy, corpus=str(corpus), output=tmp_path / "t", limit=2, env_kwargs=arguments)
    assert sum(episode.decisions for episode in result.episodes) > 0
    assert any(episode.handed_over for episode in result.episodes) == bool(budget)
    assert not any(verdict.problem for verdict in replay(tmp_path / "t"))
    assert not any(verdict.problem for verdict in validate(tmp_path / "t", corpus=str(corpus)))


def test_an_interrupted_trace_is_resumed(corpus: Path, tmp_path: Path) -> None:
    def interrupt(_: Trajectory) -> None:
        raise KeyboardInterrupt

    arguments: dict[str, Any] = {"corpus": str(corpus), "output": tmp_path / "t"}
    with pytest.raises(KeyboardInterrupt):
        trace("mlgo/Inline-v0", POLICY, progress=interrupt, **arguments)
    seen: list[Trajectory] = []
    result = trace("mlgo/Inline-v0", POLICY, progress=seen.append, **arguments)
    assert (len(seen), len(result.episodes)) == (2, 3)
    assert not any(verdict.problem for verdict in replay(tmp_path / "t"))


def test_a_folder_with_something_in_it_is_refused(corpus: Path) -> None:
    with pytest.raises(MlgoError, match="expected an empty folder"):
        trace("mlgo/Inline-v0", "default", corpus=str(corpus), output=corpus)


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "a/../../b"])
def test_names_that_lead_out_of_the_folder_are_refused(name: str, calls: Path) -> None:
    with pytest.raises(MlgoError, match="without a leading slash"):
        log_names(name, InlineEnv(corpus=str(calls)).task)
