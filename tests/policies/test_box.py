"""The policies in the box: found by name, refused where they do not fit, and known by their files."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import mlgo_gym
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies import box, load_policy
from mlgo_gym.policies.loading import policy_identity, wants_calls
from mlgo_gym.policies.network import Network

assert mlgo_gym


def prefers(feature: str, weight: float, bias: float = 0.0) -> Network:
    """Return a network that says yes where `weight · feature + bias > 0`."""
    return Network((feature,), (np.full((1, 1), weight, np.float32),), (np.full(1, bias, np.float32),))


@pytest.fixture
def env(corpus: Path) -> CompilerEnv:
    env = gym.make("mlgo/Inline-v0", corpus=str(corpus)).unwrapped
    assert isinstance(env, CompilerEnv)
    return env


@pytest.fixture
def own_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A box with one policy, which inlines what clang would not."""
    monkeypatch.setattr(box, "BOX", tmp_path)
    prefers("inlining_default", -1.0, bias=0.5).save(tmp_path / "inline-test.safetensors")
    return tmp_path


def test_a_policy_in_the_box_is_found_by_its_name_and_answers(env: CompilerEnv, own_box: Path) -> None:
    policy = load_policy("inline-test", env)
    observation, info = env.reset(options={"module": "calls"})
    over = False
    while not over:
        action = policy.act(observation, info)
        assert action == 1 - info["default_action"]
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated


def test_its_identity_is_that_of_its_file(own_box: Path) -> None:
    before = policy_identity("inline-test")
    prefers("threshold", 1.0).save(own_box / "inline-test.safetensors")
    assert before.startswith("inline-test ")
    assert policy_identity("inline-test") != before


def test_what_is_not_in_the_box_is_refused_with_what_is(env: CompilerEnv, own_box: Path) -> None:
    with pytest.raises(PolicyError, match=r"there is no policy 'inline-tset'; did you mean inline-test\?"):
        load_policy("inline-tset", env)
    with pytest.raises(PolicyError, match="is not in the box; there are inline-test"):
        box.box_file("inline-oy", calls=False)


def test_a_compiler_without_its_features_is_refused(env: CompilerEnv, own_box: Path) -> None:
    prefers("feature_of_tomorrow", 1.0).save(own_box / "inline-test.safetensors")
    with pytest.raises(
        PolicyError, match="feature_of_tomorrow among others, and this one has the 39 features of clang"
    ):
        load_policy("inline-test", env)


def test_a_network_of_more_than_yes_and_no_is_refused(env: CompilerEnv, own_box: Path) -> None:
    wide = Network(("threshold",), (np.ones((1, 3), np.float32),), (np.ones(3, np.float32),))
    wide.save(own_box / "inline-test.safetensors")
    with pytest.raises(PolicyError, match="as many actions as its 3 outputs"):
        load_policy("inline-test", env)


def test_other_decisions_are_none_of_its_business(corpus: Path, own_box: Path) -> None:
    env = gym.make("mlgo/RegAllocEvict-v0", corpus=str(corpus))
    with pytest.raises(PolicyError, match="decisions on inlining"):
        load_policy("inline-test", env)


def test_whatever_is_in_the_box_of_the_package_loads_has_a_card_and_fits(corpus: Path) -> None:
    env = gym.make("mlgo/Inline-v0", corpus=str(corpus), calls=True).unwrapped
    for name in box.boxed_policies():
        policy = load_policy(name, env)
        observation, info = env.reset(options={"module": "calls"})
        assert policy.act(observation, info) in (0, 1)
        file = box.box_file(name, calls=True)
        for ending in (".md", ".json"):
            assert file.with_suffix(ending).is_file(), f"{file.name} has no model card {file.stem}{ending}"


def test_of_two_networks_under_a_name_it_is_the_one_that_sees_calls_where_they_are_foretold(
    corpus: Path, own_box: Path
) -> None:
    prefers("inlining_default", -1.0, bias=0.5).save(own_box / "inline-two-plain.safetensors")
    prefers("callee_lines", 1.0).save(own_box / "inline-two-calls.safetensors")
    assert {"inline-two", "inline-two-calls", "inline-two-plain"} < set(box.boxed_policies())

    def answers(calls: bool) -> list[int]:
        env = gym.make("mlgo/Inline-v0", corpus=str(corpus), calls=calls)
        policy = load_policy("inline-two", env)
        observation, info = env.reset(options={"module": "calls"})
        given: list[int] = []
        over = False
        while not over:
            given.append(policy.act(observation, info))
            clang = info["default_action"]
            assert given[-1] == (1 if calls else 1 - clang)
            observation, _, terminated, truncated, info = env.step(given[-1])
            over = terminated or truncated
        return given

    assert answers(calls=True) != answers(calls=False)
    assert wants_calls("inline-two")
    assert not wants_calls("inline-two-plain")
    assert policy_identity("inline-two").split()[1] == policy_identity("inline-two-calls").split()[1]
    own_box.joinpath("inline-two-plain.safetensors").unlink()
    with pytest.raises(PolicyError, match="make it with calls=True"):
        answers(calls=False)
