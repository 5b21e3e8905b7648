"""The tree that a search looks into: a compile that waits at a decision is a branch, a finished one a leaf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import gymnasium as gym
import numpy as np

from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.outcome import costs
from mlgo_gym.episode.stepper import Stepper
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.answers import decision_info
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.search.budget import Budget
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.work import complete


@dataclass(frozen=True, slots=True)
class Leaf:
    """A finished compile.

    Attributes:
        actions: its decisions, one action each.
        cost: what it cost, by the environment's metric; smaller is better.
        baseline: what the compiler's own heuristic costs.
    """

    actions: tuple[int, ...]
    cost: float
    baseline: float


class Branch:
    """A compile in progress, and the actions that led to it.

    Attributes:
        actions: the actions so far.
    """

    def __init__(self, space: SearchSpace, stepper: Stepper, actions: tuple[int, ...]) -> None:
        self._space = space
        self._stepper = stepper
        self.actions = actions

    @property
    def decision(self) -> Decision | None:
        """The decision that waits; None when the compile is over."""
        return self._stepper.decision

    @property
    def default(self) -> int:
        """What clang itself would do now."""
        assert self.decision is not None
        return int(self._space.task.default_action(self.decision))

    def candidates(self) -> list[int]:
        """Return the actions that are legal now."""
        assert self.decision is not None
        mask = self._space.task.action_mask(self.decision)
        if mask is None:
            return list(range(self._space.size))
        actions: list[int] = np.flatnonzero(mask).tolist()
        return actions

    def fork(self) -> Branch:
        """Return an independent copy that waits at the same decision."""
        return Branch(self._space, self._stepper.fork(), self.actions)

    def take(self, action: int) -> None:
        """Answer the decision and go on to the next, or to the end.

        Raises:
            ActionError: the action is not legal now.
            CompilerError: the compile failed.
        """
        answer = self._stepper.encode(action)
        self.actions = (*self.actions, action)
        self._stepper.answer(answer)
        self._stepper.wait()

    def roll_out(self, follow: tuple[int, ...] = ()) -> Leaf:
        """Go on to the end and return the leaf; the branch is used up.

        Args:
            follow: actions to take, by the number of the decision, where they are legal; clang's own choice is taken
                elsewhere and afterwards.

        Raises:
            CompilerError: the compile failed.
        """
        try:
            while self.decision is not None:
                number = len(self.actions)
                wanted = follow[number] if number < len(follow) else None
                legal = wanted is not None and self._space.task.encode(self.decision, wanted) is not None
                self.take(wanted if legal and wanted is not None else self.default)
            return self.leaf()
        finally:
            self.close()

    def leaf(self) -> Leaf:
        """Return the leaf that a branch has become; it counts as a compile."""
        leaf = Leaf(self.actions, *costs(self._space.setup, self._stepper.episode))
        self._space.note(leaf)
        return leaf

    def close(self) -> None:
        """End the compile if it still runs. Idempotent."""
        self._stepper.close()

    def __enter__(self) -> Branch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SearchSpace:
    """The decisions of one module in one environment.

    Args:
        env: the environment; its compiler, flags, metric and scope are used.
        module: the module.
        budget: what the search may spend.
        function: with the scope of a function, which one.
        start: the policy whose decisions the search begins with, if it can begin with any; None is clang's own.
        portfolio: further policies by name, whose decisions a search may take parts of.

    Attributes:
        size: the number of actions.
        improvements: each compile that cost less than all before it: its number, from 1, and its cost.
        failed: how many compiles failed; they count as compiles.

    Raises:
        MlgoError: the environment's actions are not discrete, so they cannot be tried one by one.
    """

    def __init__(
        self,
        env: CompilerEnv,
        module: Module,
        budget: Budget,
        function: str | None = None,
        start: Policy | None = None,
        portfolio: Mapping[str, Policy] | None = None,
    ) -> None:
        space = env.action_space
        if not isinstance(space, gym.spaces.Discrete):
            raise MlgoError(f"a search tries actions one by one: it needs a Discrete action space, found {space}")
        self.size = int(space.n)
        self.setup = env.setup
        self.task = env.task
        self.module = module
        self.budget = budget
        self.function = function
        self.start = start
        self.portfolio = dict(portfolio or {})
        self._maker = env.maker
        self.improvements: list[tuple[int, float]] = []
        self.failed = 0

    def action_of(self, policy: Policy | None, decision: Decision, number: int) -> int:
        """Return what a policy does at a decision.

        Args:
            policy: the policy; None is clang's own.
            decision: the decision.
            number: its number in the compile, from 0.
        """
        if policy is None:
            return int(self.task.default_action(decision))
        info = decision_info(self.task, decision, self.module.name, number)
        return int(policy.act(self.task.observe(decision), info))

    def note(self, leaf: Leaf) -> None:
        """Count a compile."""
        self.budget.spent += 1
        if not self.improvements or leaf.cost < self.improvements[-1][1]:
            self.improvements.append((self.budget.spent, leaf.cost))

    def note_failure(self) -> None:
        """Count a compile that failed."""
        self.budget.spent += 1
        self.failed += 1

    def root(self) -> Branch:
        """Start the compile in a fresh clang and return it at its first decision.

        Raises:
            CorpusError: the module has no decision.
            CompilerError: the compile failed.
        """
        begun = complete(
            self._maker.begin(np.random.default_rng(0), self.module, self.function), self.setup.settings.timeout
        )
        return Branch(self, Stepper(self.setup, begun, strict=True, on_error="raise"), ())

    def replay(self, actions: tuple[int, ...]) -> Leaf:
        """Return the leaf of these decisions in a fresh clang.

        Raises:
            MlgoError: an action is not legal, or the compile asks more or fewer decisions.
            CompilerError: the compile failed.
        """
        with self.root() as branch:
            for action in actions:
                if branch.decision is None:
                    raise MlgoError(
                        f"{len(actions)} decisions were to be replayed, and there are {len(branch.actions)}"
                    )
                branch.take(action)
            if branch.decision is not None:
                raise MlgoError(f"{len(actions)} decisions were to be replayed, and there are more")
            return branch.leaf()
