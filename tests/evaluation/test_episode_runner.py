"""Several episodes at once come to what each of them comes to alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoWarning
from mlgo_gym.evaluation import EvaluationResult, evaluate
from mlgo_gym.evaluation.report import notes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies import Policy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.scheduling import Execution

FAULTY = str(Path(__file__).with_name("faulty.py"))
CLANG = "clang:-mllvm,-inline-threshold=-1000"


def everything(result: EvaluationResult) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return all of the results that count, but for the time that they took."""
    found = {}
    for each in result.episodes:
        if each.module in result.without_decisions:
            continue  # a plain compile may be running when that turns out
        numbers = [type(value) for pair in each.metrics.values() for value in pair]
        assert set(numbers) <= {int, float}
        found[each.policy, each.module] = (
            each.status, each.metrics, each.reward, each.decisions, each.handed_over, each.illegal_actions,
            each.actions, (each.error or {}).get("kind"), (each.error or {}).get("exit_status"),
        )  # fmt: skip
    return found


class Slow:
    """Uses a millisecond of CPU time per decision."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        until = time.process_time() + 0.001
        while time.process_time() < until:
            pass
        return 0


def test_cpu_time_is_that_of_the_policy(corpus: Path) -> None:
    result = evaluate("mlgo/Inline-v0", policies={"slow": Slow(), "default": "default"}, corpus=str(corpus))
    slow, default = (each.policy_seconds / each.decisions for each in result.summaries())
    assert 0.001 <= slow < 0.01
    assert default < slow / 2
    assert "CPU time of policies per decision: slow" in "\n".join(notes(result))


@pytest.mark.parametrize(
    ("environment", "observation", "policies"),
    [
        ("mlgo/Inline-v0", "flat", ["default", "random", "threshold:20", "never", "always", CLANG]),
        pytest.param("mlgo/Inline-v0", "dict", ["threshold:20"], marks=pytest.mark.slow),
        ("mlgo/RegAllocEvict-v0", "dict", ["random"]),
        ("mlgo/RegAllocEvict-v0", "flat", ["default", "random", "first_legal", "never_evict"]),
        pytest.param("mlgo/RegAllocPriority-v0", "dict", ["size_order"], marks=pytest.mark.slow),
        ("mlgo/RegAllocPriority-v0", "flat", ["default", "random", "size_order", "clang:-mllvm,-regalloc=greedy"]),
        ("mlgo/Joint-v0", "flat", ["default", "random"]),
    ],
)
@pytest.mark.parametrize("envs", [pytest.param(2, marks=pytest.mark.slow), 5])
def test_results_and_actions_are_the_same(
    environment: str, observation: str, policies: list[str], envs: int, varied: str, nothing_is_left: None
) -> None:
    arguments: dict[str, Any] = {
        "corpus": varied, "policies": policies, "seed": 3, "env_kwargs": {"observation": observation}
    }  # fmt: skip
    alone = evaluate(environment, envs=1, **arguments)
    together = evaluate(environment, envs=envs, **arguments)
    assert everything(together) == everything(alone)
    assert together.without_decisions == alone.without_decisions
    assert sum(each.decisions for each in alone.episodes) > 20
    assert not alone.failures


def test_a_budget_is_handed_on_and_processes_find_the_same(varied: str, nothing_is_left: None) -> None:
    arguments: dict[str, Any] = {"corpus": varied, "policies": ["random", CLANG], "env_kwargs": {"max_decisions": 2}}
    alone = evaluate("mlgo/Inline-v0", envs=1, **arguments)
    assert any(each.handed_over for each in alone.episodes)
    assert everything(evaluate("mlgo/Inline-v0", envs=3, execution=Execution(2), **arguments)) == everything(alone)


@pytest.fixture
def network(tmp_path: Path, toolchain: Toolchain) -> str:
    """A random network in a file, normalization included: `mlp:FILE`."""
    pytest.importorskip("safetensors")
    features = ("cost_estimate", "callee_basic_block_count", "caller_users", "nr_ctant_params")
    generator = np.random.default_rng(0)
    sample = generator.normal(size=(50, len(features))).astype(np.float32) * 30
    network = Network(
        features,
        tuple(generator.normal(size=shape).astype(np.float32) for shape in ((4, 32), (32, 32), (32, 2))),
        tuple(np.zeros(size, np.float32) for size in (32, 32, 2)),
        "tanh",
        Normalization.fit(sample, features, "log_standard"),
    )
    network.save(tmp_path / "network.safetensors")
    return f"mlp:{tmp_path / 'network.safetensors'}"


def test_a_network_that_is_asked_in_batches_decides_as_it_does_alone(network: str, varied: str) -> None:
    alone = evaluate("mlgo/Inline-v0", corpus=varied, policies=[network], envs=1)
    assert everything(evaluate("mlgo/Inline-v0", corpus=varied, policies=[network], envs=4)) == everything(alone)


class Counts:
    """Has a state: inlines every second call of an episode."""

    def __init__(self) -> None:
        self.asked = 0

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        if info["decision_index"] == 0:
            self.asked = 0
        self.asked += 1
        assert self.asked == info["decision_index"] + 1
        return self.asked % 2


ONE = Counts()


SERVED: WeakSet[CompilerEnv] = WeakSet()


def only_one(env: CompilerEnv) -> Counts:
    """Return a policy for an environment, and no second one."""
    if env in SERVED:
        raise ValueError("there is one already")
    SERVED.add(env)
    return Counts()


@pytest.mark.parametrize("name", ["Counts", "ONE"])
def test_each_episode_has_a_policy_to_itself(name: str, varied: str) -> None:
    policy = f"{__file__}:{name}"
    alone = evaluate("mlgo/Inline-v0", corpus=varied, policies=[policy], envs=1)
    assert not alone.failures
    assert everything(evaluate("mlgo/Inline-v0", corpus=varied, policies=[policy], envs=3)) == everything(alone)


def test_a_policy_that_cannot_be_made_twice_serves_one_episode_at_a_time_and_it_is_said_why(varied: str) -> None:
    policy = f"{__file__}:only_one"
    with pytest.warns(MlgoWarning, match="only_one cannot be loaded twice .ValueError: there is one already"):
        result = evaluate("mlgo/Inline-v0", corpus=varied, policies=[policy], envs=3)
    assert not result.failures


def test_an_object_serves_one_episode_at_a_time(varied: str) -> None:
    result = evaluate("mlgo/Inline-v0", corpus=varied, policies={"mine": Counts(), "never": "never"}, envs=3)
    assert not result.failures


class Batched:
    """Notes how many decisions it was asked about at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        self.sizes.append(1)
        return int(observation[0] % 2)

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        assert observations.shape[0] == len(infos)
        self.sizes.append(len(infos))
        return [int(observation[0] % 2) for observation in observations]


def test_a_policy_with_a_batched_form_is_asked_about_several_decisions(varied: str) -> None:
    policy = Batched()
    result = evaluate("mlgo/Inline-v0", corpus=varied, policies={"mine": policy}, envs=4)
    assert max(policy.sizes) == 2
    assert sum(policy.sizes) == sum(each.decisions for each in result.episodes)
    assert everything(result) == everything(
        evaluate("mlgo/Inline-v0", corpus=varied, policies={"mine": Batched()}, envs=1)
    )


class Broken(Batched):
    """Knows nothing of one module."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        if info["module"] == "calls" and info["decision_index"] == 2:
            raise ZeroDivisionError("no idea")
        return 0

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        return [self.act(None, info) for info in infos]


class Wrong(Broken):
    """Returns too few actions."""

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        return []


@pytest.mark.parametrize("policy", [Broken(), Wrong()])
def test_a_policy_that_raises_fails_that_episode_alone(policy: Policy, varied: str, nothing_is_left: None) -> None:
    result = evaluate("mlgo/Inline-v0", corpus=varied, policies={"mine": policy, "never": "never"}, envs=4)
    [failure] = result.failures
    assert (failure.policy, failure.module) == ("mine", "calls")
    assert failure.error is not None
    assert failure.error["message"] == "ZeroDivisionError: no idea"
    assert "in act" in failure.error["traceback"]


class Illegal:
    """Takes actions that there are not."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        return 7 if info["decision_index"] % 2 else -1


@pytest.mark.parametrize("strict", [False, True])
def test_illegal_actions_are_what_they_are_alone(strict: bool, varied: str, nothing_is_left: None) -> None:
    def run(envs: int) -> EvaluationResult:
        policies: dict[str, str | Policy] = {"illegal": f"{__file__}:Illegal", "never": "never"}
        kwargs = {"strict": strict}
        return evaluate("mlgo/Inline-v0", corpus=varied, policies=policies, envs=envs, env_kwargs=kwargs)

    alone = run(1)
    assert everything(run(3)) == everything(alone)
    assert bool(alone.failures) is strict
    assert bool(sum(each.illegal_actions for each in alone.episodes)) is not strict


def test_a_module_that_clang_cannot_compile_does_not_touch_the_others(
    broken: Path, calls: Path, tmp_path: Path, nothing_is_left: None
) -> None:
    for number in range(3):
        (tmp_path / f"calls{number}.bc").symlink_to(calls)
        (tmp_path / f"broken{number}.bc").symlink_to(broken)

    def run(envs: int) -> EvaluationResult:
        return evaluate("mlgo/Inline-v0", corpus=str(tmp_path), policies=["default", "never", CLANG], envs=envs)

    alone = run(1)
    assert everything(run(4)) == everything(alone)
    assert {each.module for each in alone.failures} == {"broken0", "broken1", "broken2"}
    assert {(each.error or {}).get("kind") for each in alone.failures} == {"exit"}


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_worker_that_dies_with_several_episodes_shows_which_was_to_blame(
    jobs: int, varied: str, nothing_is_left: None
) -> None:
    result = evaluate(
        "mlgo/Inline-v0", corpus=varied, policies=[f"{FAULTY}:Deadly"], execution=Execution(jobs + 1), envs=3
    )
    [failure] = result.failures
    assert failure.module == "calls"
    assert failure.error is not None
    assert failure.error["message"] == "the worker process died: signal 9 (SIGKILL)"
    assert result.without_decisions == ["leaf"]
    assert result.summaries()[0].modules == 3


def test_an_evaluation_that_is_left_leaves_nothing(varied: str, tmp_path: Path, nothing_is_left: None) -> None:
    from mlgo_gym.evaluation import Evaluation

    arguments: dict[str, Any] = {"corpus": varied, "policies": ["never", "random"], "output": tmp_path}
    with Evaluation("mlgo/Inline-v0", **arguments) as evaluation:
        episodes = evaluation.run(envs=3)
        first = next(episodes)
        episodes.close()
    with Evaluation("mlgo/Inline-v0", **arguments) as evaluation:
        assert first in evaluation.result.episodes
        assert first not in list(evaluation.run(envs=3))
        result = evaluation.result
    whole = evaluate("mlgo/Inline-v0", corpus=varied, policies=["never", "random"], envs=1)
    assert everything(result) == everything(whole)
