"""`StepRewards` pays the reward decision by decision; `ReductionLog` writes curves; `NormalizeFeatures` normalizes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.integrations import Normalization, NormalizeFeatures, ReductionLog, StepRewards, fit_normalization, vector
from mlgo_gym.policies.network import CLIP
from mlgo_gym.policies.protocol import flat_part
from mlgo_gym.testing import check_environment
from tests.conftest import copy_modules
from tests.envs.test_registered import legal_action
from tests.fakes.compiles import running_compile
from tests.fakes.drive import failed_end, finish, play
from tests.fakes.stepping import EVICT, INLINE, end_clang, make

PRIORITY = "mlgo/RegAllocPriority-v0"

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (INLINE, {}),
        (INLINE, {"credit": True, "reward": "bytes"}),
        (INLINE, {"metric": {"text": 2.0, "object": 1.0}, "info": "numeric"}),
        (EVICT, {"max_decisions": 20}),
        (PRIORITY, {"max_decisions": 20}),
    ],
    ids=str,
)
def test_the_rewards_add_up_to_that_of_the_episode(name: str, options: dict[str, Any], varied: str) -> None:
    chance = np.random.default_rng(1)
    with StepRewards(gym.make(name, corpus=varied, **options)) as env:
        inner: Any = env.unwrapped
        _, info = env.reset(options={"module": "mixed"})

        def choose(info: dict[str, Any]) -> Any:
            other = legal_action(inner, chance)
            return info["default_action"] if chance.random() < 0.5 else other

        steps = finish(env, info, choose)
        actions: list[Any] = list(inner.actions)
    if name == PRIORITY:
        actions = [np.array([action], np.float32) for action in actions]
    alone = play(gym.make(name, corpus=varied, **options), actions, module="mixed")[-1]
    assert sum(step.reward for step in steps) == pytest.approx(alone.reward)
    # The priorities change nothing in this module.
    assert sum(step.reward != 0 for step in steps) > 1 or name == PRIORITY


def test_a_reward_is_the_effect_of_one_decision_if_clang_decides_the_rest(calls: Any) -> None:
    with StepRewards(gym.make(INLINE, corpus=str(calls), reward="bytes")) as env:
        _, info = env.reset()
        number = sum(env.unwrapped.decisions(env.unwrapped.corpus[0]).values())  # type: ignore[attr-defined, unused-ignore]  # by the stubs of other libraries
        for flipped in range(number):
            _, info = env.reset()
            rewards = []
            for index in range(number):
                _, reward, *_, info = env.step(info["default_action"] ^ (index == flipped))
                rewards.append(reward)
                if "default_action" not in info:
                    break
            assert rewards == [0.0] * flipped + [info["baseline_text"] - info["text"]] + [0.0] * (
                len(rewards) - flipped - 1
            )


def test_a_failure_and_a_restored_state_keep_the_sum(varied: str) -> None:
    with StepRewards(gym.make(INLINE, corpus=varied, error_reward=-1e4, reward="bytes")) as env:
        inner: Any = env.unwrapped
        _, info = env.reset(options={"module": "calls"})
        paid = 0.0
        for _ in range(3):
            _, reward, *_, info = env.step(1 - info["default_action"])
            paid += reward
        state = inner.state()
        running_compile(env).kill()
        _, reward, terminated, *_ = env.step(0)
        assert paid + reward == pytest.approx(-1e4)
        assert terminated
        _, info = env.reset(options={"state": state})
        rest = finish(env, info)
        assert paid + sum(step.reward for step in rest) == rest[-1].info["baseline_text"] - rest[-1].info["text"]


def test_it_keeps_the_rules_of_gymnasium_and_wraps_no_other_environment(varied: str) -> None:
    with StepRewards(gym.make(INLINE, corpus=varied, max_decisions=4)) as env:
        check_environment(env)
        env.reset()  # it stays open
    with pytest.raises(MlgoError, match="expected an environment of mlgo-gym, got CartPoleEnv; omit the wrapper"):
        StepRewards(gym.make("CartPole-v1"))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_curves_are_means_over_the_episodes_that_ended(mode: str, calls: Path, tmp_path: Path) -> None:
    projects = str(copy_modules(tmp_path, {"one/calls": calls, "two/calls": calls}))
    written: list[dict[str, float]] = []
    log = ReductionLog(written.append, episodes=4)
    envs = make(INLINE, projects, 2, autoreset_mode=mode, max_decisions=2)
    envs.reset(options={"module": ["one/calls", "two/calls"]})
    end_clang(envs, 0)
    reductions: dict[str, list[float]] = {"one": [], "two": []}
    ended = 0
    while not written:
        *_, terminations, truncations, info = envs.step([0, 1])
        log(terminations | truncations, info)
        last = info.get("final_info", info)
        ended += int((terminations | truncations).sum())
        for row in np.flatnonzero(last.get("_reduction", ())):
            if not np.isnan(last["reduction"][row]):
                reductions[str(last["module"][row]).partition("/")[0]].append(float(last["reduction"][row]))
    envs.close()
    every = [*reductions["one"], *reductions["two"]]
    expected: dict[str, Any] = {f"reduction/{name}": np.mean(values) for name, values in reductions.items() if values}
    expected |= {"reduction/all": np.mean(every), "failures/rate": 1 / ended, "failures/signal": 1 / ended}
    assert ended >= 4
    assert written[0] == pytest.approx(expected)


def test_single_environments_and_numeric_infos_have_curves_too(varied: str) -> None:
    written: list[dict[str, float]] = []
    log = ReductionLog(written.append, episodes=100)
    log.flush()
    for info in ("full", "numeric"):
        env: Any = make(INLINE, varied, 1, info=info).env_type(corpus=varied, info=info)
        for step in (*play(env, 1, module="calls"), failed_end(env, "calls")):
            log(step.terminated or step.truncated, step.info)
        env.close()
    log.flush()
    assert len(written) == 1
    assert written[0].keys() == {
        "reduction/all",
        "reduction/modules",
        "failures/rate",
        "failures/signal",
        "failures/compile",
    }
    assert (written[0]["failures/rate"], written[0]["failures/signal"]) == (0.5, 0.25)
    with pytest.raises(MlgoError, match="expected episodes ≥ 1, got 0"):
        ReductionLog(written.append, episodes=0)


CALLS = {"module": "calls"}


@pytest.fixture
def env(corpus: Path) -> Iterator[gym.Env[Any, Any]]:
    env = gym.make("mlgo/Inline-v0", corpus=str(corpus))
    yield env
    env.close()


@pytest.fixture
def normalization(env: gym.Env[Any, Any]) -> Normalization:
    return fit_normalization(env, observations=30, seed=1)


def test_observations_have_the_known_features_normalized(env: gym.Env[Any, Any], normalization: Normalization) -> None:
    raw, _ = env.reset(options=CALLS)
    wrapped = NormalizeFeatures(env, normalization)
    observation, info = wrapped.reset(options=CALLS)
    assert np.array_equal(observation, normalization(raw))
    assert observation in wrapped.observation_space
    observation, *_ = wrapped.step(info["default_action"])
    assert observation in wrapped.observation_space
    few = normalization.select(["threshold", "callee_users"])
    wrapped = NormalizeFeatures(env, few)
    assert wrapped.feature_names == ("threshold", "callee_users")
    observation, _ = wrapped.reset(options=CALLS)
    names = env.get_wrapper_attr("feature_names")
    assert np.array_equal(observation, few(raw[[names.index("threshold"), names.index("callee_users")]]))


def test_the_vector_environment_is_equal(env: gym.Env[Any, Any], normalization: Normalization, corpus: Path) -> None:
    single = NormalizeFeatures(env, normalization)
    inner = gym.make_vec("mlgo/Inline-v0", num_envs=2, corpus=str(corpus), autoreset_mode="SameStep")
    many = vector.NormalizeFeatures(inner, normalization)
    observations, _ = many.reset(options=CALLS)
    alone, _ = single.reset(options=CALLS)
    assert observations in many.observation_space
    ended = False
    while not ended:
        assert np.array_equal(observations[0], alone)
        alone, _, ended, _, _ = single.step(1)
        observations, _, terminations, _, infos = many.step(np.ones(2, np.int64))
        assert bool(terminations[0]) == ended
    assert np.array_equal(infos["final_obs"][0], alone)
    many.close()


@pytest.mark.parametrize("name", [INLINE, EVICT])
def test_logarithms_need_no_fit(name: str, varied: str) -> None:
    with gym.make(name, corpus=varied, max_decisions=4) as env:
        wrapped = NormalizeFeatures(env)
        raw, scaled = (flat_part(made.reset(seed=1)[0]) for made in (env, wrapped))
        check_environment(wrapped)
    expected = np.clip(np.sign(raw) * np.log1p(np.abs(raw.astype(np.float64))) / 4, -CLIP, CLIP)
    np.testing.assert_allclose(scaled, expected, rtol=1e-6)
    assert np.unique(scaled).size > 5
    envs = vector.NormalizeFeatures(make(name, varied, 2, max_decisions=4))
    np.testing.assert_array_equal(flat_part(envs.reset(seed=1)[0])[0], scaled)
    assert Normalization.from_json(wrapped.normalization.to_json()).names == envs.feature_names
    envs.close()
