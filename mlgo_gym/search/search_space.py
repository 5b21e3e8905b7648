"""The decisions of a module, the policies that a search combines, and the budget of a search."""

import itertools
import math
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from functools import cached_property
from typing import Any

import numpy as np

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.corpus.link_view import as_built, merged_functions
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.attribution.affected_functions import Reach
from mlgo_gym.episode.attribution.inline_compile import run_inline_compile
from mlgo_gym.episode.episode_maker import EpisodeStart
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.policies.protocol import decide
from mlgo_gym.tasks.measurement import INSTRUCTIONS

PORTFOLIO = ("default", "threshold:0", "last-call", "threshold:20", "never")
"""Policies of inlining whose decisions a search combines, as a whole and function by function."""

FAST_PORTFOLIO = ("default", "threshold:50", "threshold:400", "threshold:5", "always")
"""The same where executed instructions cost."""


def portfolio_names(env: CompilerEnv) -> tuple[str, ...]:
    """Return the policies whose decisions a search in an environment combines."""
    return FAST_PORTFOLIO if INSTRUCTIONS in env.setup.weights else PORTFOLIO


def search_environment(
    environment: str, arguments: Mapping[str, Any], start: str
) -> tuple[CompilerEnv, dict[str, Any]]:
    """Return an environment for a search, and its arguments: with callee features if one of its policies uses them."""
    env = make_environment(environment, arguments)
    needed = with_callee_features(arguments, [start, *portfolio_names(env)])
    if needed != arguments:
        env.close()
        env = make_environment(environment, needed)
    return env, needed


class Budget:
    """Limits of a search. Without limits a search runs until nothing is left to try.

    The maximum numbers of finished compiles, of which `spent` is the number so far, and of seconds from now are
    positive, else `MlgoError`; None is unlimited.
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


Found = tuple[tuple[int, ...], float, float]
"""The action of each decision, their cost by the environment's metric, and the cost of clang's own heuristic."""


class SearchSpace:
    """The inlining decisions of one module; an MlgoError if the environment has other decisions.

    Args:
        env: The environment; it gives compiler, flags and metric.
        start_name: Policy whose decisions the search starts from.

    Attributes:
        start: That policy; None is clang's own choices.
        improvements: Index (from 1) and cost of each compile that cost less than all before.
        failed: Number of failed compiles; they count against the budget.
    """

    def __init__(
        self, env: CompilerEnv, module: Module, budget: Budget, start_name: str = "default", seed: int = 0
    ) -> None:
        if INLINING not in env.task.advisors:
            raise MlgoError(f"expected an environment of inlining to search, got {env.task.name}; use mlgo/Inline-v0")
        self.setup, self.task = env.setup, env.task
        self.module, self.budget, self.start_name = module, budget, start_name
        self.start = None if start_name == "default" else load_policy(start_name, env, seed=seed)
        self._env, self._seed = env, seed
        self.improvements: list[tuple[int, float]] = []
        self.failed = 0

    @cached_property
    def portfolio(self) -> dict[str, Policy]:
        """Policies by name whose decisions a search may combine; those that do not fit the compiler are absent."""
        policies = {}
        for name in portfolio_names(self._env):
            with suppress(PolicyError):
                policies[name] = load_policy(name, self._env, seed=self._seed)
        return policies

    def action_of(self, policy: Policy | None, decision: Decision, index: int) -> int:
        """Return the action of a policy at the decision with an index; the policy None is clang's own choice."""
        if policy is None:
            return int(self.task.default_action(decision))
        return int(decide(policy, self.task, decision, self.module.name, index))

    def merged_decisions(self) -> dict[str, dict[DecisionSite, int]]:
        """Return the start policy's decisions in a build, by context, that shape functions which the linker merges.

        Empty, and no compile, without the link view or without such functions.
        """
        merged, found = merged_functions(self.module), dict[str, dict[DecisionSite, int]]()
        if merged:
            indices = itertools.count()
            compiled = run_inline_compile(
                self.setup.compilation(as_built(self.module)),
                self.task,
                lambda decision: self.action_of(self.start, decision, next(indices)),
                self.setup.timeout,
            )
            self.budget.spent += 1
            reach = Reach([compiled.decisions])
            for decision in compiled.decisions:
                if not merged.isdisjoint(reach.of_context(decision.context)):
                    found.setdefault(decision.context, {})[decision.site] = decision.answer
        return found

    def record(self, cost: float | None) -> None:
        """Count a finished compile with a cost, or a failed one with None."""
        self.budget.spent += 1
        if cost is None:
            self.failed += 1
        elif not self.improvements or cost < self.improvements[-1][1]:
            self.improvements.append((self.budget.spent, cost))

    def replay(self, actions: tuple[int, ...]) -> float:
        """Return the cost of some actions in a new compile; an MlgoError if they are illegal, or too few or many."""
        work = self._env.maker.begin(np.random.default_rng(0), EpisodeStart(self.module))
        with closing(run_blocking(work, self.setup.timeout)) as episode:
            episode.strict = episode.raises = True
            for number, action in enumerate(actions):
                if episode.decision is None:
                    raise MlgoError(f"expected {len(actions)} decisions to replay, got {number}")
                episode.take(action)
            if episode.decision is not None:
                raise MlgoError(f"expected {len(actions)} decisions to replay, got more")
            return episode.cost()
