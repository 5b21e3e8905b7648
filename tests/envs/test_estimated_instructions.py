"""Environments with `metric="estimated-instructions"`."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import pytest

import mlgo_gym
from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.errors import MissingExtraError, MlgoError, ToolchainError
from mlgo_gym.llvm.estimated_instructions import FREQUENCY_FLAGS, estimated_instructions
from tests.fakes.drive import default_action, run

pytest.importorskip("capstone", reason="the extra run-time is not installed")

METRIC = "estimated-instructions"
BASELINE = f"baseline_{METRIC}"
EVICT, PRIORITY = NAMES = ("mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0")


def make(name: str, **arguments: Any) -> Any:
    return gym.make(name, metric=METRIC, **arguments)


def play(env: Any, *, random: bool = False, **options: str) -> tuple[float, dict[str, Any]]:
    """Play an episode with clang's own choices or with random ones; return its reward and last info."""
    env.action_space.seed(3)

    def sample(info: dict[str, Any]) -> Any:
        return env.action_space.sample(*([info["action_mask"]] if "action_mask" in info else []))

    _, last = run(env, sample if random else default_action, seed=3, **options)
    return last.reward, last.info


@pytest.mark.parametrize("name", NAMES)
def test_the_reward_is_the_relative_change_of_the_estimate(name: str) -> None:
    env = make(name, corpus="builtin@Oz", max_decisions=300)
    reward, info = play(env, random=True, module="c/lz")
    assert info[METRIC] > 0 < info[BASELINE]
    assert reward == pytest.approx(1 - info[METRIC] / info[BASELINE])
    assert reward == info["reduction"] != 0
    env.close()


@pytest.mark.parametrize("name", NAMES)
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


def test_only_this_metric_adds_flags_and_each_has_its_baselines(varied: str) -> None:
    plain, mapped = RegAllocEvictEnv(corpus=varied), RegAllocEvictEnv(corpus=varied, metric=METRIC)
    compilations = [env.compilation(env.corpus.module("calls")) for env in (plain, mapped)]
    assert not {*FREQUENCY_FLAGS} & {*compilations[0].flags}
    assert {*FREQUENCY_FLAGS} <= {*compilations[1].flags}
    assert len({compilation.key("baseline", False) for compilation in compilations}) == 2
    infos = [play(env, module="mixed")[1] for env in (plain, mapped, plain)]
    assert [METRIC in info for info in infos] == [False, True, False]
    assert infos[0]["baseline_object"] == infos[2]["baseline_object"] < infos[1]["baseline_object"]
    assert len({info["baseline_text"] for info in infos}) == 1
    plain.close()
    mapped.close()


def test_a_plain_compile_with_other_flags_may_call_more_or_less(varied: str) -> None:
    message = "expected decisions of a policy for metric='estimated-instructions', got 'clang:-O3'; use another metric"
    with pytest.raises(MlgoError, match=message):
        mlgo_gym.evaluate(EVICT, policies=["clang:-O3"], corpus=varied, env_kwargs={"metric": METRIC})


@pytest.mark.parametrize("name", ["mlgo/Inline-v0", "mlgo/InlineIR2Vec-v0", "mlgo/Joint-v0"])
@pytest.mark.parametrize("metric", [METRIC, {"text": 1, METRIC: 0.1}], ids=str)
def test_decisions_that_change_calls_cannot_have_the_estimate(name: str, metric: Any, varied: str) -> None:
    message = (
        "expected decisions that keep all calls for metric='estimated-instructions', got .*metric=\"instructions\""
    )
    with pytest.raises(MlgoError, match=message):
        gym.make(name, corpus=varied, metric=metric)


def test_without_capstone_no_environment_is_made(varied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "capstone", None)
    with pytest.raises(MissingExtraError, match="needs the extra 'run-time'"):
        make(EVICT, corpus=varied)
    RegAllocEvictEnv(corpus=varied).close()


def test_an_old_clang_is_an_error(varied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlgo_gym.episode.setup.OLDEST_CLANG", 99)
    with pytest.raises(ToolchainError, match=r"expected clang 99 or newer for metric='estimated-instructions', got"):
        RegAllocEvictEnv(corpus=varied, metric=METRIC)


WEIGHTS = {"text": 1, METRIC: 0.5}


def test_weights_add_the_relative_rewards() -> None:
    env = gym.make(EVICT, corpus="builtin@O2", metric=WEIGHTS)
    reward, info = play(env, random=True, module="c/lz")
    parts = {name: 1 - info[name] / info[f"baseline_{name}"] for name in WEIGHTS}
    assert parts["text"] != 0
    assert parts[METRIC] < 0
    assert float(reward) == pytest.approx(sum(weight * parts[name] for name, weight in WEIGHTS.items()))
    assert (info["weighted"], info["baseline_weighted"]) == (pytest.approx(1 - float(reward)), 1.0)
    assert info["reduction"] == float(reward)
    env.close()
