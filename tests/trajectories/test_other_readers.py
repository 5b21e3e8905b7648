"""A reader that follows the documented format alone reads traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.evaluation.episode_record import Assignment
from mlgo_gym.llvm.advisors import EVICTION, INLINING, PRIORITY
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.trajectories import trace
from mlgo_gym.trajectories.logs import log_names
from mlgo_gym.trajectories.trajectory import record_trajectory
from tests.trajectories.log_reader import read_rows

SHORT = {"max_decisions": 60}

DECISION = {INLINING.name: "inlining_decision", EVICTION.name: "index_to_evict", PRIORITY.name: "priority"}
"""The name of the advice, which is the last feature of a log."""


@pytest.mark.parametrize(
    "environment", ["mlgo/Inline-v0", "mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0", "mlgo/Joint-v0"]
)
def test_every_decision_is_there_with_its_answer_and_its_share_of_the_reward(
    environment: str, varied: str, tmp_path: Path
) -> None:
    result = trace(environment, "random", corpus=varied, output=tmp_path / "t", seed=5, env_kwargs=SHORT)
    env = make_environment(environment, {"corpus": varied, **SHORT})
    contexts = set()
    for episode in result.episodes:
        if episode.status == "no-decisions":
            continue
        assignment = Assignment(episode.policy, episode.module, episode.project)
        trajectory = record_trajectory(env, load_policy("random", env, seed=5), assignment)
        logs = log_names(episode.module, env.task)
        for number, (advisor, log) in enumerate(zip(env.task.advisors, logs, strict=True)):
            with (tmp_path / "t" / log).open("rb") as stream:
                rows = list(read_rows(stream))
                assert stream.read() == b""
            steps = [step for step in trajectory.steps if step.decision.advisor == number]
            assert len(rows) == len(steps)
            for row, step in zip(rows, steps, strict=True):
                assert list(row.features)[-1] == DECISION[advisor.name]
                assert (row.context, row.number) == (step.decision.context, step.decision.site.index)
                tensors = np.frombuffer(step.decision.payload, env.task.headers[number].dtype)[0]
                for name in tensors.dtype.names or ():
                    np.testing.assert_array_equal(row.features[name], tensors[name].reshape(-1))
                advice = np.frombuffer(step.advice, env.task.headers[number].advice.dtype)  # type: ignore[union-attr]
                np.testing.assert_array_equal(row.features[DECISION[advisor.name]], advice)
            scores = [row.score[0] for row in rows]
            assert not any(scores[:-1])
            if scores:
                assert scores[-1] == pytest.approx(episode.reward, rel=1e-6)
            contexts |= {row.context for row in rows}
    env.close()
    assert len(contexts) > 1 or environment == "mlgo/Inline-v0"
