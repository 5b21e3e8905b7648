"""Bundled policies: found by name, refused where they do not fit, and identified by their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.corpus.modules.sampling import Part
from mlgo_gym.corpus.modules.training_digests import SHORT_DIGEST, sidecar_digests, training_digest
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies import bundled, load_policy
from mlgo_gym.policies.loading import needs_callee_features, policy_identity
from mlgo_gym.policies.network import Network


def prefers(feature: str, weight: float, bias: float = 0.0) -> Network:
    """Return a network that says yes where `weight · feature + bias > 0`."""
    return Network((feature,), (np.full((1, 1), weight, np.float32),), (np.full(1, bias, np.float32),))


@pytest.fixture
def env(corpus: Path) -> CompilerEnv:
    env = gym.make("mlgo/Inline-v0", corpus=str(corpus)).unwrapped
    assert isinstance(env, CompilerEnv)
    return env


@pytest.fixture
def networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one bundled policy, which inlines where clang would not."""
    monkeypatch.setattr(bundled, "NETWORKS", tmp_path)
    prefers("inlining_default", -1.0, bias=0.5).save(tmp_path / "inline-test.safetensors")
    return tmp_path


def test_a_bundled_policy_is_found_by_its_name_and_decides(env: CompilerEnv, networks: Path) -> None:
    policy = load_policy("inline-test", env)
    observation, info = env.reset(options={"module": "calls"})
    over = False
    while not over:
        action = policy.act(observation, info)
        assert action == 1 - info["default_action"]
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated


def test_its_identity_is_that_of_its_file(networks: Path) -> None:
    before = policy_identity("inline-test")
    prefers("threshold", 1.0).save(networks / "inline-test.safetensors")
    assert before.startswith("inline-test ")
    assert policy_identity("inline-test") != before


def test_an_unknown_name_is_refused_with_the_known_ones(env: CompilerEnv, networks: Path) -> None:
    with pytest.raises(PolicyError, match=r"there is no policy 'inline-tset'; did you mean inline-test\?"):
        load_policy("inline-tset", env)
    with pytest.raises(PolicyError, match="expected a bundled policy, got 'inline-oy'; use one of inline-test"):
        bundled.bundled_file("inline-oy")


def test_a_compiler_without_its_features_is_refused(env: CompilerEnv, networks: Path) -> None:
    prefers("feature_of_tomorrow", 1.0).save(networks / "inline-test.safetensors")
    with pytest.raises(
        PolicyError,
        match=r"inline-test needs the features feature_of_tomorrow, which clang .* does not compute",
    ):
        load_policy("inline-test", env)


def test_a_network_with_more_outputs_is_refused(env: CompilerEnv, networks: Path) -> None:
    wide = Network(("threshold",), (np.ones((1, 3), np.float32),), (np.ones(3, np.float32),))
    wide.save(networks / "inline-test.safetensors")
    with pytest.raises(PolicyError, match="actions for its 3 outputs"):
        load_policy("inline-test", env)


def test_an_environment_with_other_decisions_is_refused(corpus: Path, networks: Path) -> None:
    env = gym.make("mlgo/RegAllocEvict-v0", corpus=str(corpus))
    with pytest.raises(PolicyError, match="decisions on inlining"):
        load_policy("inline-test", env)


def test_every_bundled_policy_loads_has_a_card_and_decides(corpus: Path, varied: str) -> None:
    inlining = gym.make("mlgo/Inline-v0", corpus=str(corpus), callee_features=True).unwrapped
    evictions = gym.make("mlgo/RegAllocEvict-v0", corpus=varied).unwrapped
    for name in bundled.bundled_policies():
        env, module = (evictions, "mixed") if name == "evict" else (inlining, "calls")
        policy = load_policy(name, env)
        observation, info = env.reset(options={"module": module})
        assert policy.act(observation, info) in np.flatnonzero(info.get("action_mask", (1, 1)))
        file = bundled.bundled_file(name)
        for ending in (".md", ".json"):
            assert file.with_suffix(ending).is_file(), f"{file.name} has no model card {file.stem}{ending}"


def test_no_bundled_policy_was_trained_on_a_module_of_the_test_split(toolchain: Toolchain) -> None:
    builtin = open_corpus("builtin", toolchain=toolchain)
    parts: dict[Part, set[str]] = {
        part: {training_digest(module)[:SHORT_DIGEST] for module in builtin.split(part)} for part in ("train", "test")
    }
    for name in bundled.bundled_policies():
        digests = set(sidecar_digests(bundled.bundled_file(name)))
        assert not digests & parts["test"], name
        assert len(digests & parts["train"]) >= 15, name


def test_a_name_means_one_network_whatever_the_environment_computes(corpus: Path) -> None:
    with_callees, plain = (
        gym.make("mlgo/Inline-v0", corpus=str(corpus), callee_features=calls) for calls in (True, False)
    )
    for level in ("oz", "os"):
        fast, full = f"inline-{level}-fast", f"inline-{level}"
        assert not needs_callee_features(fast)
        assert needs_callee_features(full)
        assert [decisions(fast, env) for env in (plain, with_callees)] == [decisions(fast, plain)] * 2
        assert decisions(full, with_callees)
        with pytest.raises(
            PolicyError,
            match=f"^{full} needs callee features, which this environment does not compute; make it with "
            f"callee_features=True, or use {fast}$",
        ):
            load_policy(full, plain)


def decisions(policy: str, env: gym.Env[Any, Any]) -> list[int]:
    """Return the actions of a policy in one episode."""
    loaded = load_policy(policy, env)
    observation, info = env.reset(options={"module": "calls"})
    taken: list[int] = []
    over = False
    while not over:
        taken.append(loaded.act(observation, info))
        observation, _, terminated, truncated, info = env.step(taken[-1])
        over = terminated or truncated
    return taken


def test_without_a_fast_network_none_is_suggested(env: CompilerEnv, networks: Path) -> None:
    prefers("callee_lines", 1.0).save(networks / "inline-two.safetensors")
    with pytest.raises(PolicyError, match=r"make it with callee_features=True$"):
        load_policy("inline-two", env)
