"""Labels of inlining and networks that need no compiler."""

import numpy as np

from mlgo_gym.policies.network import Network
from mlgo_gym.training import Labels

FEATURES = (
    *("cost_estimate", "threshold", "last_call_to_static_bonus", "unsimplified_common_instructions"),
    *("simplified_instructions", "callsite_cost", "call_penalty", "callee_users", "node_count", "inlining_default"),
)


def inlining_labels(count: int = 600, *, modules: int = 30, first: int = 0) -> Labels:
    """Return labels of calls whose inlining is smaller where their estimated cost is below 0."""
    rows = np.round(np.random.default_rng(first).normal(0, 50, (count, len(FEATURES))))
    rows[:, -1] = 0
    groups = np.arange(count) % modules
    names = [f"m{first + number}" for number in groups]
    return Labels(
        FEATURES,
        rows,
        np.zeros(count, np.int64),
        rows[:, 0] * 2,
        np.full(count, 1_000_000),
        np.full(count, 2.0),
        groups,
        np.array(names),
        np.array([f"{first + number:064d}"[::-1] for number in groups]),
    )


def constant(answer: float, hidden: float = 0.0) -> Network:
    """Return a network that gives one answer everywhere where its hidden weights are 0: 0 keeps, 1 inlines."""
    weights = (np.full((2, 4), hidden, np.float32), np.full((4, 1), -hidden, np.float32))
    biases = (np.zeros(4, np.float32), np.array([2.0 * answer - 1], np.float32))
    return Network(("cost_estimate", "inlining_default"), weights, biases)
