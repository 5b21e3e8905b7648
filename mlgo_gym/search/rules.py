"""Policies as ways to decide that a search takes parts of."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.placed_compile import PlacedDecision
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.search.search_space import SearchSpace
from mlgo_gym.session.decision import Decision

PORTFOLIO = ("default", "threshold:0", "inline-oz-plain", "inline-os-plain", "never")
"""The policies whose decisions are tried as they are, and by function."""


def load_portfolio(env: CompilerEnv, seed: int = 0) -> dict[str, Policy]:
    """Return the policies of the portfolio that fit an environment, by name; networks need features of clang 19."""
    loaded = {name: _load(name, env, seed) for name in PORTFOLIO}
    return {name: policy for name, policy in loaded.items() if policy is not None}


def _load(name: str, env: CompilerEnv, seed: int) -> Policy | None:
    try:
        return load_policy(name, env, seed=seed)
    except PolicyError:
        return None


class Rules:
    """What policies would answer to decisions that were made.

    Args:
        space: the decisions.
        policies: the policies by name; they answer equal observations alike.
    """

    def __init__(self, space: SearchSpace, policies: Mapping[str, Policy]) -> None:
        self._space = space
        self._policies = dict(policies)
        self._known: dict[str, dict[Hashable, int]] = {name: {} for name in policies}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the policies."""
        return tuple(self._policies)

    def _answer(self, name: str, decision: PlacedDecision) -> int:
        asked = Decision(0, decision.component, decision.position, decision.payload, decision.visit)
        return self._space.action_of(self._policies[name], asked, 0)

    def suggestions(self, decisions: Sequence[PlacedDecision]) -> dict[str, list[int]]:
        """Return what each policy would answer to some decisions, or would have when it first saw the same call.

        Whatever changes anywhere changes some features of all calls (LLVM counts nodes and edges), and few answers.
        """
        found: dict[str, list[int]] = {}
        for name, known in self._known.items():
            answers = []
            for decision in decisions:
                call = (*decision[:3], decision.callee)
                if call not in known:
                    known[call] = self._answer(name, decision)
                answers.append(known[call])
            found[name] = answers
        return found

    def agrees(self, name: str, decisions: Sequence[PlacedDecision]) -> bool:
        """Return whether a policy would have made all decisions of a compile: its own would be the same compile."""
        return all(self._answer(name, decision) == decision.answer for decision in decisions)
