"""Permutation importance of a policy's features (Breiman, 2001).

Each feature gets the values of other decisions. On recorded decisions this gives the share of actions that change; in
compiles it gives the change of the cost. Features with nearly the same information replace each other, so each of them
looks less important than both together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, NoDecisionError
from mlgo_gym.evaluation.statistics import Change, estimates
from mlgo_gym.explanation.recorded_decisions import (
    PermutedPolicy,
    RecordedDecision,
    Rows,
    actions_on,
    default_column,
    feature_groups,
    feature_meanings,
)
from mlgo_gym.explanation.shapley import shapley_values
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.scheduling import Execution, ItemQueue, SequentialRunner, WorkerFailure

_REPEATS = 3  # permutations of each feature
_MAX_DECISIONS = 4000
_UNPERMUTED = ""

Item = tuple[str, str]
"""A module and the permuted feature; empty without permutation."""

Episode = tuple[float, list[RecordedDecision]]
"""Cost relative to clang's own, and the decisions; none with a permuted feature."""


@dataclass(frozen=True, slots=True)
class FeatureImportance:
    """The importance of one feature.

    Attributes:
        name: Name of the feature; a tensor with several columns is one feature.
        meaning: Meaning with its unit; empty if unknown.
        changed: Share of actions that change with the value of another decision.
        cost: Relative change of the geometric mean cost with permuted values: 0.02 is 2 % more. None if not measured.
        cost_interval: 95 % interval of `cost`; None with fewer than two modules.
        shap: Mean absolute Shapley value; None without.
    """

    name: str
    meaning: str
    changed: float
    cost: float | None = None
    cost_interval: tuple[float, float] | None = None
    shap: float | None = None


@dataclass(frozen=True, slots=True)
class ImportanceResult:
    """The importance of all features of a policy.

    Attributes:
        features: The features, the most important first.
        modules: Number of modules with decisions.
        decisions: Number of decisions in them.
        sampled: Number of these decisions that were permuted, drawn at random.
        failed: Error message of each module on which the policy failed.
    """

    features: list[FeatureImportance]
    modules: int
    decisions: int
    sampled: int
    failed: dict[str, str]


@dataclass(frozen=True)
class Importance:
    """Measures the importance of a policy's features.

    Attributes:
        corpus: The corpus, as in `open_corpus()`.
        policy: A deterministic policy, as in `load_policy()`.
        environment: Id of the environment.
        arguments: Further arguments of the environment.
        cost_features: Number of features whose cost is measured by compiles, those with the most changed actions first.
        shap: Number of decisions with Shapley values; 0 for none.
        seed: Seed of the random generator.
        limit: Maximum number of modules, drawn at random.
        largest: Maximum size of a module in bytes of bitcode.
    """

    corpus: str
    policy: str
    environment: str = "mlgo/Inline-v0"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cost_features: int = 6
    shap: int = 0
    seed: int = 0
    limit: int | None = None
    largest: int | None = None
    _pool: Rows | None = None

    def make(self) -> CompilerEnv:
        """Return the environment.

        Raises:
            MlgoError: The environment cannot be made, or its observations are not flat.
        """
        arguments = with_callee_features({**self.arguments, "corpus": self.corpus}, [self.policy])
        env = make_environment(self.environment, arguments)
        if env.setup.options.observation != "flat":
            raise MlgoError(f"expected observation='flat', got {env.setup.options.observation!r}; omit the argument")
        return env

    def modules(self, env: CompilerEnv) -> list[str]:
        """Return the modules to compile."""
        names = [name for name in env.corpus.names if self.largest is None or env.corpus.size(name) <= self.largest]
        np.random.default_rng(self.seed).shuffle(names)
        return names[: self.limit]

    def steps(self, env: CompilerEnv) -> int:
        """Return the maximum number of episodes."""
        return len(self.modules(env)) * (1 + min(self.cost_features, len(feature_groups(env.feature_names))))

    def run(self, execution: Execution = Execution(), note: Callable[[], None] = lambda: None) -> ImportanceResult:
        """Measure the importance of each feature.

        Args:
            execution: Worker processes of this machine. Default: this process.
            note: Called after each episode.

        Raises:
            MlgoError: The environment or the policy cannot be made, no module has a decision, or the policy is random.
            MissingExtraError: shap is not installed, and Shapley values are requested.
        """
        env = self.make()
        policy = load_policy(self.policy, env, seed=self.seed)
        names = self.modules(env)
        episodes, failed = self._run([(name, _UNPERMUTED) for name in names], execution, note)
        recorded = {name: episodes[name, _UNPERMUTED][1] for name in names if (name, _UNPERMUTED) in episodes}
        every = [decision for decisions in recorded.values() for decision in decisions]
        if not every:
            raise MlgoError(f"expected decisions of {self.policy} in {self.corpus}, got none; failures: {failed}")
        generator = np.random.default_rng(self.seed)
        sampled = [every[index] for index in generator.permutation(len(every))[:_MAX_DECISIONS]]
        pool = np.stack([decision.row for decision in sampled])
        found = self._changed_actions(env, policy, sampled, pool, generator)
        if self.shap:
            values = shapley_values(env, policy, pool, self.shap, self.seed)
            groups = feature_groups(env.feature_names)
            shares = {name: np.abs(values[:, columns].sum(axis=1)).mean() for name, columns in groups.items()}
            found = [replace(each, shap=float(shares[each.name])) for each in found]
        found.sort(key=lambda each: -each.changed)
        chosen = [each.name for each in found[: self.cost_features] if each.changed]
        modules = [name for name, decisions in recorded.items() if decisions]
        permuting = replace(self, _pool=pool)
        items = [(name, feature) for feature in chosen for name in modules]
        permuted, more_failed = permuting._run(items, execution, note)
        costs = {name: cost for (name, _), (cost, _) in episodes.items()}
        found = [self._with_cost(env, each, costs, permuted) if each.name in chosen else each for each in found]
        found.sort(key=lambda each: (each.cost is None, -(each.cost or 0.0), -each.changed))
        return ImportanceResult(found, len(modules), len(every), len(sampled), failed | more_failed)

    def _changed_actions(
        self,
        env: CompilerEnv,
        policy: Policy,
        sampled: Sequence[RecordedDecision],
        rows: Rows,
        generator: np.random.Generator,
    ) -> list[FeatureImportance]:
        column = default_column(env)
        before = actions_on(policy, sampled, rows, column)
        if actions_on(policy, sampled, rows, column) != before:
            raise MlgoError(
                f"expected a deterministic policy, got {self.policy}, which answers equal decisions in two ways"
            )
        meanings = feature_meanings(env)
        found = []
        for name, columns in feature_groups(env.feature_names).items():
            changed = 0
            for _ in range(_REPEATS):
                permuted = rows.copy()
                permuted[:, columns] = rows[generator.permutation(len(rows))][:, columns]
                others = np.flatnonzero((permuted != rows).any(axis=1)).tolist()
                if others:
                    after = actions_on(policy, [sampled[index] for index in others], permuted[others], column)
                    changed += sum(action != before[index] for index, action in zip(others, after, strict=True))
            found.append(FeatureImportance(name, meanings.get(name, ""), float(changed) / (_REPEATS * len(rows))))
        return found

    def _with_cost(
        self, env: CompilerEnv, each: FeatureImportance, costs: Mapping[str, float], permuted: Mapping[Item, Episode]
    ) -> FeatureImportance:
        names = [name for name, feature in permuted if feature == each.name]
        if not names:
            return each
        pairs = tuple((permuted[name, each.name][0], costs[name]) for name in names)
        mean = estimates(Change(pairs, tuple(env.corpus.project(name) for name in names))).mean
        return replace(each, cost=mean.value, cost_interval=mean.interval)

    def _run(
        self, items: Sequence[Item], execution: Execution, note: Callable[[], None]
    ) -> tuple[dict[Item, Episode], dict[str, str]]:
        """Return the finished episodes, and the errors of the others by module."""
        done: dict[Item, Episode] = {}
        failed: dict[str, str] = {}
        with execution.workers(self.runner) as running, closing(running.run(ItemQueue(items))) as results:
            for item, result in results:
                if isinstance(result, WorkerFailure | str):
                    failed[item[0]] = str(result)
                elif result is not None:
                    done[item] = result
                note()
        return done, failed

    def runner(self, room: int) -> SequentialRunner[Item, Episode | str | None]:
        """Return the runner of episodes, for a worker."""
        del room
        env = self.make()
        policy = load_policy(self.policy, env, seed=self.seed)
        return SequentialRunner(lambda item: self._episode(env, policy, item))

    def _episode(self, env: CompilerEnv, policy: Policy, item: Item) -> Episode | str | None:
        """Return an episode, its error message, or None for a module without decisions."""
        name, feature = item
        if feature:
            assert self._pool is not None
            columns = feature_groups(env.feature_names)[feature]
            policy = PermutedPolicy(policy, columns, self._pool, default_column(env), self.seed)
        try:
            observation, info = env.reset(options={"module": name})
        except NoDecisionError:
            return None
        except MlgoError as error:
            return str(error)
        recorded = []
        is_over = False
        while not is_over:
            if feature:
                action = policy.act(observation, info)
            else:
                recorded.append(RecordedDecision.of(observation, info))
                action = recorded[-1].act(policy, recorded[-1].row, info)
            observation, _, terminated, truncated, info = env.step(action)
            is_over = terminated or truncated
        if info["error"]:
            return str(info["error"]["message"])
        return 1.0 - float(info["reduction"]), recorded
