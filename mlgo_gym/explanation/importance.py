"""Which features a policy listens to: what changes where it is shown those of another decision (Breiman 2001).

Permutation importance on decisions says how many of its answers a feature has a part in; on bytes, how much smaller the
code is because the policy sees it, by compiles in which it does not. Features that say nearly the same, as estimates of
one thing do, stand in for each other, so that each alone looks less important than both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, NoDecisionError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.summary import Change
from mlgo_gym.explanation.played import (
    Blindfolded,
    Seen,
    answers,
    feature_groups,
    meanings,
    own_choice,
    seen_groups,
)
from mlgo_gym.explanation.shapley import shapley_values
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.call_features import CALL_FEATURES
from mlgo_gym.policies.loading import with_calls
from mlgo_gym.scheduling import Backlog, EachAlone, Lost, workers

_REPEATS = 3
_MOST_DECISIONS = 4000
_WHOLE = ""

Item = tuple[str, str]
"""A module, and the feature that the policy does not see there; empty: it sees all."""


@dataclass(frozen=True, slots=True)
class FeatureImportance:
    """How much a policy depends on one feature.

    Attributes:
        name: the feature; the name of its tensor where it has several columns.
        meaning: what it says, with its unit; empty where that is not known.
        decisions: the share of the decisions that come out otherwise with the feature of another decision.
        cost: the change of the geometric mean of the metric where the policy does not see the feature; None where that
            was not compiled. 0.02 is 2 % more.
        cost_interval: its 95 % interval; None where there are fewer than two modules.
        shap: the mean of the absolute Shapley values; None without.
    """

    name: str
    meaning: str
    decisions: float
    cost: float | None = None
    cost_interval: tuple[float, float] | None = None
    shap: float | None = None


@dataclass(frozen=True, slots=True)
class Importances:
    """What a policy listens to.

    Attributes:
        features: each feature, the most important first.
        modules: how many modules the policy decided in.
        decisions: how many decisions it made there.
        asked: about how many of these it was asked again, drawn at random.
        failed: the modules on which it failed, with the reason.
    """

    features: list[FeatureImportance]
    modules: int
    decisions: int
    asked: int
    failed: dict[str, str]


@dataclass(frozen=True)
class Importance:
    """What is to be found out.

    Attributes:
        corpus: what `open_corpus` takes.
        policy: what `load_policy` takes; it answers equal observations alike.
        environment: the environment's id.
        arguments: its other arguments.
        compiled: for how many features modules are compiled without them, those first that decide most.
        shap: over how many decisions Shapley values are taken; 0 for none.
        seed: the source of chance.
        limit: take so many modules, drawn at random.
        largest: leave out modules with more bytes of bitcode.
    """

    corpus: str
    policy: str
    environment: str = "mlgo/Inline-v0"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    compiled: int = 6
    shap: int = 0
    seed: int = 0
    limit: int | None = None
    largest: int | None = None
    _pool: npt.NDArray[np.float32] | None = None

    def make(self) -> CompilerEnv:
        """Return the environment.

        Raises:
            MlgoError: it cannot be made, or its observations are not flat.
        """
        arguments = with_calls({**self.arguments, "corpus": self.corpus}, [self.policy])
        env = make_environment(self.environment, arguments)
        if env.setup.settings.observation != "flat":
            raise MlgoError("the features of flat observations are permuted; leave observation= out")
        return env

    def modules(self, env: CompilerEnv) -> list[str]:
        """Return the modules to compile."""
        names = [name for name in env.corpus.names if self.largest is None or env.corpus.size(name) <= self.largest]
        np.random.default_rng(self.seed).shuffle(names)
        return names[: self.limit]

    def steps(self, env: CompilerEnv) -> int:
        """Return how many episodes there will be, at most."""
        of_calls = len(CALL_FEATURES) if env.setup.settings.calls else 0
        features = len(feature_groups(env.feature_names)) + of_calls
        return len(self.modules(env)) * (1 + min(self.compiled, features))

    def find(self, jobs: int = 1, note: Callable[[], None] = lambda: None) -> Importances:
        """Return what the policy listens to.

        Args:
            jobs: how many processes compile.
            note: called after each episode.

        Raises:
            MlgoError: the environment or the policy cannot be made, no module has a decision, or the policy answers
                the same question in two ways.
            MissingExtraError: Shapley values are wanted, and shap is not installed.
        """
        env = self.make()
        policy = load_policy(self.policy, env, seed=self.seed)
        names = self.modules(env)
        episodes, failed = self._run([(name, _WHOLE) for name in names], jobs, note)
        costs = {name: cost for (name, _), (cost, _) in episodes.items()}
        every = [seen for name in names if (name, _WHOLE) in episodes for seen in episodes[name, _WHOLE][1]]
        if not every:
            raise MlgoError(
                f"decisions of {self.policy} were wanted, and no module of {self.corpus} gave one: {failed}"
            )
        generator = np.random.default_rng(self.seed)
        drawn = generator.permutation(len(every))[:_MOST_DECISIONS]
        asked = [every[number] for number in drawn]
        found = self._on_decisions(env, policy, asked, generator)
        if self.shap:
            pool = np.stack([each.row for each in asked])
            values = shapley_values(env, policy, pool, self.shap, self.seed)
            found = _with_shapley(found, values, seen_groups(env, policy))
        found.sort(key=lambda each: -each.decisions)
        hidden = [each.name for each in found[: self.compiled] if each.decisions]
        blind = replace(self, _pool=np.stack([each.row for each in asked]))
        with_decisions = [name for name in names if episodes.get((name, _WHOLE), (0.0, []))[1]]
        hid, more = blind._run([(name, feature) for feature in hidden for name in with_decisions], jobs, note)
        found = [self._on_cost(env, each, costs, hid) if each.name in hidden else each for each in found]
        found.sort(key=lambda each: (each.cost is None, -(each.cost or 0.0), -each.decisions))
        return Importances(found, len(with_decisions), len(every), len(asked), failed | more)

    def _on_decisions(
        self, env: CompilerEnv, policy: Policy, asked: Sequence[Seen], generator: np.random.Generator
    ) -> list[FeatureImportance]:
        own = own_choice(env)
        rows = np.stack([each.row for each in asked])
        before = answers(policy, asked, rows, own)
        if answers(policy, asked, rows, own) != before:
            raise MlgoError(f"{self.policy} answers the same question in two ways, so no feature of it can be weighed")
        means = meanings(env)
        found = []
        for name, columns in seen_groups(env, policy).items():
            changed = 0
            for _ in range(_REPEATS):
                shuffled = rows.copy()
                shuffled[:, columns] = rows[generator.permutation(len(rows))][:, columns]
                # Whoever is shown what it was shown before answers the same.
                other = np.flatnonzero((shuffled != rows).any(axis=1))
                if len(other):
                    after = answers(policy, [asked[int(number)] for number in other], shuffled[other], own)
                    changed += sum(answer != before[number] for number, answer in zip(other, after, strict=True))
            found.append(FeatureImportance(name, means.get(name, ""), float(changed) / (_REPEATS * len(rows))))
        return found

    def _on_cost(
        self,
        env: CompilerEnv,
        each: FeatureImportance,
        costs: Mapping[str, float],
        hidden: Mapping[Item, tuple[float, list[Seen]]],
    ) -> FeatureImportance:
        there = [name for name, feature in hidden if feature == each.name]
        pairs = tuple((hidden[name, each.name][0], costs[name]) for name in there)
        mean = estimates(Change(pairs, tuple(env.corpus.project(name) for name in there))).mean
        return replace(each, cost=mean.value, cost_interval=mean.interval) if pairs else each

    def _run(
        self, items: Sequence[Item], jobs: int, note: Callable[[], None]
    ) -> tuple[dict[Item, tuple[float, list[Seen]]], dict[str, str]]:
        """Return the cost of each episode and its decisions, and why others failed."""
        done: dict[Item, tuple[float, list[Seen]]] = {}
        failed: dict[str, str] = {}
        for item, result in self._results(items, jobs):
            if isinstance(result, Lost):
                failed[item[0]] = str(result)
            elif isinstance(result, str):
                failed[item[0]] = result
            elif result is not None:
                done[item] = result
            note()
        return done, failed

    def _results(
        self, items: Sequence[Item], jobs: int
    ) -> Generator[tuple[Item, tuple[float, list[Seen]] | str | Lost | None], None, None]:
        with workers(self.runner, jobs) as running, closing(running.run(Backlog(items))) as results:
            yield from results

    def runner(self, room: int) -> EachAlone[Item, tuple[float, list[Seen]] | str | None]:
        """Return what runs episodes, one after the other."""
        del room
        env = self.make()
        policy = load_policy(self.policy, env, seed=self.seed)
        return EachAlone(lambda item: self._episode(env, policy, item))

    def _episode(self, env: CompilerEnv, policy: Policy, item: Item) -> tuple[float, list[Seen]] | str | None:
        """Return cost and decisions of an episode, why it failed, or None where the module has no decision."""
        name, hidden = item
        if hidden:
            assert self._pool is not None
            columns = seen_groups(env, policy)[hidden]
            policy = Blindfolded(policy, columns, self._pool, own_choice(env), self.seed)
        try:
            observation, info = env.reset(options={"module": name})
        except NoDecisionError:
            return None
        except MlgoError as error:
            return str(error)
        seen = []
        over = False
        while not over:
            if hidden:
                action = policy.act(observation, info)
            else:
                seen.append(Seen.of(policy, observation, info))
                action = seen[-1].answer(policy, seen[-1].row, info)
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        if "error" in info:
            return str(info["error"]["message"])
        return 1.0 - float(info["reduction"]), seen


def _with_shapley(
    found: Sequence[FeatureImportance], values: npt.NDArray[np.float64], groups: Mapping[str, Sequence[int]]
) -> list[FeatureImportance]:
    """Return importances with the mean of the absolute Shapley values, those of a feature's columns together."""
    return [replace(each, shap=float(np.abs(values[:, groups[each.name]].sum(axis=1)).mean())) for each in found]
