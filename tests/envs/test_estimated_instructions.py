"""Environments with `metric="estimated-instructions"`."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import mlgo_gym
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.function_costs import FunctionCosts
from mlgo_gym.errors import MissingExtraError, MlgoError, ToolchainError
from mlgo_gym.llvm.block_frequencies import FREQUENCY_FLAGS
from mlgo_gym.llvm.estimated_instructions import estimated_instructions
from mlgo_gym.policies import load_policy
from mlgo_gym.search import search_module
from mlgo_gym.tasks.info_reference import info_keys
from mlgo_gym.training.flip_labels import label_by_flips

pytest.importorskip("capstone", reason="the extra run-time is not installed")

METRIC = "estimated-instructions"
BASELINE = f"baseline_{METRIC}"
NAMES = ("mlgo/Inline-v0", "mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0", "mlgo/Joint-v0")


def make(name: str, **arguments: Any) -> Any:
    return gym.make(name, metric=METRIC, **arguments)


def play(env: Any, *, random: bool = False, **options: str) -> tuple[float, dict[str, Any]]:
    """Play an episode with clang's own choices or with random ones; return its reward and last info."""
    _, info = env.reset(seed=3, options=options)
    env.action_space.seed(3)
    total, over = 0.0, False
    while not over:
        mask = info.get("action_mask")
        drawn = env.action_space.sample() if mask is None else env.action_space.sample(mask)
        _, reward, terminated, truncated, info = env.step(drawn if random else info["default_action"])
        total, over = total + reward, terminated or truncated
    return total, info


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", ["Oz", "O2"])
def test_the_reward_is_the_relative_change_of_the_estimate(name: str, level: str) -> None:
    env = make(name, corpus=f"builtin@{level}", max_decisions=300)
    reward, info = play(env, random=True, module="c/lz")
    assert info[METRIC] > 0 < info[BASELINE]
    assert reward == pytest.approx(1 - info[METRIC] / info[BASELINE])
    assert reward == info["reduction"] != 0
    env.close()


@pytest.mark.parametrize("name", ["mlgo/Inline-v0", "mlgo/RegAllocEvict-v0"])
@pytest.mark.parametrize("level", ["Oz", "O2"])
def test_the_choices_of_clang_have_reward_0(name: str, level: str) -> None:
    env = make(name, corpus=f"builtin@{level}")
    reward, info = play(env, module="c/lz")
    assert reward == 0
    assert info[METRIC] == info[BASELINE]
    env.close()


@pytest.mark.parametrize("reward", ["log", "bytes"])
def test_every_reward_is_finite(varied: str, reward: str) -> None:
    env = make("mlgo/Inline-v0", corpus=varied, reward=reward)
    assert all(math.isfinite(play(env, random=True, module=name)[0]) for name in ("calls", "many_calls", "mixed"))
    env.close()


@pytest.mark.parametrize("name", NAMES[1:3])
def test_a_function_of_register_allocation_counts_alone(name: str) -> None:
    whole, alone = (make(name, corpus="builtin@O2", scope=scope) for scope in ("module", "function"))
    _, module = play(whole, random=True, module="c/lz")
    _, function = play(alone, random=True, module="c/lz", function="lz_compress")
    compilation = alone.unwrapped.compilation(alone.unwrapped.corpus.module("c/lz"))
    with compilation.session() as session:
        expected = estimated_instructions(session.finish(60).object_bytes)["lz_compress"]
    assert function["baseline_text"] == module["baseline_text"]
    assert function[BASELINE] == expected.instructions < module[BASELINE]
    assert function[METRIC] > 0
    whole.close()
    alone.close()


def test_a_function_of_inlining_counts_for_the_module(varied: str) -> None:
    whole, alone = (make("mlgo/Inline-v0", corpus=varied, scope=scope) for scope in ("module", "function"))
    _, module = play(whole, module="calls")
    reward, function = play(alone, module="calls")
    assert reward == 0
    assert function[BASELINE] == module[BASELINE]
    whole.close()
    alone.close()


def test_only_this_metric_adds_flags_and_each_has_its_baselines(varied: str) -> None:
    plain, mapped = InlineEnv(corpus=varied), InlineEnv(corpus=varied, metric=METRIC)
    compilations = [env.compilation(env.corpus.module("calls")) for env in (plain, mapped)]
    assert not {*FREQUENCY_FLAGS} & {*compilations[0].flags}
    assert compilations[1].flags == (*compilations[0].flags, *FREQUENCY_FLAGS)
    assert len({compilation.key("baseline", False) for compilation in compilations}) == 2
    infos = [play(env, module="calls")[1] for env in (plain, mapped, plain)]
    assert [METRIC in info for info in infos] == [False, True, False]
    assert infos[0]["baseline_object"] == infos[2]["baseline_object"] < infos[1]["baseline_object"]
    assert len({info["baseline_text"] for info in infos}) == 1
    plain.close()
    mapped.close()


def test_a_kept_baseline_has_the_same_estimate(varied: str, own_cache: Path) -> None:
    found = []
    for _ in range(2):
        env = make("mlgo/RegAllocEvict-v0", corpus=varied)
        found.append(play(env, module="mixed")[1][BASELINE])
        env.close()
    assert found[0] == found[1] > 0
    assert any(own_cache.joinpath("baselines").rglob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_the_last_info_has_documented_keys(varied: str, name: str) -> None:
    env = make(name, corpus=varied, max_decisions=2)
    _, info = play(env, module="mixed")
    assert {METRIC, BASELINE} <= {*info} <= {key.name for key in info_keys(env.unwrapped.task)}
    env.close()


def test_numeric_infos_have_the_estimate_at_each_step(varied: str) -> None:
    env = make("mlgo/Inline-v0", corpus=varied, info="numeric")
    _, first = env.reset(options={"module": "calls"})
    _, last = play(env, module="calls")
    assert first.keys() == last.keys()
    assert first[METRIC] == 0.0 < last[METRIC]
    env.close()


def test_a_plain_compile_is_evaluated_too(varied: str) -> None:
    policies = ["clang:-O3", "always"]
    result = mlgo_gym.evaluate("mlgo/Inline-v0", policies=policies, corpus=varied, env_kwargs={"metric": METRIC})
    assert result.metrics == (METRIC, "text")
    assert all(episode.metrics[METRIC][1] > 0 for episode in result.episodes if episode.metrics)


@pytest.mark.parametrize("metric", [METRIC, {"text": 1, METRIC: 0.5}])
def test_credit_adds_up_to_what_the_episode_saved(metric: Any) -> None:
    env = gym.make("mlgo/Inline-v0", metric=metric, credit=True)
    reward, info = play(env, random=True, module="c/lz")
    saved = info[BASELINE] - info[METRIC] if metric == METRIC else reward
    assert sum(info["credit"]) == pytest.approx(saved)
    assert len(set(info["credit"])) > 10
    env.close()


def test_the_credit_of_a_single_flip_is_its_effect() -> None:
    env = gym.make("mlgo/Inline-v0", metric=METRIC, credit=True)
    effects, shares = [], []
    for flipped in range(8):
        _, info = env.reset(options={"module": "c/lz"})
        over = False
        while not over:
            is_flipped = info["decision_index"] == flipped
            *_, terminated, truncated, info = env.step(abs(int(is_flipped) - int(info["default_action"])))
            over = terminated or truncated
        effects.append(info[BASELINE] - info[METRIC])
        shares.append(info["credit"][flipped])
    assert any(effects)
    # A flip can change clang's own choices at later decisions, which then share its effect.
    assert sum(given == pytest.approx(effect, rel=1e-6) for given, effect in zip(shares, effects, strict=True)) >= 4
    env.close()


@pytest.mark.parametrize("metric", [METRIC, {METRIC: 1.0, "text": 0.1}], ids=str)
def test_bundles_search_the_least_estimate(metric: Any) -> None:
    with InlineEnv(metric=metric) as env:
        found = search_module(env, env.corpus.module("c/lz"), "bundles", compiles=8)
    assert found.verified
    assert found.cost < found.baseline


def test_labels_are_the_effects_of_single_flips() -> None:
    with InlineEnv(metric=METRIC) as env:
        compilation = env.compilation(env.corpus.module("c/lz"))
        costs, policy = FunctionCosts(env.setup, compilation), load_policy("default", env)
        found = label_by_flips(compilation, env.task, policy, compiles=6, check=6, costs=costs)
    assert sum(bool(label.bytes) for label in found.labels) > 5
    # Costs are billionths of the baseline, which are rounded.
    assert sum(label == pytest.approx(alone, abs=20) for label, alone in found.checked) >= 4


def test_credit_of_both_inlining_and_allocation_is_in_bytes(varied: str) -> None:
    with pytest.raises(MlgoError, match=r"metric of credit=True as 'text', instructions or a linked size, got 'estim"):
        make("mlgo/Joint-v0", corpus=varied, credit=True)


def test_without_capstone_no_environment_is_made(varied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "capstone", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mlgo-gym\[run-time\]'"):
        make("mlgo/Inline-v0", corpus=varied)
    InlineEnv(corpus=varied).close()


def test_an_old_clang_is_an_error(varied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlgo_gym.episode.setup.OLDEST_CLANG", 99)
    with pytest.raises(ToolchainError, match=r"expected clang 99 or newer for metric='estimated-instructions', got"):
        RegAllocEvictEnv(corpus=varied, metric=METRIC)


def test_a_measurement_without_frequencies_has_no_estimate(varied: str) -> None:
    env = InlineEnv(corpus=varied)
    measurement = measure_baseline(env.compilation(env.corpus.module("calls")), 60)
    assert measurement.instructions is None
    with pytest.raises(MlgoError, match="expected an object with block frequencies, got none; make the environment"):
        env.task.outcome(measurement, METRIC)
    env.close()


WEIGHTS = {"text": 1, "estimated-instructions": 0.5}


def test_weights_add_the_relative_rewards() -> None:
    env = gym.make("mlgo/Inline-v0", metric=WEIGHTS).unwrapped
    env.reset(options={"module": "c/vfs"})
    over = False
    while not over:
        *_, reward, terminated, truncated, info = env.step(0)
        over = terminated or truncated
    parts = {name: 1 - info[name] / info[f"baseline_{name}"] for name in WEIGHTS}
    assert parts["text"] != 0
    assert parts["estimated-instructions"] < 0
    assert float(reward) == pytest.approx(sum(weight * parts[name] for name, weight in WEIGHTS.items()))
    assert (info["weighted"], info["baseline_weighted"]) == (pytest.approx(1 - float(reward)), 1.0)
    assert info["reduction"] == float(reward)
    env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": {}}, "expected positive weights by metrics of"),
        ({"metric": {"text": -1}}, r"got \{'text': -1\}"),
        ({"metric": {"size": 1}}, r"got \{'size': 1\}"),
        ({"metric": WEIGHTS, "reward": "log"}, "expected reward='relative' with weights in metric, got 'log'"),
        ({"metric": {**WEIGHTS, "object": 1}, "credit": True}, "expected the metric of credit=True as 'text', instr"),
    ],
)
def test_impossible_weights_are_one_clear_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(MlgoError, match=message):
        gym.make("mlgo/Inline-v0", **arguments)


def test_an_evaluation_takes_one_metric() -> None:
    with pytest.raises(MlgoError, match="expected one metric for an evaluation, got"):
        mlgo_gym.evaluate("mlgo/Inline-v0", policies=["default"], limit=1, env_kwargs={"metric": WEIGHTS})
