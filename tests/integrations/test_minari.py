"""Traces as Minari datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.errors import MissingExtraError
from mlgo_gym.integrations.minari import MinariDataset
from mlgo_gym.integrations.trace import trace
from tests.conftest import MakeBitcode


@pytest.mark.libraries
@pytest.mark.parametrize("environment", ["mlgo/Inline-v0", "mlgo/RegAllocEvict-v0"])
def test_a_dataset_has_the_episodes_of_the_trace(
    environment: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari", reason="minari is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    arguments = {"max_decisions": 20}
    path = str(corpus) if environment == "mlgo/Inline-v0" else "builtin"
    dataset = MinariDataset("mlgo/test/random-v0", environment, "random")
    result = trace(
        environment,
        "random",
        corpus=path,
        output=tmp_path / "t",
        limit=3,
        env_kwargs=arguments,
        progress=dataset.add,
    )
    dataset.write({**arguments, "corpus": path})
    episodes = [episode for episode in result.episodes if episode.decisions]
    loaded = minari.load_dataset("mlgo/test/random-v0")
    assert loaded.total_episodes == len(episodes) > 0
    for episode, traced in zip(loaded.iterate_episodes(), episodes, strict=True):
        assert len(episode.actions) == traced.decisions
        assert episode.rewards[-1] == traced.reward
        assert not episode.rewards[:-1].any()
        assert episode.terminations.tolist() == [False] * (traced.decisions - 1) + [True]
        last = episode.observations["observations"] if isinstance(episode.observations, dict) else episode.observations
        assert len(last) == traced.decisions + 1
        assert np.any(last[0])
        assert not np.any(last[-1])


@pytest.mark.libraries
def test_with_credit_each_decision_has_its_reward(
    make_bitcode: MakeBitcode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari", reason="minari is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    corpus = str(make_bitcode("families.c"))
    dataset = MinariDataset("mlgo/test/credit-v0", "mlgo/Inline-v0", "random")
    arguments = {"credit": True}
    result = trace(
        *("mlgo/Inline-v0", "random"),
        corpus=corpus,
        output=tmp_path / "t",
        env_kwargs=arguments,
        progress=dataset.add,
    )
    dataset.write({**arguments, "corpus": corpus})
    (episode,) = result.episodes
    (loaded,) = minari.load_dataset("mlgo/test/credit-v0").iterate_episodes()
    assert np.count_nonzero(loaded.rewards) > 1
    assert loaded.rewards.sum() == pytest.approx(episode.reward)


def test_without_minari_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "minari", None)
    with pytest.raises(MissingExtraError, match="needs the extra 'minari'; in a clone of mlgo-gym: pip"):
        MinariDataset("x/y-v0", "mlgo/Inline-v0", "default")
