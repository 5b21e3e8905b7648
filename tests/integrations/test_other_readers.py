"""A reader that knows nothing but the documented format, as readers of other projects do, reads traces.

The first line is JSON: the features' TensorSpecs, and `score` where outcomes follow observations. Then come lines of
JSON with one key each: `context`; `observation`, whose number restarts with each context, followed by the tensors back
to back and a newline; `outcome`, with the number of its observation, followed by the score and a newline.
"""

import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from mlgo_gym.evaluation.record import Assignment
from mlgo_gym.evaluation.runner import record_trajectory
from mlgo_gym.evaluation.trace import log_names, trace
from mlgo_gym.llvm.advisors import EVICTION, INLINING, PRIORITY
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy

SHORT = {"max_decisions": 60}

DECISION = {INLINING.name: "inlining_decision", EVICTION.name: "index_to_evict", PRIORITY.name: "priority"}
"""The name of the advice, which is the last feature of a log."""


FORMATS = {"int64_t": "<i8", "int32_t": "<i4", "float": "<f4", "double": "<f8", "int8_t": "i1"}


class Row(NamedTuple):
    """One decision: its context, its number in it, its features by name, and its score."""

    context: str
    number: int
    features: dict[str, npt.NDArray[Any]]
    score: float


def read_rows(stream: IO[bytes]) -> Iterator[Row]:
    def tensor(spec: dict[str, Any]) -> npt.NDArray[Any]:
        dtype = np.dtype(FORMATS[spec["type"]])
        return np.frombuffer(stream.read(prod(spec["shape"]) * dtype.itemsize), dtype)

    header = json.loads(stream.readline())
    context = None
    while line := stream.readline():
        event = json.loads(line)
        if "context" in event:
            context = event["context"]
            continue
        assert context is not None, "an observation before any context"
        features = {spec["name"]: tensor(spec) for spec in header["features"]}
        assert stream.read(1) == b"\n"
        assert json.loads(stream.readline()) == {"outcome": event["observation"]}
        yield Row(context, event["observation"], features, float(tensor(header["score"])[0]))
        assert stream.read(1) == b"\n"


@pytest.mark.parametrize(
    ("environment", "credit"),
    [
        ("mlgo/Inline-v0", {"credit": True}),
        *((f"mlgo/{task}-v0", {}) for task in ("Inline", "RegAllocEvict", "RegAllocPriority", "Joint")),
    ],
    ids=str,
)
def test_decisions_have_their_rewards(environment: str, credit: dict[str, Any], varied: str, tmp_path: Path) -> None:
    arguments = {**SHORT, **credit}
    result = trace(environment, "random", corpus=varied, output=tmp_path / "t", seed=5, env_kwargs=arguments)
    env = make_environment(environment, {"corpus": varied, **arguments})
    contexts, rewarded = set(), 0
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
                spec = env.task.headers[number].advice
                assert spec is not None
                advice = np.frombuffer(step.advice, spec.dtype)
                np.testing.assert_array_equal(row.features[DECISION[advisor.name]], advice)
            scores = [row.score for row in rows]
            if credit:
                assert scores == pytest.approx(list(trajectory.rewards or ()), rel=1e-6)
                rewarded = max(rewarded, sum(score != 0 for score in scores))
            elif scores:
                assert not any(scores[:-1])
                assert scores[-1] == pytest.approx(episode.reward, rel=1e-6)
            contexts |= {row.context for row in rows}
    env.close()
    assert len(contexts) > 1 or environment == "mlgo/Inline-v0"
    assert rewarded > 1 or not credit
