"""The labels of one module: bytes of "inline" minus bytes of "do not", for many decisions of few compiles."""

from __future__ import annotations

import random
import resource
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.many_flips import Territory, attribute, unrelated
from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision, compile_placed
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.function_sizes import size_changes
from mlgo_gym.policies.answers import Answers
from mlgo_gym.policies.call_features import features_of_calls
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.session.decision import Decision
from mlgo_gym.tasks.task import Task

MOST_FLIPS = 400
"""The most decisions that are flipped in one compile."""

MOST_TRIES = 3
"""A decision whose flip was ambiguous so often is left alone."""

_MOVING = frozenset(
    (
        *("node_count", "edge_count", "callee_users", "caller_users", "last_call_to_static_bonus"),
        *("inlining_default", "cost_estimate", "cold_cc_penalty"),
    )
)
"""Features that flips elsewhere change: without them it can still be the same decision."""

Site = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Label:
    """What one decision is worth around a policy.

    Attributes:
        decision: the decision, as the policy answered it.
        bytes: the bytes of the module if the call is inlined minus those if it is not.
        calls: the values of `CALL_FEATURES`; empty where nobody foretold the calls.
    """

    decision: PlacedDecision
    bytes: int
    calls: tuple[float, ...] = ()


@dataclass(slots=True)
class ModuleLabels:
    """The labels of a module, and what they cost.

    Attributes:
        labels: the labels, in the order of the decisions.
        text: the bytes of the executable sections under the policy alone.
        decisions: how many decisions the policy answered.
        compiles: how many compiles were made.
        flips: how many decisions were flipped in them all together.
        missed: of those, how many did not come up any more, for another flip of the same compile.
        ambiguous: of those, how many met another in a function.
        unbalanced: how many compiles were thrown away, for more changed in them than their flips explain.
        failed: how many compiles failed.
        seconds: the processor time of all compiles.
        check_seconds: that of the compiles of `checked`, which is part of it.
        checked: pairs of a label and of what flipping that decision alone gave.
    """

    labels: list[Label] = field(default_factory=list)
    text: int = 0
    decisions: int = 0
    compiles: int = 0
    flips: int = 0
    missed: int = 0
    ambiguous: int = 0
    unbalanced: int = 0
    failed: int = 0
    seconds: float = 0.0
    check_seconds: float = 0.0
    checked: list[tuple[int, int]] = field(default_factory=list)


def label_module(
    compilation: Compilation,
    task: Task,
    policy: Policy,
    *,
    compiles: int = 40,
    seconds: float = float("inf"),
    seed: int = 0,
    check: int = 0,
    timeout: float = 300.0,
    calls: bool = False,
) -> ModuleLabels:
    """Measure what decisions of a module are worth around a policy.

    The policy compiles the module once. Each further compile flips one decision in each of many functions that have
    nothing to do with each other, and each function's change is put down to the flip that reaches it. Flips that meet
    in a function have no label, and a compile in which too much changed that no flip explains gives none at all.

    Args:
        compilation: the compile; the task's own flags are part of it.
        task: the bound task, whose only advisor is the inliner's.
        policy: what the labels are taken around.
        compiles: the most compiles, without those of `check`.
        seconds: after so much processor time no further compile begins.
        seed: which decisions are flipped depends on it.
        check: so many labels are measured again by flipping that decision alone.
        timeout: how long clang may be silent, in seconds.
        calls: whether labels have features of calls; a policy that sees calls needs it.

    Raises:
        CompilerError: the compile by the policy alone failed.
        MlgoError: the task is not about inlining alone.
    """
    work = _Work(compilation, task, policy, _chance(seed, compilation.module.name), timeout, calls)
    begun = _processor_seconds()
    while work.result.compiles < compiles and _processor_seconds() - begun < seconds:
        if not work.flip_many():
            break
    labelled = _processor_seconds()
    work.check(check)
    work.result.check_seconds = _processor_seconds() - labelled
    work.result.labels = [work.labels[decision[:3]] for decision in work.alone.decisions if decision[:3] in work.labels]
    work.result.seconds = _processor_seconds() - begun
    return work.result


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class _Work:
    def __init__(
        self, compilation: Compilation, task: Task, policy: Policy, chance: random.Random, timeout: float, calls: bool
    ) -> None:
        self._compilation = compilation
        self._task = task
        self._answers = Answers(task, policy, compilation.module.name)
        self._chance = chance
        self._timeout = timeout
        self._foretell = calls
        self._steady = [name for name in task.headers[0].dtype.names or () if name not in _MOVING]
        self.alone = self._compile(self._answers)
        self.result = ModuleLabels(text=self.alone.text, decisions=len(self.alone.decisions), compiles=1)
        self.labels: dict[Site, Label] = {}
        self._calls: dict[Site, tuple[float, ...]] = {}
        if calls and self.alone.decisions:
            rows = features_of_calls(self.alone.decisions, task.headers[0].dtype).tolist()
            self._calls = {decision[:3]: tuple(row) for decision, row in zip(self.alone.decisions, rows, strict=True)}
        self._tries: dict[Site, int] = defaultdict(int)
        self._territory = Territory(self.alone.decisions, self.alone.functions.functions)
        interest = self._answers.interest(self.alone.decisions) if self.alone.decisions else []
        self._interest = {decision[:3]: value for decision, value in zip(self.alone.decisions, interest, strict=True)}

    def _compile(self, choose: Callable[[Decision], int]) -> PlacedCompile:
        self._answers.begin()
        return compile_placed(self._compilation, self._task, choose, self._timeout, foretell=self._foretell)

    def _features(self, payload: bytes) -> list[Any]:
        record = np.frombuffer(payload, self._task.headers[0].dtype, 1)[0]
        return [record[name].tolist() for name in self._steady]

    def _compile_with(self, flips: list[PlacedDecision]) -> tuple[PlacedCompile, list[PlacedDecision]]:
        """Return the compile with some decisions flipped, and those of them that came up again."""
        wanted = {flip[:3]: flip for flip in flips}
        done: list[PlacedDecision] = []

        def choose(decision: Decision) -> int:
            answer = self._answers(decision)
            flip = wanted.get((decision.context, decision.visit, decision.number))
            if flip is None or self._features(flip.payload) != self._features(decision.payload):
                return answer
            done.append(flip)
            return 1 - flip.answer

        return self._compile(choose), done

    def _offer(self) -> list[PlacedDecision]:
        """Return one decision of each component, in the order in which they are wanted."""
        waiting: dict[str, list[PlacedDecision]] = defaultdict(list)
        for decision in self.alone.decisions:
            if decision[:3] not in self.labels and self._tries[decision[:3]] < MOST_TRIES:
                waiting[decision.component].append(decision)
        interest = {name: [self._interest[each[:3]] for each in group] for name, group in waiting.items()}
        wanted = {
            name: max(interest[name]) * len(group) ** 0.5 * self._chance.random() for name, group in waiting.items()
        }
        order = sorted(waiting, key=lambda name: -wanted[name])
        return [self._chance.choices(waiting[name], interest[name])[0] for name in order]

    def flip_many(self) -> bool:
        """Make one compile; return whether there was anything left to flip."""
        flips = unrelated(self._offer(), lambda flip: self._territory.of([flip]), MOST_FLIPS)
        if not flips:
            return False
        result = self.result
        for flip in flips:
            self._tries[flip[:3]] += 1
        result.compiles += 1
        result.flips += len(flips)
        try:
            compiled, done = self._compile_with(flips)
        except CompilerError:
            result.failed += 1
            return True
        result.missed += len(flips) - len(done)
        changes = size_changes(self.alone.functions, compiled.functions)
        found = attribute(self.alone.decisions, compiled.decisions, changes, done, self.alone.functions.functions)
        result.ambiguous += len(done) - len(found.bytes)
        if not found.balances:
            result.unbalanced += 1
            return True
        for number, change in found.bytes.items():
            flip = done[number]
            worth = -change if flip.answer else change
            self.labels[flip[:3]] = Label(flip, worth, self._calls.get(flip[:3], ()))
        return True

    def check(self, most: int) -> None:
        """Flip some labelled decisions alone, and keep what that gives beside their labels."""
        labels = list(self.labels.values())
        for label in self._chance.sample(labels, min(most, len(labels))):
            try:
                compiled, done = self._compile_with([label.decision])
            except MlgoError:
                self.result.failed += 1
                continue
            if done:
                change = compiled.text - self.alone.text
                self.result.checked.append((label.bytes, -change if label.decision.answer else change))


def _chance(seed: int, module: str) -> random.Random:
    # As bytes, since a file's name may have some that are no UTF-8.
    return random.Random(f"{seed} {module}".encode(errors="surrogateescape"))  # noqa: S311 - no secret
