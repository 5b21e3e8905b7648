"""Permutation importance of a policy's features (Breiman, 2001).

Each feature gets the values of other decisions. On recorded decisions this gives the share of actions that change; in
compiles it gives the change of the cost. Features with nearly the same information replace each other, so each of them
looks less important than both together. Shapley values are those of the library SHAP (Lundberg and Lee, 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, NoDecisionError
from mlgo_gym.evaluation.statistics import Change, estimates
from mlgo_gym.explanation.feature_effects import (
    RecordedDecision,
    Rows,
    actions_on,
    default_column,
    feature_groups,
    feature_meanings,
    logits_on,
)
from mlgo_gym.extras import library
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.scheduling import Execution, ItemQueue, SequentialRunner, WorkerFailure

_REPEATS = 3  # permutations of each feature
_MAX_DECISIONS = 4000
_BACKGROUND = 50  # decisions that stand for the average of Shapley values
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
    """The importance of all features of a policy, the most important first.

    `sampled` of the `decisions` in `modules` were permuted; `failed` has the error of each module that failed.
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
        """Measure the importance of each feature, in worker processes of this machine; `note` follows each episode.

        Raises:
            MlgoError: The environment or the policy cannot be made, no module has a decision, or the policy is random.
            MissingExtraError: shap is not installed, and Shapley values are requested.
        """
        env = self.make()
        policy = load_policy(self.policy, env, seed=self.seed)
        names = self.modules(env)
        episodes, failed = self._run([(name, _UNPERMUTED) for name in names], None, execution, note)
        recorded = {name: decisions for (name, _), (_, decisions) in episodes.items()}
        every = [decision for name in names for decision in recorded.get(name, ())]
        if not every:
            raise MlgoError(f"expected decisions of {self.policy} in {self.corpus}, got none; failures: {failed}")
        generator = np.random.default_rng(self.seed)
        sampled = [every[index] for index in generator.permutation(len(every))[:_MAX_DECISIONS]]
        pool = np.stack([decision.row for decision in sampled])
        features = self._changed_actions(env, policy, sampled, pool, generator)
        if self.shap:
            values = shapley_values(env, policy, pool, self.shap, self.seed)
            groups = feature_groups(env.feature_names)
            shares = {name: np.abs(values[:, columns].sum(axis=1)).mean() for name, columns in groups.items()}
            features = [replace(feature, shap=float(shares[feature.name])) for feature in features]
        features.sort(key=lambda feature: -feature.changed)
        measured = [feature.name for feature in features[: self.cost_features] if feature.changed]
        modules = [name for name in names if recorded.get(name)]
        items = [(name, feature) for feature in measured for name in modules]
        permuted, more_failed = self._run(items, pool, execution, note)
        costs = {name: cost for (name, _), (cost, _) in episodes.items()}
        features = [self._with_cost(env, feature, costs, permuted) for feature in features]
        features.sort(key=lambda feature: (feature.cost is None, -(feature.cost or 0.0), -feature.changed))
        return ImportanceResult(features, len(modules), len(every), len(sampled), failed | more_failed)

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
        features = []
        for name, columns in feature_groups(env.feature_names).items():
            changed = 0
            for _ in range(_REPEATS):
                permuted = rows.copy()
                permuted[:, columns] = rows[generator.permutation(len(rows))][:, columns]
                others = np.flatnonzero((permuted != rows).any(axis=1)).tolist()
                if others:
                    after = actions_on(policy, [sampled[index] for index in others], permuted[others], column)
                    changed += sum(action != before[index] for index, action in zip(others, after, strict=True))
            features.append(FeatureImportance(name, meanings.get(name, ""), float(changed) / (_REPEATS * len(rows))))
        return features

    def _with_cost(
        self, env: CompilerEnv, feature: FeatureImportance, costs: Mapping[str, float], permuted: Mapping[Item, Episode]
    ) -> FeatureImportance:
        names = [name for name, permuted_feature in permuted if permuted_feature == feature.name]
        if not names:
            return feature
        pairs = tuple((permuted[name, feature.name][0], costs[name]) for name in names)
        mean = estimates(Change(pairs, tuple(env.corpus.project(name) for name in names))).mean
        return replace(feature, cost=mean.value, cost_interval=mean.interval)

    def _run(
        self, items: Sequence[Item], pool: Rows | None, execution: Execution, note: Callable[[], None]
    ) -> tuple[dict[Item, Episode], dict[str, str]]:
        """Return the finished episodes, and the errors of the others by module; permuted values are from the pool."""
        done: dict[Item, Episode] = {}
        failed: dict[str, str] = {}
        start = partial(_runner, self, pool)
        with execution.workers(start) as running, closing(running.run(ItemQueue(items))) as results:
            for item, result in results:
                if isinstance(result, WorkerFailure | str):
                    failed[item[0]] = str(result)
                elif result is not None:
                    done[item] = result
                note()
        return done, failed


def _runner(study: Importance, pool: Rows | None, _room: int) -> SequentialRunner[Item, Episode | str | None]:
    """Return the runner of episodes, for a worker."""
    env = study.make()
    policy = load_policy(study.policy, env, seed=study.seed)
    return SequentialRunner(lambda item: _episode(env, policy, item, pool, study.seed))


def _episode(env: CompilerEnv, policy: Policy, item: Item, pool: Rows | None, seed: int) -> Episode | str | None:
    """Return an episode, its error message, or None for a module without decisions."""
    name, feature = item
    if pool is not None:
        policy = PermutedPolicy(policy, feature_groups(env.feature_names)[feature], pool, default_column(env), seed)
    try:
        observation, info = env.reset(options={"module": name})
    except NoDecisionError:
        return None
    except MlgoError as error:
        return str(error)
    recorded = []
    is_over = False
    while not is_over:
        if pool is None:
            recorded.append(RecordedDecision.of(observation, info))
        observation, _, terminated, truncated, info = env.step(policy.act(observation, info))
        is_over = terminated or truncated
    if info["error"]:
        return str(info["error"]["message"])
    return 1.0 - float(info["reduction"]), recorded


class PermutedPolicy:
    """A policy that gets the values of some columns from another decision, drawn at random from a pool."""

    def __init__(self, policy: Policy, columns: Sequence[int], pool: Rows, column: int | None, seed: int) -> None:
        self._policy = policy
        self._columns = list(columns)
        self._pool = pool
        self._default_column = column
        self._generator = np.random.default_rng(seed)

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the policy's action with the drawn values."""
        decision = RecordedDecision.of(observation, info)
        row = decision.row.copy()
        row[self._columns] = self._pool[self._generator.integers(len(self._pool)), self._columns]
        default = decision.info(row, self._default_column)["default_action"]
        masked = row if decision.mask is None else {"observations": row, "action_mask": decision.mask}
        return self._policy.act(masked, {**info, "default_action": default})


def shapley_values(env: CompilerEnv, policy: Policy, pool: Rows, decisions: int, seed: int) -> npt.NDArray[np.float64]:
    """Return the Shapley values of the features for a policy's preference for action 1.

    The preference is the logit of a network, and the action of any other policy. The pool has at least two decisions;
    the values are float64 of shape (decisions, features). `MlgoError`: the environment has other actions.
    """
    if not isinstance(env.action_space, gym.spaces.Discrete) or env.action_space.n != 2:
        raise MlgoError(f"expected two actions for Shapley values, got {env.action_space}; use --shap 0")
    shap = library("shap", "Shapley values", "shap")
    column = default_column(env)

    def preference(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        narrow = np.asarray(rows, np.float32)
        logits = logits_on(policy, narrow)
        if logits is not None:
            return np.asarray(logits, float)
        decisions = [RecordedDecision(row, None, 0, "") for row in narrow]
        return np.array(actions_on(policy, decisions, narrow, column), float)

    shuffled = pool[np.random.default_rng(seed).permutation(len(pool))]
    masker = shap.maskers.Independent(shuffled[:_BACKGROUND], max_samples=_BACKGROUND)
    explainer = shap.PermutationExplainer(preference, masker, seed=seed)
    explained = explainer(shuffled[:decisions], max_evals=2 * pool.shape[1] + 1, silent=True)
    values: npt.NDArray[np.float64] = np.asarray(explained.values, float)
    return values
