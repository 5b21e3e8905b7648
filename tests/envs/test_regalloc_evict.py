"""`mlgo/RegAllocEvict-v0`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.errors import ActionError, CorpusError, MlgoError
from mlgo_gym.llvm.allocation_record import CostWeights
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.protocol.connection import CompileResult
from mlgo_gym.tasks.measurement import Measurement
from tests.allocation import costs, counts, totals
from tests.conftest import MakeBitcode, clang_argument
from tests.fakes.drive import Step, play

pytestmark = pytest.mark.usefixtures("nothing_is_left")

COLUMNS = 33
NOTHING = COLUMNS - 1
ILLEGAL = [-1, COLUMNS, 1000, np.array([1000])]
NO_ACTIONS = [0.5, math.nan, math.inf, None, "evict", [1, 2], np.array([0, 1])]


@pytest.fixture(scope="module")
def spills(make_bitcode: MakeBitcode) -> str:
    """A module of two functions with decisions, `straight` and `looping`, and one without, `easy`."""
    return str(make_bitcode("spills.c"))


@pytest.fixture
def env(spills: str) -> Iterator[RegAllocEvictEnv]:
    made = RegAllocEvictEnv(corpus=spills)
    yield made
    made.close()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[CompileResult]:
    """The compiles that are measured, as they come: the agent's, then, if it was not known, the baseline's."""
    kept: list[CompileResult] = []
    measure = Measurement.of

    def keep(one: CompileResult) -> Measurement:
        kept.append(one)
        return measure(one)

    monkeypatch.setattr(Measurement, "of", keep)
    return kept


def choose(env: RegAllocEvictEnv, decisions: int, seed: int, legal: bool) -> list[Step]:
    """Answer `decisions` questions, episode after episode, with random legal or illegal columns."""
    generator = np.random.default_rng(seed)
    steps: list[Step] = []
    while len(steps) < decisions:
        _, info = env.reset()
        while True:
            columns = np.flatnonzero(info["action_mask"] == legal)
            column = int(generator.choice(columns if len(columns) else [COLUMNS]))
            steps.append(Step(*env.step(column)))
            info = steps[-1].info
            if steps[-1].terminated or steps[-1].truncated:
                break
    env.close()
    return steps


# Observations


def test_the_spaces_come_from_the_header_of_33_columns(env: RegAllocEvictEnv) -> None:
    assert isinstance(env.observation_space, gym.spaces.Dict)
    observations, mask = env.observation_space["observations"], env.observation_space["action_mask"]
    assert (observations.shape, str(observations.dtype)) == ((19 * COLUMNS + 1,), "float32")
    assert (mask.shape, str(mask.dtype)) == ((COLUMNS,), "int8")
    assert env.action_space == gym.spaces.Discrete(COLUMNS)
    assert len(env.feature_names) == 19 * COLUMNS + 1
    assert env.feature_names[0] == "is_free[0]"
    assert env.feature_names[-1] == "progress"


def test_both_forms_of_an_observation_say_the_same(spills: str) -> None:
    flat, raw = (RegAllocEvictEnv(corpus=spills, observation=form) for form in ("flat", "dict"))
    vector, _ = flat.reset()
    tensors, info = raw.reset()
    while True:
        assert flat.observation_space.contains(vector)
        assert raw.observation_space.contains(tensors)
        expected = np.concatenate([tensor.ravel() for name, tensor in tensors.items() if name != "mask"])
        np.testing.assert_array_equal(vector["observations"], expected.astype(np.float32))
        np.testing.assert_array_equal(vector["action_mask"], tensors["mask"].ravel())
        vector, *_ = flat.step(info["default_action"])
        tensors, _, terminated, _, info = raw.step(info["default_action"])
        if terminated:
            break
    flat.close()
    raw.close()


def test_the_mask_is_the_same_wherever_it_is_shown(env: RegAllocEvictEnv) -> None:
    observation, info = env.reset()
    while "action_mask" in info:
        shown = env.action_masks()
        assert shown is not None
        assert shown.any()
        np.testing.assert_array_equal(shown, observation["action_mask"])
        np.testing.assert_array_equal(shown, info["action_mask"])
        assert shown[info["default_action"]]
        observation, *_, info = env.step(info["default_action"])
    after = env.action_masks()
    assert after is not None
    assert after.all()


@pytest.mark.parametrize("observation", ["flat", "dict"])
def test_the_last_observation_is_nothing(spills: str, observation: str) -> None:
    env = RegAllocEvictEnv(corpus=spills, observation=observation)
    last = play(env)[-1].observation
    assert env.observation_space.contains(last)
    masks = {name: part for name, part in last.items() if name == "action_mask"}
    assert not any(part.any() for name, part in last.items() if name not in masks)
    assert all(mask.tolist() == [0] * NOTHING + [1] for mask in masks.values())


def test_every_decision_belongs_to_a_function(env: RegAllocEvictEnv) -> None:
    _, info = env.reset()
    contexts = [info["context"]]
    while "default_action" in info:
        *_, info = env.step(info["default_action"])
        contexts.append(info.get("context", "-"))
    assert {name: contexts.count(name) for name in contexts if name != "-"} == env.decisions(env.corpus[0])
    assert {*contexts} == {"straight", "looping", "-"}


def test_a_decision_is_shown_in_words(spills: str) -> None:
    env = RegAllocEvictEnv(corpus=spills, render_mode="ansi")
    _, info = env.reset()
    shown = env.render()
    assert isinstance(shown, str)
    assert re.search(r"eviction decision 0 of spills.*straight", shown)
    assert re.search(r"column \d+ +use_def_density", shown)
    assert "candidate" in shown
    env.step(info["default_action"])
    after = env.render()
    assert isinstance(after, str)
    assert "the decision before: evict" in after
    env.close()


# Actions


def test_illegal_columns_never_reach_clang(any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    bitcode = make_bitcode("spills.c", compiler=any_toolchain)
    env = RegAllocEvictEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain), strict=False)
    expected = play(env)[-1].info
    steps = choose(env, 700, 1, legal=False)
    assert all(step.info["illegal_action"] for step in steps)
    assert not any(step.truncated for step in steps)
    last = [step.info for step in steps if step.terminated]
    assert {info["spill_cost"] for info in last} == {expected["spill_cost"]}


@pytest.mark.parametrize("action", ILLEGAL, ids=repr)
def test_what_is_no_column_is_replaced_by_the_default_on_request(spills: str, action: Any) -> None:
    env = RegAllocEvictEnv(corpus=spills, strict=False)
    env.reset()
    assert env.step(action)[4]["illegal_action"] is True
    env.close()


@pytest.mark.parametrize("action", ILLEGAL, ids=repr)
def test_what_is_no_column_raises(env: RegAllocEvictEnv, action: Any) -> None:
    _, info = env.reset()
    with pytest.raises(ActionError, match=r"expected a legal action among \[\d+, "):
        env.step(action)
    assert not env.step(info["default_action"])[4].get("illegal_action")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("action", NO_ACTIONS, ids=repr)
def test_what_is_no_action_raises_and_an_action_is_waited_for(spills: str, action: Any, strict: bool) -> None:
    env = RegAllocEvictEnv(corpus=spills, strict=strict)
    _, info = env.reset()
    with pytest.raises(ActionError, match=r"expected an action, an element of Discrete\(\d+\), got"):
        env.step(action)
    assert not env.step(info["default_action"])[4].get("illegal_action")
    env.close()


def test_a_masked_column_raises_and_the_legal_ones_are_named(spills: str) -> None:
    env = RegAllocEvictEnv(corpus=spills)
    _, info = env.reset()
    masked = int(np.flatnonzero(info["action_mask"] == 0)[0])
    legal = np.flatnonzero(info["action_mask"]).tolist()
    with pytest.raises(ActionError, match=re.escape(f"expected a legal action among {legal}, got {masked}")):
        env.step(masked)
    env.close()


def test_random_legal_columns_never_fail(any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    bitcode = make_bitcode("spills.c", compiler=any_toolchain)
    steps = choose(RegAllocEvictEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain)), 700, 2, legal=True)
    assert not any(step.truncated or step.info.get("illegal_action") for step in steps)
    ends = [step.info for step in steps if step.terminated]
    assert all(info["spill_cost"] != info["baseline_spill_cost"] for info in ends)


def test_the_default_choices_allocate_straight_code_as_clang_does(
    any_toolchain: Toolchain, make_bitcode: MakeBitcode, compiled: list[CompileResult], own_cache: Path
) -> None:
    bitcode = make_bitcode("pressure.c", compiler=any_toolchain)
    steps = play(RegAllocEvictEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain)))
    ours, plain = compiled
    assert ours.object_bytes == plain.object_bytes
    assert steps[-1].reward == 0.0


# Rewards


def test_the_costs_are_those_of_clangs_record(
    any_toolchain: Toolchain, make_bitcode: MakeBitcode, compiled: list[CompileResult], own_cache: Path
) -> None:
    bitcode = make_bitcode("spills.c", compiler=any_toolchain)
    info = play(RegAllocEvictEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain), strict=False), -1)[-1].info
    for prefix, one in zip(("", "baseline_"), compiled, strict=True):
        expected = costs(one.optimization_record, CostWeights())
        assert {"straight", "looping"} <= set(expected)
        rows = {row["function"]: row for row in info["functions"]}
        for function, cost in expected.items():
            assert rows[function][f"{prefix}spill_cost"] == pytest.approx(cost)
            assert rows[function][f"{prefix}spill_count"] == counts(one.optimization_record)[function]
        assert info[f"{prefix}spill_cost"] == pytest.approx(sum(expected.values()))
        assert info[f"{prefix}spill_count"] == sum(counts(one.optimization_record).values())
        assert totals(info, prefix) == pytest.approx((info[f"{prefix}spill_cost"], info[f"{prefix}spill_count"]))


@pytest.mark.parametrize("metric", ["spill_cost", "spill_count", "text", "llvm_size", "object"])
def test_each_metric_can_be_the_reward_relative_to_plain_clang(spills: str, metric: str) -> None:
    step = choose(RegAllocEvictEnv(corpus=spills, metric=metric), 1, 3, legal=True)[-1]
    ours, plain = step.info[metric], step.info[f"baseline_{metric}"]
    assert ours != plain
    assert step.reward == pytest.approx(1 - ours / plain)
    assert step.info["reduction"] == step.reward


def test_the_weighted_cost_is_rewarded_unless_told_otherwise(spills: str) -> None:
    step = choose(RegAllocEvictEnv(corpus=spills), 1, 3, legal=True)[-1]
    assert step.reward == step.info["reduction"] != 0
    assert step.reward == pytest.approx(1 - step.info["spill_cost"] / step.info["baseline_spill_cost"])


@pytest.mark.parametrize("kind", ["spill", "reload", "folded_reload", "copy"])
def test_each_weight_is_an_argument(spills: str, kind: str, compiled: list[CompileResult], own_cache: Path) -> None:
    weights = {name: 2.0 * (name == kind) for name in ("spill", "reload", "folded_reload", "copy")}
    env = RegAllocEvictEnv(corpus=spills, cost_weights=weights)
    info = choose(env, 1, 3, legal=True)[-1].info
    expected = costs(compiled[0].optimization_record, CostWeights(**weights))
    assert info["spill_cost"] == pytest.approx(sum(expected.values()))
    assert info["spill_cost"] > 0 or kind == "folded_reload"


def test_the_default_weights_are_those_of_llvms_score() -> None:
    assert CostWeights() == CostWeights(spill=1.0, reload=4.0, folded_reload=4.0, copy=0.2)


# One function


def function_env(spills: str, **options: Any) -> RegAllocEvictEnv:
    return RegAllocEvictEnv(corpus=spills, scope="function", strict=False, **options)


def test_an_episode_can_be_one_functions_decisions(spills: str) -> None:
    env = function_env(spills)
    _, info = env.reset(options={"module": "spills", "function": "straight"})
    decisions = 0
    while "default_action" in info:
        assert info["context"] == "straight"
        assert info["decision_index"] == decisions
        decisions += 1
        *_, info = env.step(info["default_action"])
    assert info["context"] == "straight"
    assert info["decisions"] == decisions == env.decisions(env.corpus[0])["straight"]
    env.close()


def evict_nothing(env: RegAllocEvictEnv, function: str) -> Step:
    """Play a function and return the last step."""
    env.reset(options={"module": "spills", "function": function})
    while not (step := Step(*env.step(NOTHING))).terminated:
        pass
    env.close()
    return step


def test_only_that_function_is_rewarded_and_no_other_changes(
    spills: str, compiled: list[CompileResult], own_cache: Path
) -> None:
    default = play(RegAllocEvictEnv(corpus=spills))[-1].info
    step = evict_nothing(function_env(spills), "looping")
    (row,) = step.info["functions"]
    everywhere = {each["function"]: each for each in default["functions"]}
    assert row["function"] == "looping"
    assert row["baseline_spill_cost"] == everywhere["looping"]["baseline_spill_cost"]
    assert row["spill_cost"] != everywhere["looping"]["spill_cost"]
    assert step.info["spill_cost"] == row["spill_cost"]
    assert step.reward == pytest.approx(1 - row["spill_cost"] / row["baseline_spill_cost"])
    evict_nothing(function_env(spills, metric="text"), "looping")
    ours = costs(compiled[-1].optimization_record, CostWeights())
    assert ours["looping"] == pytest.approx(row["spill_cost"])
    assert ours["straight"] == pytest.approx(everywhere["straight"]["spill_cost"])


@pytest.mark.parametrize("function", ["straight", "looping"])
def test_an_episode_that_ends_with_its_function_tells_what_a_whole_compile_tells_but_for_the_object(
    spills: str, function: str
) -> None:
    ours = evict_nothing(function_env(spills), function)
    whole = evict_nothing(function_env(spills, metric="text"), function)
    assert ours.reward == pytest.approx(1 - whole.info["spill_cost"] / whole.info["baseline_spill_cost"])
    sizes = {f"{label}{name}" for label in ("", "baseline_") for name in ("text", "llvm_size", "object")}
    assert {*whole.info} - {*ours.info} == sizes
    assert ours.info == {name: value for name, value in whole.info.items() if name not in sizes} | {
        "reduction": ours.reward
    }


def test_functions_are_sampled_among_those_with_decisions(spills: str) -> None:
    env = function_env(spills)
    seen = [env.reset(seed=seed)[1]["context"] for seed in range(10)]
    assert {*seen} == {"straight", "looping"}
    assert [env.reset(seed=seed)[1]["context"] for seed in range(10)] == seen
    env.close()


def test_a_function_without_decisions_cannot_be_chosen(spills: str) -> None:
    env = function_env(spills)
    for name in ("easy", "no_such_function"):
        with pytest.raises(CorpusError, match=f"expected a decision on eviction in function '{name}' of .*, got none"):
            env.reset(options={"module": "spills", "function": name})
    assert env.reset(options={"module": "spills"})[1]["context"] in ("straight", "looping")
    env.close()


def test_a_function_is_chosen_with_its_module_and_in_that_scope_only(spills: str, env: RegAllocEvictEnv) -> None:
    with pytest.raises(MlgoError, match='with the option "function", got'):
        env.reset(options={"module": "spills", "function": "straight"})
    with pytest.raises(MlgoError, match='with the option "function", got'):
        function_env(spills).reset(options={"function": "straight"})


# Optimised once


def test_an_episode_is_the_same_with_and_without_optimising_once(spills: str) -> None:
    once, full = (
        play(RegAllocEvictEnv(corpus=spills, compile_options={"preoptimize": way}, strict=False), -1)
        for way in (True, False)
    )
    assert len(once) == len(full)
    for ours, theirs in zip(once, full, strict=True):
        assert ours.reward == theirs.reward
        for part in ("observations", "action_mask"):
            np.testing.assert_array_equal(ours.observation[part], theirs.observation[part])
    assert once[-1].info == full[-1].info


def test_modules_can_be_verified_at_first_use(spills: str) -> None:
    assert play(RegAllocEvictEnv(corpus=spills, compile_options={"verify_preoptimized": True}))[-1].terminated
    with pytest.raises(MlgoError, match="expected preoptimize=True with verify_preoptimized=True"):
        RegAllocEvictEnv(
            corpus=spills,
            compile_options={"preoptimize": False, "verify_preoptimized": True},
        )
