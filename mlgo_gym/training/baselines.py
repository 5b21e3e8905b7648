"""Baselines that play the same module: policies, look-ahead, and recipes that a search found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_clang.recipes import SUFFIX
from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import policy_identity
from mlgo_gym.policies.observation_samples import flat_part
from mlgo_gym.policies.shipping import RECIPES
from mlgo_gym.storage.recipe import read_recipe
from mlgo_gym.training.clone import Answers
from mlgo_gym.training.look_ahead import LookAheadPolicy

LOOK_AHEAD = "look-ahead"
"""A baseline that tries other actions in copies of the compile; `look-ahead:N` tries at most N at each decision."""

Place = tuple[str, int, int]
"""Where an inlining decision stands: the component, the number of the visit, and the position within it."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a baseline did in one episode, and what came of it.

    Attributes:
        answers: its decisions.
        reward: what the environment gave for them in all.
        places: where each decision stands; none but for inlining.
        functions: the bytes of each function; none but for inlining.
    """

    answers: Answers
    reward: float
    places: tuple[Place, ...]
    functions: Mapping[str, int]


class PlacedAnswers:
    """Answers by where a decision stands; where nothing is known, as clang would.

    Args:
        answers: the answer at each place.
    """

    def __init__(self, answers: Mapping[Place, int]) -> None:
        self._answers = answers

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:  # noqa: ARG002 - the interface of a policy
        """Return the answer that is known for this place, or clang's own."""
        return self._answers.get((info["context"], info["visit"], info["position"]), int(info["default_action"]))


def baseline_policy(spec: str, env: CompilerEnv, module: Module, seed: int) -> Policy | None:
    """Return who answers for a baseline in a module; None where a folder of recipes has none for it.

    Args:
        spec: what `load_policy` takes, `recipes:FOLDER`, or `look-ahead:N`.
        env: the environment.
        module: the module.
        seed: what random policies depend on.

    Raises:
        MlgoError: there is no such policy or folder.
    """
    if spec.partition(":")[0] == LOOK_AHEAD:
        return LookAheadPolicy(env, _tries(spec), seed=seed)
    if not spec.startswith(RECIPES):
        return load_policy(spec, env, seed=seed)
    path = Path(spec.removeprefix(RECIPES), f"{module.digest()}{SUFFIX}")
    if not path.exists():
        return None
    recipe = read_recipe(path)
    recipe.check(module.digest(), env.toolchain.version_text)
    return PlacedAnswers(
        {
            (component, visit, position): answer
            for (component, visit), answers in recipe.by_context().items()
            for position, answer in enumerate(answers)
        }
    )


def baseline_identity(spec: str) -> str:
    """Return what tells a baseline from another of the same name.

    Raises:
        MlgoError: there is no such policy or folder.
    """
    if spec.partition(":")[0] == LOOK_AHEAD:
        return f"{LOOK_AHEAD}:{_tries(spec)}"
    if not spec.startswith(RECIPES):
        return policy_identity(spec)
    folder = Path(spec.removeprefix(RECIPES))
    if not folder.is_dir():
        raise MlgoError(f"a folder of recipes was wanted, and {folder} is none; mlgo-gym search --recipes makes one")
    return spec


def _tries(spec: str) -> int:
    number = spec.partition(":")[2] or "4"
    if not number.isdecimal():
        raise MlgoError(f"look-ahead takes a number of actions, found {spec!r}; write it as in look-ahead:4")
    return int(number)


def play(env: CompilerEnv, policy: Policy, options: Mapping[str, Any]) -> Played:
    """Play one episode, and return what was done and what came of it.

    Args:
        env: the environment; one of inlining has `credit=True`.
        policy: who decides.
        options: those of `reset()`: the module, and the function where an episode is one.

    Raises:
        MlgoError: the compile failed.
    """
    observation, info = env.reset(options=dict(options))
    actions = int(env.action_space.n)  # type: ignore[attr-defined] # BestOf has checked that they are discrete
    everything = np.ones(actions, np.bool_)
    rows, answers, legal, places = [], [], [], []
    total, over = 0.0, False
    while not over:
        action = int(policy.act(observation, info))
        mask = info.get("action_mask")
        if mask is not None and not mask[action]:
            action = int(info["default_action"])
        rows.append(flat_part(observation))
        answers.append(action)
        legal.append(everything if mask is None else np.asarray(mask, np.bool_))
        if "visit" in info:
            places.append((info["context"], info["visit"], info["position"]))
        observation, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        over = terminated or truncated
    if "error" in info:
        raise MlgoError(f"the compile of {options} failed: {info['error']}")
    given = Answers(np.stack(rows), np.array(answers), np.stack(legal))
    sizes = info["function_sizes"].functions if "function_sizes" in info else {}
    return Played(given, total, tuple(places), sizes)
