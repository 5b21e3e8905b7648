"""One compile by whoever decides, with the place and the callee of each inlining decision and the bytes by function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.function_sizes import FunctionSizes, function_sizes
from mlgo_gym.session.compiled import Compiled
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.inline_calls import Call
from mlgo_gym.session.inline_contexts import as_said, callee, feature_starts
from mlgo_gym.session.session import Session
from mlgo_gym.session.work import Work, complete
from mlgo_gym.tasks.task import Task


class PlacedDecision(NamedTuple):
    """An inlining decision that was made.

    Attributes:
        component: the functions that the inliner was at, separated by `", "`.
        visit: how often it was there before.
        position: the number of the decision within the visit.
        callee: the function that was called; empty where clang did not say.
        answer: 1 to inline it, 0 to keep the call.
        default: what clang itself would have answered.
        payload: the features, as they came.
        estimate: what inlining costs by clang's own model, the feature `cost_estimate`.
        call: what was foretold of the call before it was answered; None where nobody did.
    """

    component: str
    visit: int
    position: int
    callee: str
    answer: int
    default: int
    payload: bytes
    estimate: float = 0.0
    call: Call | None = None

    @property
    def functions(self) -> list[str]:
        """The functions of the component."""
        return self.component.split(", ")


@dataclass(frozen=True)
class PlacedCompile:
    """A compile that is over.

    Attributes:
        decisions: all of them, in order.
        functions: the bytes of each function.
    """

    decisions: tuple[PlacedDecision, ...]
    functions: FunctionSizes

    @property
    def text(self) -> int:
        """The bytes of the executable sections."""
        return self.functions.text

    @property
    def answers(self) -> tuple[int, ...]:
        """The answers to all decisions, in order."""
        return tuple(decision.answer for decision in self.decisions)

    @cached_property
    def visits(self) -> dict[tuple[str, int], list[PlacedDecision]]:
        """The decisions by component and visit."""
        visits: dict[tuple[str, int], list[PlacedDecision]] = {}
        for decision in self.decisions:
            visits.setdefault(decision[:2], []).append(decision)
        return visits


def compile_placed(
    compilation: Compilation, task: Task, choose: Callable[[Decision], int], timeout: float, *, foretell: bool = False
) -> PlacedCompile:
    """Compile a module and follow where each decision stands.

    Args:
        compilation: the compile; the task's own flags are part of it.
        task: the bound task, whose first advisor is the inliner's; what others would ask about is left to clang.
        choose: returns 1 to inline, 0 to keep the call; its decisions have contexts.
        timeout: the longest wait for each sign of life of clang, in seconds.
        foretell: whether the decisions that `choose` is given have their calls.

    Raises:
        CompilerError: the compile failed.
        ToolchainError: clang does not say where it inlines.
        MlgoError: the object has no symbols, or the task is not about inlining.
    """
    return complete(placing(compilation, task, choose, foretell=foretell), timeout)


def placing(
    compilation: Compilation, task: Task, choose: Callable[[Decision], int], *, foretell: bool = False
) -> Work[PlacedCompile]:
    """Do what `compile_placed()` does, as work for an event loop too."""
    if task.advisors[:1] != (INLINING,):
        asking = ", ".join(advisor.name for advisor in task.advisors)
        raise MlgoError(f"the places of inlining decisions were wanted, and who asks is {asking}: use mlgo/Inline-v0")
    made: list[tuple[Decision, int]] = []
    confined = compilation.confined
    with Session(
        compilation.command, (INLINING,), confined=confined, limits=compilation.limits, contexts=True, foretell=foretell
    ) as session:
        while (decision := (yield session)) is not None:
            answer = choose(decision)
            advice = task.encode(decision, answer)
            assert advice is not None, "0 and 1 are legal at every inlining decision"
            made.append((decision, answer))
            session.advise(advice)
        compiled = session.finish(0.0)
        assert session.contexts is not None
        remarks = session.contexts.remarks
    return place(made, remarks, compiled, task)


def place(made: list[tuple[Decision, int]], remarks: list[bytes], compiled: Compiled, task: Task) -> PlacedCompile:
    """Return a compile that is over, from what its session left.

    Args:
        made: each inlining decision and its answer.
        remarks: what clang remarked after each.
        compiled: the object.
        task: the bound task, whose first advisor is the inliner's.

    Raises:
        MlgoError: the object is no ELF file, or has no symbols.
    """
    header = task.headers[0]
    starts = feature_starts(header)
    decisions = []
    for (decision, answer), remark in zip(made, remarks, strict=True):
        said = as_said(decision.payload, starts)
        estimate = np.frombuffer(decision.payload, header.dtype)[0]["cost_estimate"][0]
        decisions.append(
            PlacedDecision(
                *(decision.context, decision.visit, decision.number, callee(remark, said) or ""),
                *(answer, int(task.default_action(decision)), decision.payload),
                float(estimate),
                decision.call,
            )
        )
    return PlacedCompile(tuple(decisions), function_sizes(compiled.object_bytes))
