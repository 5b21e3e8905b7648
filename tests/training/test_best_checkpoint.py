"""The best checkpoint on validation modules is kept, and nothing takes its place by chance."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.corpus import open_corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies.network import Network
from mlgo_gym.training import BestCheckpoint

ENVIRONMENT = "mlgo/Inline-v0"


def always(answer: int, file: Path) -> str:
    """Write a network that says the same to everything, and return it as a policy."""
    zero, sign = np.zeros((1, 1), np.float32), np.array([2.0 * answer - 1], np.float32)
    Network(("cost_estimate",), (zero,), (sign,), "relu", None).save(file)
    return f"mlp:{file}"


@pytest.fixture
def best(calls: Path, toolchain: Toolchain, tmp_path: Path) -> BestCheckpoint:
    """Nothing is kept yet; the modules are one with nine decisions, where inlining everything is smaller."""
    return BestCheckpoint(ENVIRONMENT, open_corpus(calls, toolchain=toolchain), tmp_path / "best.safetensors")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_better_one_is_kept_whichever_comes_first(
    order: tuple[int, ...], best: BestCheckpoint, tmp_path: Path
) -> None:
    policies = [always(answer, tmp_path / f"{answer}.safetensors") for answer in order]
    changes = {policy: best.offer(policy) for policy in policies}
    assert len(set(changes.values())) == 2
    smallest = min(changes, key=lambda policy: changes[policy])
    assert best.change == changes[smallest]
    assert best.policy == f"mlp:{tmp_path / 'best.safetensors'}"
    assert (tmp_path / "best.safetensors").read_bytes() == Path(smallest.removeprefix("mlp:")).read_bytes()


def test_one_that_is_no_better_does_not_take_its_place(best: BestCheckpoint, tmp_path: Path) -> None:
    change = best.offer(always(1, tmp_path / "one.safetensors"))
    again = tmp_path / "again.safetensors"
    weights = np.ones((1, 1), np.float32)
    Network(("cost_estimate",), (0 * weights,), (3 * weights[0],), "relu", None).save(again)
    assert best.offer(f"mlp:{again}") == change
    assert (tmp_path / "best.safetensors").read_bytes() == (tmp_path / "one.safetensors").read_bytes()


def test_one_that_fails_is_not_kept(best: BestCheckpoint, broken: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    policy = always(1, tmp_path / "one.safetensors")
    failing = BestCheckpoint(ENVIRONMENT, open_corpus(broken, toolchain=toolchain), tmp_path / "kept.safetensors")
    assert failing.offer(policy) == math.inf
    assert failing.policy == ""
    assert not (tmp_path / "kept.safetensors").exists()


def test_a_file_that_is_not_there_is_an_error(best: BestCheckpoint, tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match=r"nothing\.safetensors"):
        best.offer(f"mlp:{tmp_path / 'nothing.safetensors'}")
