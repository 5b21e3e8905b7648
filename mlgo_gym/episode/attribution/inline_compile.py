"""A compile with the site and the callee of each inlining decision, and the bytes of each function."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from mlgo_gym.compiler.callee_features import uses_callee_features
from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.coroutine import CompilerCoroutine, drive_coroutine, run_blocking
from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.compiler.waiting import interruptible
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.sizes import FunctionSizes, function_sizes
from mlgo_gym.tasks.measurement import frames_of
from mlgo_gym.tasks.task import Task

Visits = Mapping[tuple[str, int], Sequence["InlineDecision"]]
"""Decisions by context and visit."""

CallSite = tuple[DecisionSite, str]
"""Site and callee of an inlining decision."""


class InlineDecision(NamedTuple):
    """An inlining decision and its answer.

    Attributes:
        callee: Symbol of the called function; empty where clang did not print it.
        answer, default: 1 inlines the call, 0 keeps it; that of clang's own heuristic.
        payload: Bytes of the observation, in header order.
        estimate: Cost of inlining in clang's cost model, the feature `cost_estimate`.
        predicted_callee: Prediction of `callee`; None without callee features.
    """

    site: DecisionSite
    callee: str
    answer: int
    default: int
    payload: bytes
    estimate: float = 0.0
    predicted_callee: str | None = None

    @property
    def context(self) -> str:
        """The context of the site."""
        return self.site.context

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the context."""
        return self.site.functions

    @property
    def call_site(self) -> CallSite:
        """The site and the callee, which identify the same call in another compile."""
        return self.site, self.callee


@dataclass(frozen=True)
class InlineCompile:
    """A finished compile with all its inlining decisions, the bytes of each function, and the object file.

    `frames` has the bytes of the stack frame of each function; None without `STACK_USAGE_FLAGS`.
    """

    decisions: tuple[InlineDecision, ...]
    functions: FunctionSizes
    object_bytes: bytes = field(default=b"", repr=False)
    frames: Mapping[str, int] | None = None

    @property
    def text(self) -> int:
        """The bytes of the executable sections."""
        return self.functions.text

    @property
    def answers(self) -> tuple[int, ...]:
        """The answers to all decisions, in order."""
        return tuple(decision.answer for decision in self.decisions)

    @cached_property
    def visits(self) -> dict[tuple[str, int], list[InlineDecision]]:
        """The decisions by context and visit."""
        visits: dict[tuple[str, int], list[InlineDecision]] = {}
        for decision in self.decisions:
            visits.setdefault(decision.site[:2], []).append(decision)
        return visits

    @classmethod
    def from_session(
        cls, answered: Iterable[tuple[Decision, int]], callees: Iterable[str], compiled: CompileResult, task: Task
    ) -> "InlineCompile":
        """Return a finished compile, from each inlining decision with its answer and its callee."""
        dtype = task.headers[0].dtype
        decisions = tuple(
            InlineDecision(
                site=decision.site,
                callee=callee,
                answer=answer,
                default=int(task.default_action(decision)),
                payload=decision.payload,
                estimate=float(np.frombuffer(decision.payload, dtype)[0]["cost_estimate"][0]),
                predicted_callee=decision.callee,
            )
            for (decision, answer), callee in zip(answered, callees, strict=True)
        )
        data = compiled.object_bytes
        return cls(decisions, function_sizes(data), data, frames_of(compiled))


def answers_by_call_site(decisions: Iterable[InlineDecision]) -> dict[CallSite, int]:
    """Return the answer at each call site."""
    return {decision.call_site: decision.answer for decision in decisions}


def differing(reference: Iterable[InlineDecision], decisions: Iterable[InlineDecision]) -> list[int]:
    """Return the indices of the decisions that differ from those of a reference compile.

    A decision is compared with the reference's answer at the same call site. A call site that the reference lacks is
    part of inlined code; a decision there differs if it is not clang's own choice.
    """
    answers = answers_by_call_site(reference)
    return [
        index
        for index, decision in enumerate(decisions)
        if decision.answer != answers.get(decision.call_site, decision.default)
    ]


def with_counterpart(visits: Visits, decision: InlineDecision) -> list[InlineDecision]:
    """Return a decision, followed by the decision at the same site of another compile, given by visits, if any."""
    site = decision.site
    return [decision, *visits.get(site[:2], ())[site.index : site.index + 1]]


def run_inline_compile(
    compilation: Compilation,
    task: Task,
    choose: Callable[[Decision], int],
    timeout: float,
    *,
    blank_callee_features: bool = False,
) -> InlineCompile:
    """Compile a module, and record the site and the callee of each inlining decision.

    `choose` returns 1 to inline, 0 to keep the call; clang decides for the other advisors of the task. With
    `blank_callee_features` these features are 0 instead of predicted, which takes less time.

    Raises:
        CompilerError: The compile failed.
        MlgoError: An action is illegal, the object has no symbols, or the task has no inlining.
    """
    chooses = partial(interruptible, choose)
    work = inline_compile_coroutine(compilation, task, chooses, blank_callee_features=blank_callee_features)
    return run_blocking(work, timeout)


def inline_compile_coroutine(
    compilation: Compilation, task: Task, choose: Callable[[Decision], int], *, blank_callee_features: bool = False
) -> CompilerCoroutine[InlineCompile]:
    """Return `run_inline_compile()` as a coroutine for an event loop."""
    if task.advisors[:1] != (INLINING,):
        names = ", ".join(advisor.name for advisor in task.advisors)
        raise MlgoError(f"expected a task that decides inlining, got one for {names}; use mlgo/Inline-v0")
    answered: list[tuple[Decision, int]] = []
    header = task.headers[0]
    callee_features = not blank_callee_features and uses_callee_features(spec.name for spec in header.features)

    def advise(decision: Decision) -> bytes:
        if blank_callee_features:
            decision = decision._replace(payload=decision.payload.ljust(header.dtype.itemsize, b"\0"))
        answered.append((decision, choose(decision)))
        return task.advice(*answered[-1])

    code = compilation.code is not None
    with compilation.session((INLINING,), contexts=True, callee_features=callee_features, code=code) as session:
        compiled = yield from drive_coroutine(session, advise)
        callees = session.callees()
    return InlineCompile.from_session(answered, callees, compiled, task)
