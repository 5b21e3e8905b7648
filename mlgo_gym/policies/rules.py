"""Rules: policies without anything learned, by name."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import EVICTION, PRIORITY
from mlgo_gym.llvm.eviction_rule import default_eviction
from mlgo_gym.policies.features import check_advisor, check_binary, feature_vector, misfit
from mlgo_gym.policies.protocol import Policy

_LARGEST = 2.0**24
"""Size in slots above which `size_order` treats live ranges alike: float32 holds every smaller size."""


class Rule:
    """A policy that is one function of the observation and the info."""

    def __init__(self, decide: Callable[[Any, Mapping[str, Any]], Any]) -> None:
        self._decide = decide

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the action for a decision."""
        return self._decide(observation, info)


def default_policy(_env: CompilerEnv, _seed: int) -> Policy:
    """Return clang's own choice at every decision."""
    return Rule(lambda _observation, info: info["default_action"])


def never_policy(env: CompilerEnv, _seed: int) -> Policy:
    """Return the action 0 at every decision."""
    check_binary("never", env)
    return Rule(lambda _observation, _info: 0)


def always_policy(env: CompilerEnv, _seed: int) -> Policy:
    """Return the action 1 at every decision."""
    check_binary("always", env)
    return Rule(lambda _observation, _info: 1)


def random_policy(env: CompilerEnv, seed: int) -> Policy:
    """Draw uniformly among the legal actions, or from the whole action space without a mask.

    Each episode has its own generator, seeded by the seed and the module's name. So its actions depend neither on the
    order of the modules nor on the number of processes.
    """
    space = copy.deepcopy(env.action_space)

    def draw(_observation: Any, info: Mapping[str, Any]) -> Any:
        if info["decision_index"] == 0:
            digest = hashlib.sha256(f"{seed}:{info['module']}".encode(errors="surrogateescape")).digest()
            space.seed(int.from_bytes(digest[:4], "little"))
        mask = info.get("action_mask")
        return space.sample() if mask is None else space.sample(mask)

    return Rule(draw)


def threshold_policy(env: CompilerEnv, threshold: float = 0.0) -> Policy:
    """Inline a call if its `cost_estimate` is below a threshold, in LLVM's inline-cost units.

    The estimate is that of `getInliningCostEstimate` (llvm/lib/Analysis/InlineCost.cpp): 5 per instruction, and
    negative if the call itself costs more than the callee's body.
    """
    check_binary("threshold", env)
    cost = feature_vector("threshold", env, ["cost_estimate"])
    return Rule(lambda observation, _info: int(cost(observation)[0] < threshold))


def ratio_policy(env: CompilerEnv, ratio: float) -> Policy:
    """Evict by LLVM's own rule, but live ranges up to a multiple of the candidate's weight (> 0; 1 in LLVM).

    Where all weights are 0 because one is infinite, it takes clang's own choice.
    """
    check_advisor("ratio", env, EVICTION)
    if not ratio > 0:
        raise PolicyError(
            f"expected ratio:NUMBER with a number > 0, got ratio:{ratio:g}; write for instance ratio:1.25"
        )
    columns = int(env.action_space.n)  # type: ignore[attr-defined]
    names = ("is_hint", "is_local", "nr_broken_hints", "nr_urgent", "use_def_density")
    find = feature_vector("ratio", env, [f"{name}[{column}]" for name in names for column in range(columns)])

    def decide(observation: Any, info: Mapping[str, Any]) -> Any:
        features = find(observation).reshape(len(names), columns).tolist()
        if not any(features[-1]):
            return info["default_action"]
        return default_eviction(info["action_mask"], *features, ratio=ratio)

    return Rule(decide)


def first_legal_policy(env: CompilerEnv, _seed: int) -> Policy:
    """Evict from the first legal register in allocation order."""
    check_advisor("first_legal", env, EVICTION)
    return Rule(lambda _observation, info: int(np.argmax(info["action_mask"])))


def never_evict_policy(env: CompilerEnv, _seed: int) -> Policy:
    """Evict nothing, the last action, so that the candidate is split or spilled; clang's choice if it must evict."""
    check_advisor("never_evict", env, EVICTION)

    def keep(_observation: Any, info: Mapping[str, Any]) -> Any:
        mask = info["action_mask"]
        return len(mask) - 1 if mask[-1] else info["default_action"]

    return Rule(keep)


def size_order_policy(env: CompilerEnv, _seed: int) -> Policy:
    """Allocate the largest live ranges first: the action is in proportion to `li_size`, in instruction slots.

    Clang also considers the stage, the start and the registers of a live range.
    """
    check_advisor("size_order", env, PRIORITY)
    space = env.action_space
    if not (isinstance(space, gym.spaces.Box) and space.low.size == 1):
        raise misfit("size_order", "an action space Box of one number", str(space))
    size = feature_vector("size_order", env, ["li_size"])

    def order(observation: Any, _info: Mapping[str, Any]) -> Any:
        part = min(float(size(observation)[0]), _LARGEST) / _LARGEST
        return (space.low + part * (space.high - space.low)).astype(space.dtype)

    return Rule(order)


RULES: dict[str, Callable[[CompilerEnv, int], Policy]] = {
    "default": default_policy,
    "random": random_policy,
    "threshold": lambda env, _seed: threshold_policy(env),
    "never": never_policy,
    "always": always_policy,
    "first_legal": first_legal_policy,
    "never_evict": never_evict_policy,
    "size_order": size_order_policy,
}
"""Rules by name; each takes an environment and a seed, and raises a PolicyError if it does not fit."""
