"""`mlgo/InlineBandit-v0` gives what the labels say, to one environment and to many."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import mlgo_gym
from mlgo_gym import CALLEE_FEATURES, ActionError, MlgoError
from mlgo_gym.corpus.parts import Part, is_project_part
from mlgo_gym.training.bandit import BUNDLED, InlineBanditEnv, InlineBanditVectorEnv

FOLDER = Path(mlgo_gym.__file__).parent / "training" / "bundled_labels"


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of some of the bundled labels."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    table, file = parquet.read_table(FOLDER / "Oz-with-calls.parquet"), tmp_path_factory.mktemp("labels") / "x.parquet"
    parquet.write_table(table.take(list(range(0, len(table), len(table) // 3000))), file)
    return file


@pytest.fixture
def bandit(few: Path) -> InlineBanditVectorEnv:
    """Return 512 environments with some labels at -Oz."""
    made: Any = gym.make_vec(
        "mlgo/InlineBandit-v0", num_envs=512, labels=few, callee_features=True, autoreset_mode="SameStep"
    )
    envs: InlineBanditVectorEnv = made.unwrapped
    return envs


def test_the_actions_of_a_label_have_opposite_rewards_of_its_bytes(bandit: InlineBanditVectorEnv) -> None:
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
        assert not np.stack(infos["final_obs"]).any()
        assert infos["_final_obs"].all()
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
    assert (exact == infos["bytes"]).all()
    assert infos["_bytes"].all()
    assert set(np.abs(large).tolist()) <= set(weights.tolist())


@pytest.mark.parametrize("bundled", [("Os", True), *(pytest.param(each, marks=pytest.mark.slow) for each in BUNDLED)])
def test_the_parts_of_a_split_are_those_of_corpora_and_no_label_is_of_a_test_module(bundled: tuple[str, bool]) -> None:
    assert {*BUNDLED} == {(level, features) for level in ("Os", "Oz") for features in (False, True)}
    level, callee_features = bundled
    options: Any = {"labels": level, "callee_features": callee_features}
    names: tuple[Part, ...] = ("train", "fit", "valid")
    parts = {part: InlineBanditVectorEnv(split=part, **options).labels for part in names}
    for facts in ("modules", "digests"):
        values = {part: set(getattr(labels, facts).tolist()) for part, labels in parts.items()}
        assert values["fit"] | values["valid"] == values["train"]
        assert not values["fit"] & values["valid"], facts
    for part, labels in parts.items():
        origins = [name.partition("/") for name in set(labels.modules.tolist())]
        assert all(is_project_part(project, name, part) for project, _, name in origins)
        assert all(is_project_part(project, name, "train") for project, _, name in origins)
    assert set(parts["fit"].features) >= set(CALLEE_FEATURES) if callee_features else len(parts["fit"].features) == 39


def test_normalized_observations_keep_their_names(few: Path) -> None:
    env = InlineBanditVectorEnv(64, labels=few, normalize=True)
    assert env.normalization is not None
    assert env.feature_names == env.normalization.names
    assert "node_count" not in env.feature_names
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)
    raw, _ = InlineBanditVectorEnv(64, labels=few).reset(seed=0)
    assert (env.normalization(raw[:, env.normalization.columns(env.labels.features)]) == observations).all()


def test_a_single_environment_needs_a_reset_after_each_step(few: Path) -> None:
    env: Any = gym.make("mlgo/InlineBandit-v0", labels=[few]).unwrapped
    with pytest.raises(ActionError, match="expected a pending decision, got an episode that is over or not started"):
        env.step(1)
    env.reset(seed=0)
    with pytest.raises(ActionError, match=r"expected a legal action among \[0, 1\], got 2"):
        env.step(2)
    _, reward, terminated, _, info = env.step(1)
    assert terminated
    assert np.sign(reward) == np.sign(info["bytes"])
    with pytest.raises(ActionError, match=r"call reset\(\)"):
        env.step(1)
    assert env.action_masks().tolist() == [1, 1]
    assert env.reset(seed=np.int64(3))[0].tolist() == env.reset(seed=3)[0].tolist()


def test_its_defaults_are_those_of_the_other_environments(few: Path) -> None:
    envs = [gym.make_vec(name, 2, render_mode=None) for name in ("mlgo/InlineBandit-v0", "mlgo/Inline-v0")]
    assert envs[0].metadata["autoreset_mode"] is envs[1].metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert gym.make("mlgo/InlineBandit-v0", labels=few, render_mode=None).render_mode is None
    same_step = InlineBanditVectorEnv(2, labels=few, autoreset_mode="SameStep")
    assert copy.deepcopy(same_step).autoreset_mode is AutoresetMode.SAME_STEP
    for made in envs:
        made.close()


def test_wrong_arguments_and_calls_get_one_line(bandit: InlineBanditVectorEnv, few: Path) -> None:
    bandit.reset(seed=0)
    one_is_wrong = np.ones(512)
    one_is_wrong[7] = np.nan

    def make(**arguments: Any) -> Callable[[], object]:
        return lambda: InlineBanditVectorEnv(**{"labels": few, **arguments})

    calls: list[tuple[Any, str]] = [
        (make(labels="O3"), "expected a Parquet file of labels|expected .* labels"),
        (make(split="test"), "expected split as 'train' or 'fit' or 'valid', got 'test'"),
        (make(reward="relative"), "expected reward as 'weighted' or 'bytes', got 'relative'"),
        (make(num_envs=0), "expected num_envs ≥ 1, got 0"),
        (make(label="Oz"), "unexpected keyword argument 'label'; did you mean 'labels'"),
        (lambda: bandit.step(np.zeros(3)), "expected 512 actions, one per environment, got 3"),
        (lambda: bandit.step(one_is_wrong), "environment 7: expected a legal action among"),
        (lambda: bandit.reset(options={"modul": "x"}), r"expected no options of reset\(\), got \['modul'\]"),
        (lambda: bandit.reset(seed=[1, 2]), "expected 512 seeds, one per environment, got 2"),
        (lambda: InlineBanditEnv(labels=few).reset(options={"module": "x"}), "expected no options"),
        (
            lambda: mlgo_gym.evaluate("mlgo/InlineBandit-v0", policies="default"),
            "expected an environment with a compiler, got .*; use mlgo",
        ),
    ]
    for call, message in calls:
        with pytest.raises(MlgoError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
