"""The decisions of a module, the policies that a search combines, and the budget of a search."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.outcome import costs
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.llvm.advisors import EVICTION
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.tasks.measurement import INSTRUCTIONS

PORTFOLIO = ("default", "threshold:0", "last-call", "threshold:20", "never")
"""Policies of inlining whose decisions a search combines, as a whole and function by function.

With 10 compiles, `threshold:20` is better on training modules than `threshold:5`, which is clang's own at -Oz.
"""

FAST_PORTFOLIO = ("default", "threshold:50", "threshold:400", "threshold:5", "always")
"""The same where executed instructions cost."""

EVICTION_PORTFOLIO = ("evict", "ratio:2", "ratio:0.5", "ratio:1.25", "never_evict")
"""Policies of evictions whose decisions a search combines, function by function."""


def search_arguments(environment: str, arguments: Mapping[str, Any], start: str) -> dict[str, Any]:
    """Return arguments of an environment for a search from a policy: callee features are on if one policy uses them."""
    portfolio = EVICTION_PORTFOLIO if "RegAlloc" in environment else PORTFOLIO
    return with_callee_features(arguments, [start, *portfolio])


class Budget:
    """Limits of a search. Without limits a search runs until nothing is left to try.

    Args:
        compiles: Maximum number of finished compiles; None is unlimited.
        seconds: Maximum time from now, in seconds; None is unlimited.

    Attributes:
        spent: Number of compiles so far.

    Raises:
        MlgoError: A limit is not positive.
    """

    def __init__(self, compiles: int | None = None, seconds: float | None = None) -> None:
        if compiles is not None and compiles < 1:
            raise MlgoError(f"expected compiles ≥ 1, got {compiles}; use None for no limit")
        if seconds is not None and not seconds > 0:
            raise MlgoError(f"expected seconds > 0, got {seconds}; use None for no limit")
        self._compiles = math.inf if compiles is None else compiles
        self._limit = math.inf if seconds is None else seconds
        self._start = time.monotonic()
        self.spent = 0

    @property
    def seconds(self) -> float:
        """Seconds since the budget was made."""
        return time.monotonic() - self._start

    @property
    def remaining(self) -> float:
        """Number of compiles left; infinite without a limit."""
        return self._compiles - self.spent

    @property
    def is_spent(self) -> bool:
        """Whether a limit is reached."""
        return self.remaining <= 0 or self.seconds >= self._limit

    @property
    def is_unlimited(self) -> bool:
        """Whether there is no limit."""
        return math.isinf(self._compiles) and math.isinf(self._limit)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A finished compile.

    Attributes:
        actions: The action of each decision.
        cost: Cost by the environment's metric; smaller is better.
        baseline: Cost of clang's own heuristic.
    """

    actions: tuple[int, ...]
    cost: float
    baseline: float


class SearchSpace:
    """The decisions of one module.

    Args:
        env: The environment; it gives compiler, flags and metric.
        module: The module.
        budget: Limits of the search.
        start: Policy whose decisions the search starts from; None is clang's own.
        seed: Seed of random policies.

    Attributes:
        best: The leaf with the least cost so far; its cost is infinite before the first one.
        improvements: Index (from 1) and cost of each compile that cost less than all before.
        failed: Number of failed compiles; they count against the budget.

    Raises:
        MlgoError: The episodes of the environment are of one function.
    """

    def __init__(
        self, env: CompilerEnv, module: Module, budget: Budget, start: Policy | None = None, seed: int = 0
    ) -> None:
        if env.setup.options.scope != "module":
            raise MlgoError(f"expected scope='module' for a search, got {env.setup.options.scope!r}; omit it")
        self.setup, self.task = env.setup, env.task
        self.module, self.budget, self.start = module, budget, start
        self._env, self._seed = env, seed
        self.best = Leaf((), math.inf, math.inf)
        self.improvements: list[tuple[int, float]] = []
        self.failed = 0

    @cached_property
    def portfolio(self) -> dict[str, Policy]:
        """Policies by name whose decisions a search may combine; those that do not fit the compiler are absent."""
        policies = {}
        inlining = FAST_PORTFOLIO if INSTRUCTIONS in self.setup.weights else PORTFOLIO
        for name in EVICTION_PORTFOLIO if self.task.advisors == (EVICTION,) else inlining:
            with suppress(PolicyError):
                policies[name] = load_policy(name, self._env, seed=self._seed)
        return policies

    def action_of(self, policy: Policy | None, decision: Decision, index: int) -> int:
        """Return the action of a policy at the decision with an index; the policy None is clang's own choice."""
        if policy is None:
            return int(self.task.default_action(decision))
        info = decision_info(self.task, decision, self.module.name, index)
        return int(policy.act(self.task.observe(decision), info))

    def record(self, leaf: Leaf) -> None:
        """Count a finished compile."""
        self.budget.spent += 1
        if leaf.cost < self.best.cost:
            self.best = leaf
            self.improvements.append((self.budget.spent, leaf.cost))

    def record_failure(self) -> None:
        """Count a failed compile."""
        self.budget.spent += 1
        self.failed += 1

    def begin(self) -> Episode:
        """Start a compile and return it at its first decision.

        Raises:
            CorpusError: The module has no decision.
            CompilerError: The compile failed.
        """
        work = self._env.maker.begin(np.random.default_rng(0), self.module)
        episode = run_blocking(work, self.setup.timeout)
        episode.strict = episode.raises = True
        return episode

    def replay(self, actions: tuple[int, ...]) -> float:
        """Return the cost of some actions in a new compile.

        Raises:
            MlgoError: An action is illegal, or the number of decisions differs.
            CompilerError: The compile failed.
        """
        with closing(self.begin()) as episode:
            for number, action in enumerate(actions):
                if episode.decision is None:
                    raise MlgoError(f"expected {len(actions)} decisions to replay, got {number}")
                episode.take(action)
            if episode.decision is not None:
                raise MlgoError(f"expected {len(actions)} decisions to replay, got more")
            return costs(episode)[0]
