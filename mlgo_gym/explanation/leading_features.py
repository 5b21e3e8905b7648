"""Which features of a call led policies to their answers, and in which it is unusual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.placed_compile import PlacedDecision
from mlgo_gym.explanation.played import OWN_CHOICE, answers_about_calls, meanings, preferences
from mlgo_gym.policies import Policy, act_batch
from mlgo_gym.policies.call_features import CALL_FEATURES, features_of_calls
from mlgo_gym.policies.calls import CallsPolicy
from mlgo_gym.session.decision import Decision

ALWAYS = ("cost_estimate", "threshold", "callee_users", "last_call_to_static_bonus", "callee_basic_block_count")
"""The features that are shown for every call, where there are such."""

_UNUSUAL = 2
_LEADING = 3


@dataclass(frozen=True, slots=True)
class LeadingFeature:
    """One feature of a call.

    Attributes:
        name: as `CompilerEnv.feature_names` has it, or one of `CALL_FEATURES`.
        value: what it is at this call.
        median: the median over all calls that the second policy was asked about in this module.
        meaning: what it says, with its unit; empty where that is not known.
        decides: the policies that would have answered otherwise if it were the median.
        pushes: by how much it raises the logit of inlining against the median, for policies that have one.
        unusual: how far the value is from the median, in median absolute deviations.
    """

    name: str
    value: float
    median: float
    meaning: str
    decides: tuple[str, ...]
    pushes: Mapping[str, float]
    unusual: float


class FeatureReader:
    """Reads features of calls, and asks policies what they would answer if one of them were another.

    Args:
        env: the environment; its observations are flat.
        policies: the policies, by name.
        decisions: all calls of a module, of which the medians are. If some policy sees calls, theirs were foretold.
    """

    def __init__(self, env: CompilerEnv, policies: Mapping[str, Policy], decisions: Sequence[PlacedDecision]) -> None:
        self._env = env
        self._policies = policies
        self._own = len(env.feature_names)
        self._names = env.feature_names
        self._meanings = meanings(env)
        rows = np.stack([self._row(decision) for decision in decisions])
        if any(isinstance(policy, CallsPolicy) for policy in policies.values()):
            rows = np.concatenate([rows, features_of_calls(decisions, env.task.headers[0].dtype)], axis=1)
            self._names = (*self._names, *CALL_FEATURES)
        self._rows = {decision[:3]: row for decision, row in zip(decisions, rows, strict=True)}
        self._medians = np.median(rows, axis=0)
        spread = np.median(np.abs(rows - self._medians), axis=0)
        self._spread = np.where(spread > 0, spread, np.maximum(rows.std(axis=0), 1.0))

    def _row(self, decision: PlacedDecision) -> npt.NDArray[np.float32]:
        row: npt.NDArray[np.float32] = self._env.task.observe(Decision(0, "", 0, decision.payload))
        return row

    def of(self, decision: PlacedDecision, module: str, number: int) -> tuple[list[LeadingFeature], list[str]]:
        """Return the features of a call that matter, those that decide first, and the policies that are of two minds.

        Args:
            decision: the call.
            module: the module's name.
            number: the number of the decision.

        Returns:
            The features; and the policies that answer the same question in two ways, of which nothing can be said.
        """
        row = self._rows[decision[:3]]
        changed = [column for column in range(len(row)) if row[column] != self._medians[column]]
        rows = np.repeat(row[np.newaxis], 2 + len(changed), axis=0)
        for at, column in enumerate(changed, start=2):
            rows[at, column] = self._medians[column]
        decides: dict[int, list[str]] = {column: [] for column in changed}
        pushes: dict[int, dict[str, float]] = {column: {} for column in changed}
        unsteady = []
        for name, policy in self._policies.items():
            seen = rows if isinstance(policy, CallsPolicy) else rows[:, : self._own]
            own, again, *others = self._answers(policy, seen, decision, module, number)
            if own != again:
                unsteady.append(name)
                continue
            for column, answer in zip(changed, others, strict=True):
                if answer != own:
                    decides[column].append(name)
            logits = preferences(policy, seen)
            if logits is not None:
                for column, logit in zip(changed, logits[2:], strict=True):
                    pushes[column][name] = float(logits[0] - logit)
        found = {
            column: self._feature(column, row, decides.get(column, ()), pushes.get(column, {})) for column in changed
        }
        wanted = [column for column in changed if decides[column]]
        for name in self._policies:
            by_push = sorted(changed, key=lambda column: -abs(pushes[column].get(name, 0.0)))
            wanted += [column for column in by_push[:_LEADING] if name in pushes[column]]
        wanted += [self._names.index(name) for name in ALWAYS if name in self._names]
        wanted += sorted(changed, key=lambda column: -found[column].unusual)[:_UNUSUAL]
        chosen = [column for column in dict.fromkeys(wanted) if self._names[column] != OWN_CHOICE]
        return [found.get(column) or self._feature(column, row, (), {}) for column in chosen], unsteady

    def _answers(
        self, policy: Policy, rows: npt.NDArray[np.float32], decision: PlacedDecision, module: str, number: int
    ) -> list[int]:
        if isinstance(policy, CallsPolicy):
            return answers_about_calls(policy, rows)
        infos = [self._info(each, decision, module, number) for each in rows]
        return [int(answer) for answer in act_batch(policy, rows, infos)]

    def _feature(
        self, column: int, row: npt.NDArray[np.float32], decides: Sequence[str], pushes: Mapping[str, float]
    ) -> LeadingFeature:
        name, value, median = self._names[column], float(row[column]), float(self._medians[column])
        unusual = abs(value - median) / float(self._spread[column])
        meaning = self._meanings.get(name.partition("[")[0], "")
        return LeadingFeature(name, value, median, meaning, tuple(decides), pushes, unusual)

    def _info(self, row: npt.NDArray[np.float32], decision: PlacedDecision, module: str, number: int) -> dict[str, Any]:
        own = int(row[self._names.index(OWN_CHOICE)]) if OWN_CHOICE in self._names else decision.default
        return {"module": module, "context": decision.component, "decision": number, "default_action": own}
