"""`mlgo/InlineBandit-v0` gives the rewards of labels, to one environment and to many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import mlgo_gym
from mlgo_gym.corpus.modules.sampling import is_part
from mlgo_gym.errors import MlgoError
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.training.bandit import BUNDLED, InlineBanditVectorEnv

FOLDER = Path(mlgo_gym.__file__).parent / "training" / "bundled_labels"


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of some of the bundled labels."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    table, file = parquet.read_table(FOLDER / "Oz-with-calls.parquet"), tmp_path_factory.mktemp("labels") / "x.parquet"
    parquet.write_table(table.take(list(range(0, len(table), len(table) // 3000))), file)
    return file


def test_the_actions_of_a_label_have_opposite_rewards_of_its_bytes(few: Path) -> None:
    made: Any = gym.make_vec("mlgo/InlineBandit-v0", num_envs=512, labels=few, callee_features=True)
    bandit: InlineBanditVectorEnv = made.unwrapped
    env: Any = gym.make("mlgo/Inline-v0", callee_features=True)
    assert bandit.feature_names == env.unwrapped.feature_names
    assert bandit.single_observation_space == env.observation_space
    labels = bandit.labels
    rows = {labels.observations[row].astype(np.float32).tobytes(): row for row in range(len(labels))}
    results = []
    for action in (0, 1):
        observations, _ = bandit.reset(seed=5)
        assert bandit.observation_space.contains(observations)
        following, rewards, terminated, truncated, infos = bandit.step(np.full(512, action))
        assert terminated.all()
        assert not truncated.any()
        assert not infos["final_obs"].any()
        results.append((observations, following, rewards, infos["final_info"]["bytes"]))
    (first, next_first, kept, kept_bytes), (second, next_second, inlined, inlined_bytes) = results
    assert (first == second).all()
    assert (next_first == next_second).all(), "the seed decides the labels"
    assert not (bandit.reset(seed=6)[0] == first).all()
    assert (kept == -inlined).all()
    assert (kept_bytes == -inlined_bytes).all()
    assert (np.sign(kept) == np.sign(kept_bytes)).all()
    assert kept.any()
    # Several labels can have one observation.
    same = [labels.bytes[rows[row.tobytes()]] == saved for row, saved in zip(first, kept_bytes, strict=True)]
    assert np.mean(same) > (0.5 if len(rows) < len(labels) else 0.999)
    for actions in (np.full(512, 2), np.zeros(3)):
        with pytest.raises(MlgoError, match="expected 512 actions of 0 or 1"):
            bandit.step(actions)
    with pytest.raises(MlgoError, match="expected reset\\(\\) before step\\(\\)"):
        InlineBanditVectorEnv(2, labels=few).step(np.zeros(2))


def test_rewards_are_the_weights_of_labels_or_bytes(few: Path) -> None:
    weighted, plain = (InlineBanditVectorEnv(8, labels=few, reward=reward) for reward in ("weighted", "bytes"))
    weights = weighted.labels.weights
    informative = weighted.labels.bytes != 0
    assert weights.max() <= 20
    assert not weights[~informative].any()
    assert 0.8 < weights[informative].mean() <= 1
    for env in (weighted, plain):
        env.reset(seed=7)
    (_, large, *_, infos), (_, exact, *_) = (env.step(np.zeros(8)) for env in (weighted, plain))
    assert (exact == infos["final_info"]["bytes"]).all()
    assert set(np.abs(large).tolist()) <= set(weights.tolist())


@pytest.mark.parametrize("bundled", [("Os", True), *(pytest.param(each, marks=pytest.mark.slow) for each in BUNDLED)])
def test_the_parts_of_a_split_are_those_of_corpora_and_no_label_is_of_a_test_module(bundled: tuple[str, bool]) -> None:
    level, callee_features = bundled
    options: Any = {"labels": level, "callee_features": callee_features}
    parts = {part: InlineBanditVectorEnv(split=part, **options).labels for part in ("train", "fit", "valid")}
    names = {part: set(labels.modules.tolist()) for part, labels in parts.items()}
    assert names["fit"] | names["valid"] == names["train"]
    assert not names["fit"] & names["valid"]
    local = [name.partition("/")[2] for name in names["train"]]
    # A few are copies of training modules, which decide for their group.
    assert sum(is_part(name, "test") for name in local) <= 0.02 * len(local)
    assert set(parts["fit"].features) >= set(CALLEE_FEATURES) if callee_features else len(parts["fit"].features) == 39


def test_a_single_environment_is_one_of_gymnasium_and_normalized_observations_keep_their_names(few: Path) -> None:
    env: Any = gym.make("mlgo/InlineBandit-v0", labels=[few]).unwrapped
    check_env(env, skip_render_check=True)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(1)
    assert terminated
    assert np.sign(reward) == np.sign(info["bytes"])
    normalized, raw = (InlineBanditVectorEnv(64, labels=few, normalize=normalize) for normalize in (True, False))
    normalization = normalized.normalization
    assert normalization is not None
    assert normalized.feature_names == normalization.names
    assert "node_count" not in normalized.feature_names
    observations, _ = normalized.reset(seed=0)
    columns = normalization.columns(normalized.labels.features)
    assert (normalization(raw.reset(seed=0)[0][:, columns]) == observations).all()


def test_bad_arguments_get_one_line(few: Path) -> None:
    plain = FOLDER / "Os-riscv32imc.parquet"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"labels": "O3"}, "expected a Parquet file of labels|expected .* labels"),
        ({"split": "test"}, "expected split as one of train, fit, valid, got 'test'"),
        ({"reward": "relative"}, "expected reward as one of weighted, bytes, got 'relative'"),
        ({"num_envs": 0}, "expected num_envs ≥ 1, got 0"),
        ({"labels": plain, "callee_features": True}, "expected labels with callee features, got none"),
    ]
    for options, message in cases:
        with pytest.raises(MlgoError, match=message) as caught:
            InlineBanditVectorEnv(**{"labels": few, **options})
        assert "\n" not in str(caught.value)
