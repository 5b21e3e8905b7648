"""The policies `sb3:FILE`: they decide as stable-baselines3 does, and their files run nothing."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.integrations import NormalizeFeatures
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.observation_samples import fit_normalization, record_observations
from mlgo_gym.policies.sb3 import read_sb3, save_sb3
from tests.policies.episodes import Trap, play

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture
def sb3() -> Any:
    return pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")


@pytest.mark.libraries
@pytest.mark.parametrize(("algorithm", "activation"), [("PPO", None), ("PPO", "ReLU"), ("DQN", None)])
def test_it_decides_as_its_model(
    sb3: Any, algorithm: str, activation: str | None, inline: CompilerEnv, tmp_path: Path
) -> None:
    import torch

    wrapped = NormalizeFeatures(inline, fit_normalization(inline, observations=30))
    kwargs: dict[str, Any] = {} if activation is None else {"activation_fn": getattr(torch.nn, activation)}
    model = getattr(sb3, algorithm)("MlpPolicy", wrapped, policy_kwargs=kwargs, seed=1, device="cpu")
    save_sb3(model, tmp_path / "m.zip", wrapped.feature_names, wrapped.normalization)
    policy = load_policy(f"sb3:{tmp_path}/m.zip", inline)
    rows = record_observations(inline, observations=30)
    rows = np.concatenate([rows, np.random.default_rng(0).normal(0, 50, (500, rows.shape[1])).astype(np.float32)])
    expected, _ = model.predict(wrapped.observation(rows), deterministic=True)
    assert set(expected.tolist()) == {0, 1}
    assert [policy.act(row, {}) for row in rows] == expected.tolist()
    play(inline, policy, "calls")


@pytest.mark.libraries
def test_a_masked_model_decides_as_in_its_library(evict: CompilerEnv, tmp_path: Path) -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    wrapped = NormalizeFeatures(evict, fit_normalization(evict, observations=20))
    model = contrib.MaskablePPO("MultiInputPolicy", wrapped, seed=1, device="cpu")
    save_sb3(model, tmp_path / "m.zip", wrapped.feature_names, wrapped.normalization)
    policy = load_policy(f"sb3:{tmp_path}/m.zip", evict)
    observation, info = evict.reset(options={"module": "c/bigint"})
    chosen: set[int] = set()
    over = False
    while not over and len(chosen) < 15:
        normal = wrapped.observation(observation)
        expected, _ = model.predict(normal, deterministic=True, action_masks=info["action_mask"])
        action = policy.act(observation, info)
        assert action == int(expected)
        chosen.add(action)
        observation, _, over, _, info = evict.step(action)
    assert len(chosen) > 1


@pytest.mark.libraries
def test_pickled_code_does_not_run_and_gigabytes_are_refused(sb3: Any, inline: CompilerEnv, tmp_path: Path) -> None:
    import torch

    trap, repeated = io.BytesIO(), io.BytesIO()
    torch.save({"action_net.weight": Trap()}, trap)
    torch.save({"action_net.weight": torch.zeros(1).expand(1 << 30)}, repeated)
    for content in (pickle.dumps(Trap()), trap.getvalue(), repeated.getvalue()):
        with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
            archive.writestr("data", json.dumps({"policy_class": {":serialized:": "gASVAAA="}}))
            archive.writestr("policy.pth", content)
        with pytest.raises(PolicyError, match="expected nothing but tensors"):
            load_policy(f"sb3:{tmp_path}/m.zip", inline)


def test_other_files_are_refused(inline: CompilerEnv, tmp_path: Path) -> None:
    for content in (b"", b"not an archive", b"PK\x03\x04"):
        (tmp_path / "m.zip").write_bytes(content)
        with pytest.raises(PolicyError, match="expected a model of stable-baselines3"):
            read_sb3(tmp_path / "m.zip", inline)
