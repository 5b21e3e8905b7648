"""Policies whose decisions a search combines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mlgo_gym.compiler.protocol.decision import Decision
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.attribution.inline_compile import CallSite, InlineCompile, InlineDecision
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import EVICTION
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.search.search_space import SearchSpace
from mlgo_gym.tasks.measurement import INSTRUCTIONS

PORTFOLIO = ("default", "threshold:0", "inline-oz-fast", "inline-os-fast", "never")
"""The policies that a search tries, as a whole and function by function."""

FAST_PORTFOLIO = ("default", "threshold:50", "threshold:400", "inline-os-fast", "always")
"""The same where executed instructions cost."""

EVICTION_PORTFOLIO = ("evict", "ratio:2", "ratio:0.5", "ratio:1.25", "never_evict")
"""The policies that a search of evictions tries, function by function."""


def load_portfolio(env: CompilerEnv, seed: int = 0) -> dict[str, Policy]:
    """Return the policies of the portfolio that fit an environment, by name; networks need the features of clang 19."""
    loaded = {}
    inlining = FAST_PORTFOLIO if INSTRUCTIONS in env.setup.weights else PORTFOLIO
    for name in EVICTION_PORTFOLIO if env.task.advisors == (EVICTION,) else inlining:
        with suppress(PolicyError):
            loaded[name] = load_policy(name, env, seed=seed)
    return loaded


class PortfolioAnswers:
    """The answers of a search space's portfolio to recorded decisions."""

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._memory: dict[str, dict[CallSite, int]] = {name: {} for name in space.portfolio}

    def _answer(self, name: str, decision: InlineDecision) -> int:
        return self._space.action_of(self._space.portfolio[name], Decision(0, decision.site, decision.payload), 0)

    def of(self, decisions: Sequence[InlineDecision]) -> dict[str, list[int]]:
        """Return the answer of each policy to each decision; the first answer at a call site is kept.

        A flip changes some features of all calls, because LLVM counts nodes and edges, but few answers.
        """
        found: dict[str, list[int]] = {}
        for name, memory in self._memory.items():
            for decision in decisions:
                if decision.call_site not in memory:
                    memory[decision.call_site] = self._answer(name, decision)
            found[name] = [memory[decision.call_site] for decision in decisions]
        return found

    def agrees(self, name: str, decisions: Sequence[InlineDecision]) -> bool:
        """Return whether a policy would give all answers of a compile; its own compile is then the same."""
        return all(self._answer(name, decision) == decision.answer for decision in decisions)


class ReplayPolicy:
    """Repeats the answers of a compile by site; takes clang's own choice elsewhere.

    A search replaces a policy with callee features by its replay: callee features cost time in each compile, and change
    with every flip.

    Args:
        compiled: The compile.
    """

    def __init__(self, compiled: InlineCompile) -> None:
        self._answers = {decision.site: decision.answer for decision in compiled.decisions}

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the recorded answer at `info["site"]`, or clang's own choice."""
        del observation
        return self._answers.get(info["site"], info["default_action"])
