"""A network with a margin deviates from its base only where the output exceeds the margin."""

from __future__ import annotations

import numpy as np
import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.training.margin import Base, with_margin

NAMES = ("a", "cost_estimate", "inlining_default")


def observations() -> np.ndarray:
    generator = np.random.default_rng(0)
    rows = np.round(generator.normal(0, 100, (4000, 3))).astype(np.float32)
    rows[:1000, 1] = generator.integers(-8, 12, 1000)
    rows[:, 2] = generator.random(4000) < 0.1
    return rows


def network(hidden: tuple[int, ...], *, normal: bool = True) -> Network:
    generator = np.random.default_rng(1)
    shapes = list(zip((3, *hidden), (*hidden, 1), strict=True))
    return Network(
        NAMES,
        tuple(generator.normal(size=shape).astype(np.float32) for shape in shapes),
        tuple(generator.normal(size=shape[1]).astype(np.float32) for shape in shapes),
        "relu",
        Normalization.fit(observations(), NAMES) if normal else None,
    )


@pytest.mark.parametrize("hidden", [(), (8,), (8, 5), (6, 5, 4)])
@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("margin", [0.0, 0.3, 2.0])
def test_it_deviates_from_clang_beyond_the_margin_alone(hidden: tuple[int, ...], normal: bool, margin: float) -> None:
    rows = observations()
    plain = network(hidden, normal=normal)
    logits = plain(rows)[:, 0]
    default = rows[:, 2] == 1
    wanted = np.where(default, logits > -margin, logits > margin)
    shifted = with_margin(plain, margin)(rows)[:, 0]
    clear = np.abs(np.abs(logits) - margin) > 1e-3
    assert clear.mean() > 0.9
    assert np.array_equal((shifted > 0)[clear], wanted[clear])
    if margin:
        assert np.allclose(shifted, logits + np.where(default, margin, -margin), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("hidden", [(8,), (8, 5), (6, 5, 4)])
@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("threshold", [-3, 0, 5])
def test_it_deviates_from_a_threshold_beyond_the_margin_alone(
    hidden: tuple[int, ...], normal: bool, threshold: int
) -> None:
    rows = observations()
    plain = network(hidden, normal=normal)
    logits = plain(rows)[:, 0]
    below = rows[:, 1] < threshold
    shifted = with_margin(plain, 0.8, f"threshold:{threshold}")(rows)[:, 0]
    assert 0.1 < below.mean() < 0.9
    assert np.allclose(shifted, logits + np.where(below, 0.8, -0.8), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize(("name", "answers"), [("default", [0, 1, 1]), ("threshold:5", [1, 1, 0])])
def test_a_base_answers_as_the_policy_of_its_name(name: str, answers: list[int]) -> None:
    base = Base.parse(name)
    assert base.name == name
    assert base.answers(NAMES, np.array([[0, -3, 0], [0, 4, 1], [0, 5, 1]])).tolist() == answers


@pytest.mark.parametrize("name", ["threshold:5.5", "never", "threshold:", "threshold:5 "])
def test_another_policy_is_no_base(name: str) -> None:
    with pytest.raises(MlgoError, match=r"expected a base, default or threshold:K with a whole number K, got"):
        Base.parse(name)


def test_a_network_without_the_feature_of_its_base_can_have_no_margin() -> None:
    blind = Network(("a",), (np.ones((1, 1), np.float32),), (np.ones(1, np.float32),))
    with pytest.raises(MlgoError, match=r"a hidden layer and inlining_default, got 1, relu, .* and a$"):
        with_margin(blind, 1.0)
    with pytest.raises(MlgoError, match=r"cost_estimate, got 1, relu, 1 outputs, 0 hidden layers"):
        with_margin(network(()), 1.0, "threshold:5")
    with pytest.raises(MlgoError, match="expected a margin ≥ 0"):
        with_margin(network((4,)), float("nan"))
