"""Search of evictions in all functions at once: a compile tries something in every function, and each keeps its best.

The allocation of a function does not depend on that of others. So one compile of a module rates a trial in each of its
functions, and the best trials of all functions add up.
"""

import math
from collections.abc import Callable

import numpy as np

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.episode.allocation_compile import AllocationCompile, can_split, legal_answer, run_allocation_compile
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.policies import Policy
from mlgo_gym.search.search_space import Found, SearchSpace

NOTHING = 0.3
"""Share of the trials that evict nothing, where that is legal."""

_MIN_RULES = 8  # compiles from which other rules are tried first


class FunctionSearch:
    """The state of a search of all functions at once. Errors are those of `search_module()`."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        if not can_split(space.setup):
            raise MlgoError(
                f"expected a metric of functions to search evictions, got {space.setup.metric!r}; use "
                "metric='spill_cost'"
            )
        setup = space.setup
        self._space, self._generator = space, np.random.default_rng(seed)
        self._nothing = int(space.task.action_space.n) - 1  # type: ignore[attr-defined]  # Discrete, as its task says
        self._compilation = setup.compilation(space.module)
        plain = measure_baseline(self._compilation, setup.timeout, optimization_record=space.task.optimization_record)
        self._baseline = space.task.outcome(plain, setup.metric)
        first = self._first = self._compile(lambda decision, _: self._default(decision))
        # The best known compile of each function.
        self._best = dict.fromkeys(first.functions, first)
        self._record()

    def run(self) -> Found:
        """Search until the budget is spent; return the best compile, which verifies what was found."""
        space = self._space
        if space.start is not None:
            self._try(self._legal(space.start))
        if space.budget.remaining >= _MIN_RULES:
            for policy in space.further_policies.values():
                self._try(self._legal(policy))
        while space.budget.remaining > 1 and not space.budget.is_spent:
            self._try_flips()
        actions = (eviction.answer for name in self._first.functions for eviction in self._best[name].functions[name])
        verified = self._compile(lambda *_: next(actions))
        space.record(verified.cost)
        return verified.actions, verified.cost, self._baseline

    def _default(self, decision: Decision) -> int:
        return int(self._space.task.default_action(decision))

    def _legal(self, policy: Policy) -> Callable[[Decision, int], int]:
        task, action_of = self._space.task, self._space.action_of
        return lambda decision, index: legal_answer(task, decision, action_of(policy, decision, index))

    def _compile(self, choose: Callable[[Decision, int], int]) -> AllocationCompile:
        return run_allocation_compile(self._space.setup, self._compilation, choose)

    def _record(self) -> None:
        """Count a compile; the cost is that of the best allocation of each function."""
        changes = (self._first.change(name, best) for name, best in self._best.items())
        self._space.record(self._first.cost + math.fsum(changes))

    def _try(self, choose: Callable[[Decision, int], int]) -> None:
        try:
            compiled = self._compile(choose)
        except CompilerError:
            self._space.record(None)
            return
        for name, best in self._best.items():
            if best.change(name, compiled) < 0:
                self._best[name] = compiled
        self._record()

    def _try_flips(self) -> None:
        """Compile the best columns of each function, but for one decision that takes another column."""
        flips: dict[tuple[str, int], int] = {}
        for name, best in self._best.items():
            decisions = best.functions[name]
            index = int(self._generator.integers(len(decisions)))
            _, answer, legal = decisions[index]
            columns = [column for column in legal if column != answer]
            if columns:
                takes_nothing = columns[-1] == self._nothing and self._generator.random() < NOTHING
                flips[name, index] = self._nothing if takes_nothing else int(self._generator.choice(columns))

        def choose(decision: Decision, _: int) -> int:
            name, _, index = decision.site
            if (name, index) in flips:
                return flips[name, index]
            # Behind a flip the same columns are tried where clang's own choice was not taken before.
            for known in self._best[name].functions[name][index : index + 1]:
                if known.decision.payload == decision.payload:
                    return known.answer
            return self._default(decision)

        self._try(choose)
