"""Decisions asked again with other features: the features of a call that decide a policy's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.callee_features import CALLEE_FEATURES
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.attribution.inline_compile import InlineDecision
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies import Policy, act_batch
from mlgo_gym.policies.mlp import MlpPolicy

Rows = npt.NDArray[np.float32]
"""Flat observations, float32 of shape (decisions, features)."""

ALWAYS_SHOWN = ("cost_estimate", "threshold", "callee_users", "last_call_to_static_bonus", "callee_basic_block_count")
"""Features that are shown for every call."""

_UNUSUAL = 2  # features shown per call
_LARGEST_LOGIT_CHANGES = 3  # features shown per call and network


@dataclass(frozen=True, slots=True)
class FeatureEffect:
    """One feature of a call.

    Attributes:
        name: Name of the feature.
        value: Value at this call.
        median: Median over all calls of the second policy's compile.
        meaning: Meaning with its unit; empty if unknown.
        decisive_for: Policies whose answer changes if the value is replaced by the median.
        logit_changes: Increase of each network's logit of inlining by the value, against the median.
        deviation: Distance from the median, in median absolute deviations.
    """

    name: str
    value: float
    median: float
    meaning: str
    decisive_for: tuple[str, ...]
    logit_changes: Mapping[str, float]
    deviation: float


def feature_effects(
    env: CompilerEnv, policies: Mapping[str, Policy], decisions: Sequence[InlineDecision], at: Sequence[InlineDecision]
) -> list[tuple[list[FeatureEffect], list[str]]]:
    """Return, for some decisions of a compile, the features to show, and the policies whose answers are random.

    Decisive features come first, then those with the largest logit changes, those in `ALWAYS_SHOWN`, and those with
    the most unusual values. A policy is random if it answers the same call in two ways; its features are unknown.

    Args:
        env: The environment.
        policies: The policies by name.
        decisions: All decisions of the compile, over which medians are taken.
        at: The decisions to explain.
    """
    observed = [env.task.observe(Decision(0, decision.site, decision.payload)) for decision in decisions]
    by_site = {decision.site: row for decision, row in zip(decisions, observed, strict=True)}
    rows = np.stack(observed)
    medians = np.median(rows, axis=0)
    spread = np.median(np.abs(rows - medians), axis=0)
    spread = np.where(spread > 0, spread, np.maximum(rows.std(axis=0), 1.0))
    return [_effects(env, policies, decision, by_site[decision.site], medians, spread) for decision in at]


def _effects(
    env: CompilerEnv, policies: Mapping[str, Policy], decision: InlineDecision, row: Rows, medians: Rows, spread: Rows
) -> tuple[list[FeatureEffect], list[str]]:
    names, meanings = env.feature_names, feature_meanings(env)
    columns = np.flatnonzero(row != medians).tolist()
    rows = np.repeat(row[np.newaxis], 2 + len(columns), axis=0)
    for index, column in enumerate(columns, start=2):
        rows[index, column] = medians[column]
    decisive: dict[int, list[str]] = {column: [] for column in columns}
    logit_changes: dict[int, dict[str, float]] = {column: {} for column in columns}
    random = []
    has_default = INLINING_DEFAULT in names
    defaults = rows[:, names.index(INLINING_DEFAULT)] if has_default else [decision.default] * len(rows)
    info = {"module": "", "context": decision.context, "decision_index": 1}
    infos = [{**info, "default_action": int(default)} for default in defaults]
    for name, policy in policies.items():
        answer, again, *others = map(int, act_batch(policy, rows, infos))
        if answer != again:
            random.append(name)
            continue
        for column, other in zip(columns, others, strict=True):
            if other != answer:
                decisive[column].append(name)
        logits = logits_on(policy, rows)
        if logits is not None:
            for column, logit in zip(columns, logits[2:], strict=True):
                logit_changes[column][name] = float(logits[0] - logit)
    shown = [column for column in columns if decisive[column]]
    for name in policies:
        ranked = sorted(columns, key=lambda column: -abs(logit_changes[column].get(name, 0.0)))
        shown += [column for column in ranked[:_LARGEST_LOGIT_CHANGES] if name in logit_changes[column]]
    shown += [names.index(name) for name in ALWAYS_SHOWN if name in names]
    deviation = np.abs(row - medians) / spread
    shown += sorted(columns, key=lambda column: -deviation[column])[:_UNUSUAL]
    effects = [
        FeatureEffect(
            name=names[column],
            value=float(row[column]),
            median=float(medians[column]),
            meaning=meanings.get(names[column].partition("[")[0], ""),
            decisive_for=tuple(decisive.get(column, ())),
            logit_changes=logit_changes.get(column, {}),
            deviation=float(deviation[column]),
        )
        for column in dict.fromkeys(shown)
        if names[column] != INLINING_DEFAULT
    ]
    return effects, random


def feature_meanings(env: CompilerEnv) -> dict[str, str]:
    """Return the meaning of each feature by name."""
    meanings = {feature.name: feature.meaning for table in env.task.tables for feature in table.features}
    return {**meanings, **CALLEE_FEATURES}


def logits_on(policy: Policy, rows: Rows) -> npt.NDArray[np.float32] | None:
    """Return a network's logits of action 1, float32 of shape (decisions,); None for other policies."""
    return policy.logits(rows) if isinstance(policy, MlpPolicy) else None
