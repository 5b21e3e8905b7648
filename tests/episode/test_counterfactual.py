"""A counterfactual is the cost of an episode with one decision flipped, by its index or by its site."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym import ActionError, DecisionSite, MlgoError
from mlgo_gym.envs import InlineEnv
from tests.fakes import drive

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def run(env: InlineEnv, answers: dict[DecisionSite, int], **options: Any) -> tuple[list[Any], dict[str, Any]]:
    """Run an episode with answers by site; return its sites and its last info."""
    infos, last = drive.run(env, lambda info: answers.get(info["site"], info["default_action"]), seed=0, **options)
    return [info["site"] for info in infos], last.info


def test_it_is_the_cost_of_the_episode_with_one_decision_flipped(families: Path) -> None:
    with InlineEnv(corpus=str(families), credit=True) as env:
        sites, _ = run(env, {})
        generator = random.Random(3)
        answers = {site: int(generator.random() < 0.5) for site in sites}
        sites, info = run(env, answers)
        actions = env.actions
        number = len(sites) // 2
        keys: list[Any] = [np.int64(number), sites[number], tuple(sites[number])]
        by_index, by_site, by_numbers = env.counterfactual(*keys)
        assert by_index == by_site == by_numbers
        assert by_index.site == sites[number]
        assert by_index.action == actions[number] == 1 - by_index.alternative
        assert by_index.cost == info["text"]
        assert env.actions == actions
        _, other = run(env, {**answers, sites[number]: by_index.alternative})
        assert by_index.alternative_cost == other["text"]
        assert by_index.saved == other["text"] - info["text"]


def test_any_number_of_decisions_is_flipped(families: Path) -> None:
    with InlineEnv(corpus=str(families), max_decisions=1) as env:
        _, info = env.reset()
        _, _, _, _, info = env.step(info["default_action"])
        number = 1 + info["handed_over"]
        assert number > 16
        found = env.counterfactual(*range(number))
        assert [each.decision_index for each in found] == list(range(number))


def test_an_unknown_decision_is_an_error(families: Path) -> None:
    with InlineEnv(corpus=str(families)) as env:
        with pytest.raises(ActionError, match="reset"):
            env.counterfactual(0)
        env.reset(seed=0)
        with pytest.raises(MlgoError, match="nowhere"):
            env.counterfactual(DecisionSite("nowhere", 0, 0))
        for wrong in (1.7, True, np.True_, "1", -1, ("f",)):
            with pytest.raises(MlgoError, match="expected a decision's index ≥ 0, got"):
                env.counterfactual(wrong)  # type: ignore[arg-type]
