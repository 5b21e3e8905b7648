"""Labels of inlining decisions: bytes with the call inlined minus bytes without, for many decisions of few compiles."""

from __future__ import annotations

import random
import resource
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from mlgo_gym.compiler.callee_features import CALLEE_FEATURES, MODULE_SHARE
from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.attribution.affected_functions import AffectedFunctions
from mlgo_gym.episode.attribution.flips import flip_effects, independent
from mlgo_gym.episode.attribution.inline_compile import InlineCompile, InlineDecision, run_inline_compile
from mlgo_gym.episode.function_costs import FunctionCosts
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.llvm.function_sizes import FunctionSizes, size_changes
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.protocol import Policy, SessionPolicy
from mlgo_gym.tasks.task import Task

MAX_FLIPS = 400
"""Maximum number of flipped decisions per compile."""

MAX_ATTEMPTS = 3
"""Number of ambiguous flips after which a decision is not tried again."""

_UNSTABLE = frozenset(
    (
        *("node_count", "edge_count", "callee_users", "caller_users", "last_call_to_static_bonus"),
        *(INLINING_DEFAULT, "cost_estimate", "cold_cc_penalty", *CALLEE_FEATURES),
    )
)
"""Features that flips of other decisions change. The others identify a decision."""


class FlipLabel(NamedTuple):
    """A decision with the policy's answer, and the cost of the module with the call inlined minus that without.

    The cost is in bytes, or in the unit of the metric; with weights, in billionths of the baseline.
    """

    decision: InlineDecision
    bytes: int | float


@dataclass(slots=True)
class FlipLabels:
    """The labels of a module, and their costs.

    Attributes:
        labels: Labels in the order of the decisions.
        text: Bytes of the executable sections under the policy, or the cost.
        decisions: Decisions of the policy.
        compiles: Compiles, without those of `checked`.
        flips: Flipped decisions in all compiles.
        missed: Flipped decisions that did not occur in their compile, because of another flip.
        ambiguous: Flipped decisions that share a changed function with another one.
        unbalanced: Compiles without labels, because the flips do not explain the changes.
        failed: Compiles that failed.
        seconds: CPU time of all compiles.
        checked: Pairs of a label and the change of the module with that decision flipped alone, in bytes.
    """

    labels: list[FlipLabel] = field(default_factory=list)
    text: int | float = 0
    decisions: int = 0
    compiles: int = 0
    flips: int = 0
    missed: int = 0
    ambiguous: int = 0
    unbalanced: int = 0
    failed: int = 0
    seconds: float = 0.0
    checked: list[tuple[int | float, int | float]] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        """Return everything but the labels."""
        return {each.name: getattr(self, each.name) for each in fields(self)[1:]}

    def columns(self, dtype: np.dtype[Any]) -> dict[str, Any]:
        """Return the columns of the Parquet file, empty without labels; the dtype is that of an observation."""
        if not self.labels:
            return {}
        decisions = [label.decision for label in self.labels]
        records = np.frombuffer(b"".join(decision.payload for decision in decisions), dtype)
        columns: dict[str, Any] = {}
        for name in dtype.names or ():
            values = records[name].reshape(len(records), -1)
            if name in CALLEE_FEATURES and name != MODULE_SHARE:
                values = values.astype(np.int32)
            columns[name] = values[:, 0].copy() if values.shape[1] == 1 else values.tolist()
        size = len(decisions)
        return columns | {
            "answer": np.array([decision.answer for decision in decisions], np.int8),
            "bytes": np.array([label.bytes for label in self.labels]),
            "text": np.full(size, self.text),
            "decisions": np.full(size, self.decisions, np.int32),
            "context": [_text(decision.context) for decision in decisions],
            "visit": np.array([decision.site.visit for decision in decisions], np.int32),
            "position": np.array([decision.site.index for decision in decisions], np.int32),
            "callee": [_text(decision.callee) for decision in decisions],
        }


def label_by_flips(
    compilation: Compilation,
    task: Task,
    policy: Policy,
    *,
    compiles: int = 40,
    seconds: float = float("inf"),
    seed: int = 0,
    check: int = 0,
    timeout: float = 300.0,
    costs: FunctionCosts | None = None,
) -> FlipLabels:
    """Label the inlining decisions of a module around a policy.

    The policy compiles the module once. Each further compile flips one decision in each of many functions that are
    independent of each other, and attributes the change of each function to the flip that reaches it. Flips that share
    a changed function get no label. A compile gives no labels if its flips do not explain its changes.

    Args:
        compilation: The compile; it includes the flags of the task.
        task: The bound task; its only advisor is the inliner's.
        policy: The policy whose decisions are flipped.
        compiles: Maximum number of compiles, without those of `check` (≥ 1).
        seconds: CPU time after which no further compile starts.
        seed: Selects the flipped decisions.
        check: Number of labels to measure once more, by flipping the decision alone.
        timeout: Longest silence of clang, in seconds.
        costs: Costs to measure instead of bytes.

    Raises:
        CompilerError: the compile under the policy failed, or its program.
        MlgoError: the task has other decisions than inlining.
    """
    # Bytes, because a file name may be invalid UTF-8.
    text = f"{seed} {compilation.module.name}".encode(errors="surrogateescape")
    chance = random.Random(text)  # noqa: S311 - no secret
    work = _Labelling(compilation, task, policy, chance, timeout, costs)
    started = cpu_seconds()
    while work.result.compiles < compiles and cpu_seconds() - started < seconds:
        if not work.flip_many():
            break
    work.check(check)
    sites = (decision.site for decision in work.unflipped.decisions)
    work.result.labels = [work.labels[site] for site in sites if site in work.labels]
    work.result.seconds = cpu_seconds() - started
    return work.result


class _Labelling:
    def __init__(
        self,
        compilation: Compilation,
        task: Task,
        policy: Policy,
        chance: random.Random,
        timeout: float,
        costs: FunctionCosts | None,
    ) -> None:
        self._compilation = compilation
        self._task = task
        self._policy = SessionPolicy(task, policy, compilation.module.name)
        self._chance = chance
        self._timeout = timeout
        self._costs = costs
        self._unit = 1 if costs is None else costs.unit
        self._counts_calls = costs is not None and costs.counts_calls
        self._stable = [name for name in task.headers[0].dtype.names or () if name not in _UNSTABLE]
        self.unflipped = self._compile(self._policy)
        decisions = self.unflipped.decisions
        self._unflipped_costs = self._cost_of(self.unflipped)
        self.result = FlipLabels(text=self._in_bytes(self._unflipped_costs.text), decisions=len(decisions), compiles=1)
        self.labels: dict[DecisionSite, FlipLabel] = {}
        self._attempts: dict[DecisionSite, int] = defaultdict(int)
        self._affected = AffectedFunctions(
            decisions, self.unflipped.functions.functions, counts_calls=self._counts_calls
        )
        interest = _interest(task, policy, decisions)
        self._interest = {decision.site: value for decision, value in zip(decisions, interest, strict=True)}

    def _compile(self, choose: Callable[[Decision], int]) -> InlineCompile:
        self._policy.begin()
        return run_inline_compile(self._compilation, self._task, choose, self._timeout)

    def _cost_of(self, compiled: InlineCompile) -> FunctionSizes:
        return compiled.functions if self._costs is None else self._costs.of(compiled).functions

    def _in_bytes(self, cost: int) -> int | float:
        """Return a cost of `FunctionCosts`, or bytes, in the unit of the metric."""
        return cost if self._unit == 1 else cost / self._unit

    def _stable_features(self, payload: bytes) -> list[Any]:
        record = np.frombuffer(payload, self._task.headers[0].dtype, 1)[0]
        return [record[name].tolist() for name in self._stable]

    def _compile_flipped(self, flips: list[InlineDecision]) -> tuple[InlineCompile, list[InlineDecision]]:
        """Return the compile with some decisions flipped, and those of them that occurred."""
        by_site = {flip.site: flip for flip in flips}
        done: list[InlineDecision] = []

        def choose(decision: Decision) -> int:
            answer = self._policy(decision)
            flip = by_site.get(decision.site)
            if flip is None or self._stable_features(flip.payload) != self._stable_features(decision.payload):
                return answer
            done.append(flip)
            return 1 - flip.answer

        return self._compile(choose), done

    def _candidates(self) -> list[InlineDecision]:
        """Return one decision of each component, the most interesting components first."""
        waiting: dict[str, list[InlineDecision]] = defaultdict(list)
        for decision in self.unflipped.decisions:
            if decision.site not in self.labels and self._attempts[decision.site] < MAX_ATTEMPTS:
                waiting[decision.context].append(decision)
        interest = {name: [self._interest[each.site] for each in group] for name, group in waiting.items()}
        priority = {
            name: max(interest[name]) * len(group) ** 0.5 * self._chance.random() for name, group in waiting.items()
        }
        order = sorted(waiting, key=lambda name: -priority[name])
        return [self._chance.choices(waiting[name], interest[name])[0] for name in order]

    def flip_many(self) -> bool:
        """Make one compile; return whether any decision was left to flip."""
        flips = independent(self._candidates(), lambda flip: self._affected.of([flip]), MAX_FLIPS)
        if not flips:
            return False
        result = self.result
        for flip in flips:
            self._attempts[flip.site] += 1
        result.compiles += 1
        result.flips += len(flips)
        try:
            compiled, done = self._compile_flipped(flips)
            after = self._cost_of(compiled)
        except CompilerError:
            result.failed += 1
            return True
        result.missed += len(flips) - len(done)
        before = self._unflipped_costs
        found = flip_effects(
            self.unflipped.decisions,
            compiled.decisions,
            size_changes(before, after),
            done,
            before.functions,
            counts_calls=self._counts_calls,
        )
        result.ambiguous += len(done) - len(found.bytes)
        if not found.is_reliable:
            result.unbalanced += 1
            return True
        for number, change in found.bytes.items():
            flip = done[number]
            self.labels[flip.site] = FlipLabel(flip, self._in_bytes(-change if flip.answer else change))
        return True

    def check(self, count: int) -> None:
        """Flip some labelled decisions alone."""
        labels = list(self.labels.values())
        for label in self._chance.sample(labels, min(count, len(labels))):
            try:
                compiled, done = self._compile_flipped([label.decision])
            except MlgoError:
                self.result.failed += 1
                continue
            if done:
                change = self._cost_of(compiled).text - self._unflipped_costs.text
                alone = self._in_bytes(-change if label.decision.answer else change)
                self.result.checked.append((label.bytes, alone))


def _interest(task: Task, policy: Policy, decisions: Sequence[InlineDecision]) -> list[float]:
    """Return a weight for each decision: larger if the policy is unsure or disagrees with clang."""
    interest = [0.1 + float(decision.answer != decision.default) for decision in decisions]
    if not decisions or not isinstance(policy, MlpPolicy):
        return [value + 0.9 for value in interest]
    observations = [task.observe(Decision(0, decision.site, decision.payload)) for decision in decisions]
    batch: Any = observations
    if isinstance(observations[0], dict):
        batch = {name: np.stack([observation[name] for observation in observations]) for name in observations[0]}
    logits = policy.logits(batch if isinstance(batch, dict) else np.stack(batch))
    return [value + float(np.exp(-abs(logit))) for value, logit in zip(interest, logits, strict=True)]


def cpu_seconds() -> float:
    """Return the CPU time of all finished child processes, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _text(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="replace")
