"""The decisions of a module as a tree, and the budget of a search.

A compile that waits at a decision is a branch of the tree; a finished compile is a leaf.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.outcome import costs
from mlgo_gym.errors import ActionError, CompilerError, MlgoError, PolicyError
from mlgo_gym.llvm.advisors import EVICTION
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.tasks.measurement import INSTRUCTIONS

PORTFOLIO = ("default", "threshold:0", "last-call", "threshold:5", "never")
"""Policies of inlining whose decisions a search combines, as a whole and function by function."""

FAST_PORTFOLIO = ("default", "threshold:50", "threshold:400", "threshold:5", "always")
"""The same where executed instructions cost."""

EVICTION_PORTFOLIO = ("evict", "ratio:2", "ratio:0.5", "ratio:1.25", "never_evict")
"""Policies of evictions whose decisions a search combines, function by function."""


def bundle_arguments(arguments: Mapping[str, Any], start: str) -> dict[str, Any]:
    """Return arguments of an environment for bundles from a policy: callee features are on if one policy uses them."""
    return with_callee_features(arguments, [start, *PORTFOLIO])


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

    def is_spent_after(self, compiles: int) -> bool:
        """Return whether a limit is reached; without limits, whether a number of compiles is."""
        is_unlimited = math.isinf(self._compiles) and math.isinf(self._limit)
        return self.spent >= compiles if is_unlimited else self.is_spent


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


class Branch(AbstractContextManager["Branch"]):
    """A compile that waits at a decision, or has no more decisions.

    Attributes:
        actions: The actions so far.
    """

    def __init__(self, space: SearchSpace, episode: Episode, actions: tuple[int, ...]) -> None:
        self._space, self._episode = space, episode
        self._failed = False
        self.actions = actions

    @property
    def decision(self) -> Decision | None:
        """The pending decision; None after the last one, and after a failure."""
        return None if self._failed else self._episode.decision

    @property
    def default(self) -> int:
        """Clang's own choice at the pending decision; `ActionError` after the last one."""
        return int(self._space.task.default_action(self._pending()))

    def _pending(self) -> Decision:
        if self.decision is None:
            raise ActionError("expected a pending decision, got the end of the compile; take another branch")
        return self.decision

    def candidates(self) -> list[int]:
        """Return the legal actions at the pending decision; raise `ActionError` after the last one."""
        mask = self._space.task.action_mask(self._pending())
        return list(range(self._space.size)) if mask is None else [int(action) for action in np.flatnonzero(mask)]

    def alternatives(self, leaf: Leaf) -> list[int]:
        """Return the legal actions that differ from a leaf's action at the pending decision."""
        return [action for action in self.candidates() if action != leaf.actions[len(self.actions)]]

    def fork(self) -> Branch:
        """Return an independent copy at the same decision."""
        return Branch(self._space, self._episode.fork(), self.actions)

    def take(self, action: int) -> None:
        """Take an action and run to the next decision; a failure that the actions cause ends the branch.

        Raises:
            ActionError: The action is illegal, or no decision is pending.
            CompilerError: The compile failed, and no compile of the module has succeeded.
        """
        self._pending()
        try:
            self._episode.take(action)
        except CompilerError:
            if math.isinf(self._space.best.cost):
                raise
            self._failed = True
        self.actions = (*self.actions, action)

    def roll_out(self, follow: tuple[int, ...] = ()) -> Leaf:
        """Finish the compile, close the branch and return its leaf.

        Each decision of the episode follows `follow` by its index; clang's own choice replaces illegal and missing
        actions.
        """
        with self:
            while self.decision is not None:
                index, action = len(self.actions), self.default
                if index < len(follow) and self._space.task.encode(self.decision, follow[index]) is not None:
                    action = follow[index]
                self.take(action)
            return self.leaf()

    def try_action(self, action: int, follow: tuple[int, ...] = ()) -> Leaf:
        """Return the leaf after an action and a rollout in a fork; see `roll_out()`."""
        with self.fork() as fork:
            fork.take(action)
            return fork.roll_out(follow)

    def leaf(self) -> Leaf:
        """Return the leaf of a compile, of infinite cost after a failure, and count it against the budget."""
        if self._failed:
            self._space.record_failure()
            return Leaf(self.actions, math.inf, self._space.best.baseline)
        leaf = Leaf(self.actions, *costs(self._episode))
        self._space.record(leaf)
        return leaf

    def close(self) -> None:
        """End the compile if it still runs. Idempotent."""
        self._episode.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class SearchSpace:
    """The decisions of one module.

    Args:
        env: The environment; it gives compiler, flags, metric and scope.
        module: The module.
        budget: Limits of the search.
        function: The function, with `scope="function"`.
        start: Policy whose decisions the search starts from, if it can start from a policy; None is clang's own.
        known: Columns of functions by the digest of their first request, which a search of evictions tries first.
        seed: Seed of random policies.

    Attributes:
        size: Number of actions.
        best: The leaf with the least cost so far; its cost is infinite before the first one.
        improvements: Index (from 1) and cost of each compile that cost less than all before.
        failed: Number of failed compiles; they count against the budget.

    Raises:
        MlgoError: The action space is not discrete.
    """

    def __init__(
        self,
        env: CompilerEnv,
        module: Module,
        budget: Budget,
        function: str | None = None,
        start: Policy | None = None,
        known: Mapping[str, Sequence[int]] | None = None,
        seed: int = 0,
    ) -> None:
        space = env.action_space
        if not isinstance(space, gym.spaces.Discrete):
            raise MlgoError(f"expected a Discrete action space to search, got {space}; use another environment")
        self.size = int(space.n)
        self.setup, self.task = env.setup, env.task
        self.module, self.budget, self.function, self.start = module, budget, function, start
        self.known = dict(known or {})
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

    def root(self) -> Branch:
        """Start a compile and return it at its first decision.

        Raises:
            CorpusError: The module has no decision.
            CompilerError: The compile failed.
        """
        work = self._env.maker.begin(np.random.default_rng(0), self.module, self.function)
        episode = run_blocking(work, self.setup.timeout)
        episode.strict = episode.raises = True
        return Branch(self, episode, ())

    def replay(self, actions: tuple[int, ...]) -> Leaf:
        """Return the leaf of some actions in a new compile.

        Raises:
            MlgoError: An action is illegal, or the number of decisions differs.
            CompilerError: The compile failed.
        """
        with self.root() as branch:
            for action in actions:
                if branch.decision is None:
                    raise MlgoError(f"expected {len(actions)} decisions to replay, got {len(branch.actions)}")
                branch.take(action)
            if branch.decision is not None:
                raise MlgoError(f"expected {len(actions)} decisions to replay, got more")
            return branch.leaf()
