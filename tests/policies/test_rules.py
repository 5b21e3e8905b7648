"""Decisions of the rules."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies import load_policy
from tests.policies.episodes import play

EVICTIONS = "c/bigint"
"""A builtin module with evictions that compiles fast."""


def test_default_ends_as_plain_clang_does(inline: CompilerEnv) -> None:
    _, info = play(inline, load_policy("default", inline), "calls")
    assert info["text"] == info["baseline_text"]


def test_never_keeps_every_call_and_always_inlines_each(inline: CompilerEnv) -> None:
    kept, after_never = play(inline, load_policy("never", inline), "calls")
    inlined, after_always = play(inline, load_policy("always", inline), "calls")
    assert set(kept) == {0}
    assert set(inlined) == {1}
    assert after_never["text"] != after_always["text"]


def test_random_depends_on_seed_and_module_only(inline: CompilerEnv) -> None:
    policy = load_policy("random", inline, seed=5)
    first, _ = play(inline, policy, "calls")
    other_module, _ = play(inline, policy, "more/calls")
    again, _ = play(inline, policy, "calls")
    other_seed, _ = play(inline, load_policy("random", inline, seed=6), "calls")
    assert first == again
    assert set(first) == {0, 1}
    assert first != other_module or first != other_seed


def test_a_threshold_of_five_decides_as_clang_at_oz(inline: CompilerEnv) -> None:
    at_five, _ = play(inline, load_policy("threshold:5", inline), "calls")
    default, _ = play(inline, load_policy("default", inline), "calls")
    assert at_five == default


def test_a_threshold_below_or_above_all_costs_is_never_or_always(inline: CompilerEnv) -> None:
    assert set(play(inline, load_policy("threshold:-1e9", inline), "calls")[0]) == {0}
    assert set(play(inline, load_policy("threshold:1e9", inline), "calls")[0]) == {1}


def test_a_threshold_reads_raw_tensors_too(inline: CompilerEnv, corpus: object) -> None:
    from mlgo_gym.make_env import make_environment

    raw = make_environment("mlgo/Inline-v0", {"corpus": str(corpus), "observation": "dict"})
    assert (
        play(raw, load_policy("threshold:0", raw), "calls")[0]
        == play(inline, load_policy("threshold:0", inline), "calls")[0]
    )
    raw.close()


def test_a_ratio_of_one_is_llvms_rule_and_others_evict_more_or_less(evict: CompilerEnv) -> None:
    default, at_one, above, below = (
        play(evict, load_policy(name, evict), EVICTIONS)[0] for name in ("default", "ratio:1", "ratio:3", "ratio:0.1")
    )
    assert at_one == default
    # The first decision of a kind is at the same place in all episodes.
    nothing = evict.action_space.n - 1  # type: ignore[attr-defined]
    first = {
        name: next(a for a, b in zip(found, default, strict=False) if a != b)
        for name, found in (("above", above), ("below", below))
    }
    assert first["below"] == nothing
    assert first["above"] != nothing
    with pytest.raises(PolicyError, match="expected ratio:NUMBER with a number > 0, got ratio:0"):
        load_policy("ratio:0", evict)


@pytest.mark.parametrize("name", ["random", "first_legal", "never_evict", "ratio:2", "default"])
def test_every_eviction_policy_stays_within_the_mask(evict: CompilerEnv, name: str) -> None:
    actions, _ = play(evict, load_policy(name, evict), EVICTIONS)
    assert len(actions) > 10


def test_first_legal_takes_the_first_legal_column(evict: CompilerEnv) -> None:
    policy = load_policy("first_legal", evict)
    mask = np.array([0, 0, 1, 0, 1], np.int8)
    assert policy.act(None, {"action_mask": mask}) == 2


def test_never_evict_evicts_only_if_it_must(evict: CompilerEnv) -> None:
    policy = load_policy("never_evict", evict)
    free = np.array([1, 0, 1], np.int8)
    forced = np.array([1, 0, 0], np.int8)
    assert policy.act(None, {"action_mask": free, "default_action": 0}) == 2
    assert policy.act(None, {"action_mask": forced, "default_action": 0}) == 0


def test_size_order_gives_longer_live_ranges_more(priority: CompilerEnv) -> None:
    policy = load_policy("size_order", priority)
    observation, info = priority.reset(options={"module": "calls"})
    sizes, actions = [], []
    over = False
    while not over:
        sizes.append(observation[priority.feature_names.index("li_size")])
        actions.append(policy.act(observation, info))
        assert priority.action_space.contains(actions[-1])
        observation, _, over, _, info = priority.step(actions[-1])
    assert len(set(sizes)) > 3
    assert np.argsort(sizes, kind="stable").tolist() == np.argsort(np.ravel(actions), kind="stable").tolist()


def test_random_draws_priorities_from_the_action_space(priority: CompilerEnv) -> None:
    actions, _ = play(priority, load_policy("random", priority), "calls")
    assert len({action.item() for action in actions}) > 1


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("never", "the actions 0 and 1"),
        ("always", "the actions 0 and 1"),
        ("threshold", "the actions 0 and 1"),
        ("size_order", "decisions on priority"),
    ],
)
def test_a_policy_that_does_not_fit_names_what_it_needs(evict: CompilerEnv, name: str, needed: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(f"the policy {name!r} needs an environment with {needed}")):
        load_policy(name, evict)


@pytest.mark.parametrize("name", ["first_legal", "never_evict"])
def test_eviction_policies_do_not_inline(inline: CompilerEnv, name: str) -> None:
    with pytest.raises(PolicyError, match="decisions on eviction, got one with decisions on inlining"):
        load_policy(name, inline)
