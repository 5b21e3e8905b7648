"""Traces as Minari datasets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.errors import MissingExtraError
from mlgo_gym.evaluation.trace import trace
from mlgo_gym.integrations.minari import MinariDataset
from tests.conftest import MakeBitcode


@pytest.mark.libraries
@pytest.mark.parametrize(
    ("environment", "arguments"),
    [
        ("mlgo/Inline-v0", {"max_decisions": 20}),
        ("mlgo/Inline-v0", {"credit": True}),
        ("mlgo/RegAllocEvict-v0", {"max_decisions": 20}),
    ],
)
def test_a_dataset_has_the_episodes_of_the_trace(
    environment: str,
    arguments: dict[str, Any],
    make_bitcode: MakeBitcode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    minari = pytest.importorskip("minari", reason="minari is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    corpus = str(make_bitcode("families.c")) if environment == "mlgo/Inline-v0" else "builtin"
    dataset = MinariDataset("mlgo/test/random-v0", environment, "random")
    output: dict[str, Any] = {"output": tmp_path / "t", "limit": 3, "progress": dataset.add}
    result = trace(environment, "random", corpus=corpus, env_kwargs=arguments, **output)
    dataset.write({**arguments, "corpus": corpus})
    records = [record for record in result.episodes if record.decisions]
    loaded = minari.load_dataset("mlgo/test/random-v0")
    assert loaded.total_episodes == len(records) > 0
    for episode, record in zip(loaded.iterate_episodes(), records, strict=True):
        assert len(episode.actions) == record.decisions
        assert episode.rewards.sum() == pytest.approx(record.reward)
        # With credit each decision has a reward of its own.
        assert (np.count_nonzero(episode.rewards[:-1]) > 1) == ("credit" in arguments)
        assert episode.terminations.tolist() == [False] * (record.decisions - 1) + [True]
        observed = episode.observations
        rows = observed["observations"] if isinstance(observed, dict) else observed
        assert len(rows) == record.decisions + 1
        assert np.any(rows[0])
        assert not np.any(rows[-1])


def test_without_minari_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(MissingExtraError, match="needs the extra 'minari'; in a clone of mlgo-gym: pip"):
        MinariDataset("x/y-v0", "mlgo/Inline-v0", "default")
