"""Draws follow their seed, as every training does (`training/test_every_training.py`): others give other results."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym import evaluate, load_policy
from mlgo_gym.make_env import make_environment
from mlgo_gym.training.flip_labels import label_by_flips
from tests.conftest import MakeBitcode

INLINE, EVICT = "mlgo/Inline-v0", "mlgo/RegAllocEvict-v0"


@pytest.fixture(scope="module")
def many(make_bitcode: MakeBitcode, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of twelve modules."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(12):
        make_bitcode(("families.c", "spills.c", "calls.c")[number % 3]).rename(folder / f"m{number}.bc")
    return str(folder)


def starts(name: str, key: str, corpus: str, seed: int, **arguments: Any) -> object:
    env = gym.make(name, corpus=corpus, **arguments)
    drawn = [env.reset(seed=seed if index == 0 else None)[1][key] for index in range(6)]
    env.close()
    return drawn


def vector_modules(corpus: str, seed: int) -> object:
    envs = gym.make_vec(INLINE, num_envs=4, corpus=corpus)
    infos = [envs.reset(seed=seed)[1], envs.reset()[1]]
    envs.close()
    return [info["module"].tolist() for info in infos]


def bandit_rows(corpus: str, seed: int) -> object:
    env = gym.make("mlgo/InlineBandit-v0")
    return env.reset(seed=seed)[0].tolist(), env.reset()[0].tolist()


def limited_evaluation(corpus: str, seed: int) -> object:
    return sorted(
        episode.module for episode in evaluate(INLINE, policies=["default"], corpus=corpus, seed=seed, limit=3).episodes
    )


def random_evaluation(corpus: str, seed: int) -> object:
    result = evaluate(INLINE, policies=["random"], corpus=corpus, seed=seed, limit=None)
    return {episode.module: episode.actions for episode in result.episodes}


def labelled_decisions(corpus: str, seed: int) -> object:
    env = make_environment(INLINE, {"corpus": corpus})
    found = label_by_flips(env, load_policy("default", env), "m0", compiles=2, seed=seed)
    return found.columns["position"].tolist()


DRAWS: dict[str, Callable[[str, int], object]] = {
    "sampled modules": partial(starts, INLINE, "module"),
    "sampled weights": partial(starts, INLINE, "module", module_order={"m1*": 1.0, "*": 0.5}),
    "shuffled modules": partial(starts, INLINE, "module", module_order="shuffle"),
    "sampled functions": partial(starts, EVICT, "context", scope="function"),
    "modules of a vector": vector_modules,
    "rows of the bandit": bandit_rows,
    "limited evaluation": limited_evaluation,
    "random policy": random_evaluation,
    "labelled decisions": labelled_decisions,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))
def test_a_draw_follows_its_seed(draw: Callable[[str, int], Any], many: str) -> None:
    first, again, other = draw(many, 7), draw(many, 7), draw(many, 8)
    assert first == again
    assert first != other
