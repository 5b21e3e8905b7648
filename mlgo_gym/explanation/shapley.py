"""Shapley values of a policy's features, by the library SHAP (Lundberg and Lee 2017)."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MissingExtraError, MlgoError
from mlgo_gym.explanation.played import Seen, answers, own_choice, preferences
from mlgo_gym.policies import Policy

_BACKGROUND = 50


def shapley_values(
    env: CompilerEnv, policy: Policy, pool: npt.NDArray[np.float32], decisions: int, seed: int
) -> npt.NDArray[np.float64]:
    """Return what each feature adds to a policy's preference for action 1, against what it sees on the average.

    The preference is the logit of a network, and of any other policy its answer, 0 or 1.

    Args:
        env: the environment; its actions are no and yes.
        policy: the policy.
        pool: float32 of shape (at least 2, features): decisions.
        decisions: of so many of them values are taken.
        seed: the source of chance.

    Returns:
        float64 of shape (decisions, features).

    Raises:
        MissingExtraError: shap is not installed.
        MlgoError: there are other actions.
    """
    if not isinstance(env.action_space, gym.spaces.Discrete) or env.action_space.n != 2:
        raise MlgoError(f"Shapley values are of a yes or no, and the actions are {env.action_space}: leave --shap out")
    try:
        import shap
    except ImportError as error:
        raise MissingExtraError("Shapley values", "shap") from error
    own = own_choice(env)

    def preference(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        narrow = np.asarray(rows, np.float32)
        logits = preferences(policy, narrow)
        if logits is not None:
            return np.asarray(logits, float)
        return np.array(answers(policy, [Seen(row, None, 0, "") for row in narrow], narrow, own), float)

    chosen = np.random.default_rng(seed).permutation(len(pool))
    masker = shap.maskers.Independent(pool[chosen[:_BACKGROUND]], max_samples=_BACKGROUND)
    explainer = shap.PermutationExplainer(preference, masker, seed=seed)
    explained = explainer(pool[chosen[:decisions]], max_evals=2 * pool.shape[1] + 1, silent=True)
    values: npt.NDArray[np.float64] = np.asarray(explained.values, float)
    return values
