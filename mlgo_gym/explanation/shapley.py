"""Shapley values of a policy's features, by the library SHAP (Lundberg and Lee, 2017)."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.explanation.recorded_decisions import RecordedDecision, Rows, actions_on, default_column, logits_on
from mlgo_gym.extras import library
from mlgo_gym.policies import Policy

_BACKGROUND = 50  # decisions that stand for the average


def shapley_values(env: CompilerEnv, policy: Policy, pool: Rows, decisions: int, seed: int) -> npt.NDArray[np.float64]:
    """Return the Shapley values of the features for a policy's preference for action 1.

    The preference is the logit of a network, and the action of any other policy. The pool has at least two decisions;
    the values are float64 of shape (decisions, features).

    Raises:
        MissingExtraError: shap is not installed.
        MlgoError: The environment has other actions.
    """
    if not isinstance(env.action_space, gym.spaces.Discrete) or env.action_space.n != 2:
        raise MlgoError(f"expected two actions for Shapley values, got {env.action_space}; use --shap 0")
    shap = library("shap", "Shapley values", "shap")
    column = default_column(env)

    def preference(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        narrow = np.asarray(rows, np.float32)
        logits = logits_on(policy, narrow)
        if logits is not None:
            return np.asarray(logits, float)
        decisions = [RecordedDecision(row, None, 0, "") for row in narrow]
        return np.array(actions_on(policy, decisions, narrow, column), float)

    chosen = np.random.default_rng(seed).permutation(len(pool))
    masker = shap.maskers.Independent(pool[chosen[:_BACKGROUND]], max_samples=_BACKGROUND)
    explainer = shap.PermutationExplainer(preference, masker, seed=seed)
    explained = explainer(pool[chosen[:decisions]], max_evals=2 * pool.shape[1] + 1, silent=True)
    values: npt.NDArray[np.float64] = np.asarray(explained.values, float)
    return values
