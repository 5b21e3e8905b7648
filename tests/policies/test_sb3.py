"""The policies `sb3:FILE`: they decide as stable-baselines3 does, and their files run nothing."""

from __future__ import annotations

import io
import json
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.normalization import METHODS
from mlgo_gym.policies.observation_samples import fit_normalization, record_observations
from mlgo_gym.policies.sb3 import save_sb3
from mlgo_gym.wrappers import NormalizeFeatures
from tests.policies.episodes import play

pytestmark = [pytest.mark.libraries, pytest.mark.filterwarnings("ignore::UserWarning")]

stable_baselines3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")


@pytest.mark.parametrize(("algorithm", "activation"), [("PPO", None), ("PPO", "ReLU"), ("DQN", None)])
def test_it_decides_as_the_model_does(
    algorithm: str, activation: str | None, inline: CompilerEnv, tmp_path: Path
) -> None:
    import torch

    wrapped = NormalizeFeatures(inline, fit_normalization(inline, observations=30))
    kwargs: dict[str, Any] = {} if activation is None else {"activation_fn": getattr(torch.nn, activation)}
    model = getattr(stable_baselines3, algorithm)("MlpPolicy", wrapped, policy_kwargs=kwargs, seed=1, device="cpu")
    save_sb3(model, tmp_path / "m.zip", wrapped.feature_names, wrapped.normalization)
    policy = load_policy(f"sb3:{tmp_path}/m.zip", inline)
    rows = record_observations(inline, observations=30)
    rows = np.concatenate([rows, np.random.default_rng(0).normal(0, 50, (500, rows.shape[1])).astype(np.float32)])
    expected, _ = model.predict(wrapped.observation(rows), deterministic=True)
    assert set(expected.tolist()) == {0, 1}
    assert [policy.act(row, {}) for row in rows] == expected.tolist()
    play(inline, policy, "calls")


@pytest.mark.parametrize("method", METHODS)
def test_a_masked_model_decides_as_in_its_library(method: str, evict: CompilerEnv, tmp_path: Path) -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    wrapped = NormalizeFeatures(evict, fit_normalization(evict, method, observations=20))
    model = contrib.MaskablePPO("MultiInputPolicy", wrapped, seed=1, device="cpu")
    save_sb3(model, tmp_path / "m.zip", wrapped.feature_names, wrapped.normalization)
    policy = load_policy(f"sb3:{tmp_path}/m.zip", evict)
    observation, info = evict.reset(options={"module": "c/bigint"})
    chosen = set()
    for _ in range(15):
        expected, _ = model.predict(
            wrapped.observation(observation), deterministic=True, action_masks=info["action_mask"]
        )
        action = policy.act(observation, info)
        assert action == int(expected)
        chosen.add(action)
        observation, _, terminated, _, info = evict.step(action)
        if terminated:
            break
    assert len(chosen) > 1


def test_a_model_without_names_uses_the_features_of_the_environment(inline: CompilerEnv, tmp_path: Path) -> None:
    model = stable_baselines3.PPO("MlpPolicy", inline, seed=1, device="cpu")
    model.save(tmp_path / "m.zip")
    observation, _ = inline.reset(options={"module": "calls"})
    expected, _ = model.predict(observation, deterministic=True)
    assert load_policy(f"sb3:{tmp_path}/m.zip", inline).act(observation, {}) == int(expected)


def test_a_model_of_other_inputs_is_refused(inline: CompilerEnv, evict: CompilerEnv, tmp_path: Path) -> None:
    stable_baselines3.PPO("MlpPolicy", inline, device="cpu").save(tmp_path / "m.zip")
    with pytest.raises(PolicyError, match="expected 628 inputs, or 33 more for an action mask, got 39"):
        load_policy(f"sb3:{tmp_path}/m.zip", evict)


class _Trap:
    def __reduce__(self) -> tuple[object, ...]:
        return (sys.exit, ("a file has run code",))


def test_pickled_code_in_a_file_does_not_run(inline: CompilerEnv, tmp_path: Path) -> None:
    import torch

    trap = pickle.dumps(_Trap())
    weights = io.BytesIO()
    torch.save({"action_net.weight": _Trap()}, weights)
    for content in (trap, weights.getvalue()):
        with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
            archive.writestr("data", json.dumps({"policy_class": {":serialized:": "gASVAAA="}}))
            archive.writestr("policy.pth", content)
        with pytest.raises(PolicyError, match="expected nothing but tensors"):
            load_policy(f"sb3:{tmp_path}/m.zip", inline)


def test_a_file_that_is_no_model_is_refused(inline: CompilerEnv, tmp_path: Path) -> None:
    (tmp_path / "m.zip").write_bytes(b"no archive")
    with pytest.raises(PolicyError, match="expected a model of stable-baselines3"):
        load_policy(f"sb3:{tmp_path}/m.zip", inline)


def test_without_torch_the_extra_is_named(inline: CompilerEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stable_baselines3.PPO("MlpPolicy", inline, device="cpu").save(tmp_path / "m.zip")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mlgo-gym\[sb3\]'"):
        load_policy(f"sb3:{tmp_path}/m.zip", inline)


def test_one_repeated_number_of_four_gigabytes_is_refused(
    inline: CompilerEnv, tmp_path: Path, nothing_is_left: None
) -> None:
    import torch

    weights = io.BytesIO()
    torch.save({"action_net.weight": torch.zeros(1).expand(1 << 30)}, weights)
    assert len(weights.getvalue()) < 2000
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", weights.getvalue())
    with pytest.raises(PolicyError, match="expected nothing but tensors"):
        load_policy(f"sb3:{tmp_path}/m.zip", inline)
    inline.close()
