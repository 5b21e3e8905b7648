"""Compares the compiles of one module under two policies, and finds the features that decide a policy's answer."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.callee_features import CALLEE_FEATURES
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.attribution.credit import credit, merge_split_parts
from mlgo_gym.episode.attribution.inline_compile import (
    InlineCompile,
    InlineDecision,
    answers_by_call_site,
    differing,
    run_inline_compile,
)
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.explanation.names import readable
from mlgo_gym.llvm.advisors import INLINING, INLINING_DEFAULT
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.protocol import decide
from mlgo_gym.tasks.task import Task

MEASURED = 10
"""Default number of measured differences, one compile each."""

_STEPS = 4  # two compiles, the measured differences, the features


@dataclass(frozen=True, slots=True)
class FunctionChange:
    """The bytes of one function, with its split-off parts, in both compiles; 0 if absent."""

    symbol: str
    first: int
    second: int

    @property
    def change(self) -> int:
        """Growth in bytes under the second policy."""
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision of the second policy that differs from the first policy's.

    Attributes:
        decision_index: Index of the decision in the second policy's compile.
        decision: The decision of the second policy.
        first: Answer of the first policy at the same call site. None: the call is part of code that only the second
            policy inlined, and the second policy's answer is not clang's own choice.
        credited: Growth of the second policy's module in bytes due to the decision, estimated by credit.
        exact: Whether no other difference reaches the functions of the credit.
        measured: Growth in bytes against a compile with this decision flipped; None without that compile.
        features: The features to show, decisive ones first; empty unless measured.
        random_policies: Policies that answer the same call in two ways; their features are unknown.
    """

    decision_index: int
    decision: InlineDecision
    first: int | None
    credited: float
    exact: bool
    measured: int | None = None
    features: Sequence["FeatureEffect"] = ()
    random_policies: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data, with symbols and readable names."""
        return {
            "caller": [readable(name) for name in self.decision.functions],
            "callee": readable(self.decision.callee),
            **self.decision.site._asdict(),
            "symbol": self.decision.callee,
            "decision_index": self.decision_index,
            "first": self.first,
            "second": self.decision.answer,
            "clang": self.decision.default,
            "credited_bytes": self.credited,
            "exact": self.exact,
            "measured_bytes": self.measured,
            "features": [asdict(feature) for feature in self.features],
            "random_policies": list(self.random_policies),
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why two policies make different code of a module.

    Attributes:
        clang: Version of the compiler.
        baseline: Bytes of the executable sections of a plain compile.
        first, second: The compiles under the two policies.
        differences: All differences, those with the largest credit first; the first ones are measured.
        functions: The functions that changed, those with the largest change first.
        only_first: Number of calls that only the first policy decided, against clang's own choice.
    """

    module: str
    clang: str
    policies: tuple[str, str]
    baseline: int
    first: InlineCompile
    second: InlineCompile
    differences: Sequence[Difference]
    functions: Sequence[FunctionChange]
    only_first: int

    @property
    def change(self) -> int:
        """Growth of the module in bytes under the second policy."""
        return self.second.text - self.first.text

    @property
    def measured(self) -> Sequence[Difference]:
        """The differences that were measured."""
        return [difference for difference in self.differences if difference.measured is not None]

    @property
    def unmeasured(self) -> Sequence[Difference]:
        """The differences that were not measured."""
        return [difference for difference in self.differences if difference.measured is None]

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as JSON data, with symbols and readable names."""
        return {
            "module": self.module,
            "clang": self.clang,
            "policies": list(self.policies),
            "text": {"clang": self.baseline, "first": self.first.text, "second": self.second.text},
            "decisions": {"first": len(self.first.decisions), "second": len(self.second.decisions)},
            "only_first": self.only_first,
            "differences": [difference.to_json() for difference in self.differences],
            "functions": [{**asdict(change), "name": readable(change.symbol)} for change in self.functions],
        }


def explain_module(
    env: CompilerEnv,
    module: str,
    policies: tuple[str, str],
    *,
    measured: int = MEASURED,
    seed: int = 0,
    note: Callable[[int, int, str], object] = lambda _done, _steps, _found: None,
) -> Explanation:
    """Compile a module under two policies, and attribute the difference in bytes to decisions.

    Takes two compiles, one more for credit, and one for each measured difference.

    Args:
        env: An inlining environment with flat observations and without `ir=True`; with callee features if a policy uses
            them.
        module: Name of the module in the corpus.
        policies: The two policies, as in `load_policy()`.
        measured: Maximum number of measured differences, those with the largest credit first.
        seed: Seed of random policies.
        note: Called with the number of finished steps, the number of steps, and a result in words.

    Raises:
        MlgoError: The module or a policy is unknown, a policy does not fit, a compile failed, or the environment is
            another.
    """
    if env.task.advisors != (INLINING,):
        raise MlgoError(f"expected an environment of inlining, got {env.task.name}; use mlgo/Inline-v0")
    if env.setup.options.reads_code:
        raise MlgoError(
            "expected an environment without code, since policies are asked about changed features, got ir=True or "
            "observation='graph'; omit them"
        )
    compilation = env.compilation(env.corpus.module(module))
    timeout = env.setup.timeout
    loaded = {name: load_policy(name, env, seed=seed) for name in policies}
    compiles = []
    for step, policy in enumerate(loaded[name] for name in policies):
        note(step, _STEPS, "")
        choose = partial(_answer, policy, env.task, module, itertools.count())
        compiles.append(run_inline_compile(compilation, env.task, choose, timeout))
    first, second = compiles
    every = differences(first, second)
    note(2, _STEPS, f"{len(every)} calls differ, {min(measured, len(every))} are measured")
    exact = every[:measured]
    if exact:
        env.reset(options={"module": module})
        for answer in second.answers:
            env.step(answer)
        flipped = env.counterfactual(*(difference.decision.site for difference in exact))
        note(3, _STEPS, "features")
        effects = feature_effects(env, loaded, second.decisions, [difference.decision_index for difference in exact])
        exact = [
            replace(difference, measured=round(-flip.saved), features=features, random_policies=random)
            for difference, flip, (features, random) in zip(exact, flipped, effects, strict=True)
        ]
    baseline = measure_baseline(compilation, timeout)
    assert baseline.sizes is not None, "a plain compile makes an object"
    decided = {decision.call_site for decision in second.decisions}
    alone = [decision for decision in first.decisions if decision.call_site not in decided]
    return Explanation(
        module=module,
        clang=env.toolchain.version_text,
        policies=policies,
        baseline=baseline.sizes.text,
        first=first,
        second=second,
        differences=[*exact, *every[measured:]],
        functions=_changes(first, second),
        only_first=sum(decision.answer != decision.default for decision in alone),
    )


def _answer(policy: Policy, task: Task, module: str, indices: Iterator[int], decision: Decision) -> int:
    return int(decide(policy, task, decision, module, next(indices)))


def differences(first: InlineCompile, second: InlineCompile) -> list[Difference]:
    """Return the differing decisions of two compiles, the largest credit first.

    The credits add up to `second.text - first.text`.
    """
    credited = credit(first, second)
    answers = answers_by_call_site(first.decisions)
    unordered = [
        Difference(
            index,
            second.decisions[index],
            answers.get(second.decisions[index].call_site),
            -float(credited.saved[index]),
            bool(credited.exact[index]),
        )
        for index in differing(first.decisions, second.decisions)
    ]
    return sorted(unordered, key=lambda difference: (-abs(difference.credited), difference.decision_index))


def _changes(first: InlineCompile, second: InlineCompile) -> list[FunctionChange]:
    decisions = (*first.decisions, *second.decisions)
    names = {name for decision in decisions for name in (*decision.functions, decision.callee)}
    before, after = (merge_split_parts(side.functions.functions, names) for side in (first, second))
    changes = [FunctionChange(name, before.get(name, 0), after.get(name, 0)) for name in before.keys() | after.keys()]
    changes = [change for change in changes if change.change]
    return sorted(changes, key=lambda change: (-abs(change.change), change.symbol))


Rows = npt.NDArray[np.float32]
"""Flat observations, float32 of shape (decisions, features)."""

ALWAYS_SHOWN = ("cost_estimate", "threshold", "callee_users", "last_call_to_static_bonus", "callee_basic_block_count")
"""Features that are shown for every call."""


@dataclass(frozen=True, slots=True)
class FeatureEffect:
    """One feature of a call.

    Attributes:
        median: Median over all calls of the second policy's compile.
        meaning: Meaning with its unit; empty if unknown.
        decisive_for: Policies whose answer changes if the value is replaced by the median.
    """

    name: str
    value: float
    median: float
    meaning: str
    decisive_for: tuple[str, ...]


def feature_effects(
    env: CompilerEnv, policies: Mapping[str, Policy], decisions: Sequence[InlineDecision], indices: Sequence[int]
) -> list[tuple[list[FeatureEffect], list[str]]]:
    """Return, for the decisions of some indices, the features to show, and the policies whose answers are random.

    Decisive features come first, then those in `ALWAYS_SHOWN`. A policy is random if it answers the same call in two
    ways; its features are unknown. Medians are over all `decisions` of the compile.
    """
    observed = np.stack([env.task.observe(Decision(0, decision.site, decision.payload)) for decision in decisions])
    medians = np.median(observed, axis=0)
    return [_effects(env, policies, decisions[index], observed[index], medians) for index in indices]


def _effects(
    env: CompilerEnv, policies: Mapping[str, Policy], decision: InlineDecision, row: Rows, medians: Rows
) -> tuple[list[FeatureEffect], list[str]]:
    names = env.feature_names
    meanings = {feature.name: feature.meaning for table in env.task.tables for feature in table.features}
    meanings |= CALLEE_FEATURES
    columns = np.flatnonzero(row != medians).tolist()
    rows = np.repeat(row[np.newaxis], 2 + len(columns), axis=0)
    for index, column in enumerate(columns, start=2):
        rows[index, column] = medians[column]
    decisive: dict[int, list[str]] = {column: [] for column in columns}
    random = []
    has_default = INLINING_DEFAULT in names
    defaults = rows[:, names.index(INLINING_DEFAULT)] if has_default else [decision.default] * len(rows)
    info = {"module": "", "context": decision.context, "decision_index": 1}
    infos = [{**info, "default_action": int(default)} for default in defaults]
    for name, policy in policies.items():
        answer, again, *others = (int(policy.act(row, info)) for row, info in zip(rows, infos, strict=True))
        if answer != again:
            random.append(name)
            continue
        for column, other in zip(columns, others, strict=True):
            if other != answer:
                decisive[column].append(name)
    shown = [column for column in columns if decisive[column]]
    shown += [names.index(name) for name in ALWAYS_SHOWN if name in names]
    effects = [
        FeatureEffect(
            name=names[column],
            value=float(row[column]),
            median=float(medians[column]),
            meaning=meanings.get(names[column].partition("[")[0], ""),
            decisive_for=tuple(decisive.get(column, ())),
        )
        for column in dict.fromkeys(shown)
        if names[column] != INLINING_DEFAULT
    ]
    return effects, random
