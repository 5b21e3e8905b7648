"""An episode: one compile under an agent, then its measurement against the baseline.

This module does not depend on Gymnasium. `proceed()` never blocks, so one event loop can serve many episodes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.coroutine import CompilerCoroutine
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.attribution.inline_compile import InlineCompile
from mlgo_gym.episode.baseline import keep_baseline, known_baseline, measure_baseline
from mlgo_gym.episode.decision_count import keep_decisions
from mlgo_gym.episode.project_costs import ProjectCost
from mlgo_gym.episode.reproducer import keep_crash
from mlgo_gym.errors import ActionError, CompilerError, MlgoError, SnapshotError, ToolchainError
from mlgo_gym.llvm.allocation_record import LAST_REMARK, REMARK_FLAGS
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.tasks.task import Task

watchers: list[Callable[[CompileResult, bool], None]] = []
"""Functions that get each finished compile, and whether plain clang decided; `mlgo_gym.testing` adds one."""


@dataclass(eq=False)
class Episode:
    """One compile, from its start to its measurement.

    Args:
        compilation: The compile; the task's flags are part of it.
        task: The bound task.
        max_decisions: Number of decisions of the agent, after which clang decides to the end.
        function: The only function that the agent decides, for inlining a component; clang decides all others.
        function_only: Measure the allocation of that function only; the compile ends with it.
        contexts: Follow the site of each inlining decision.
        credit: Keep what `inline_compile` needs; requires `contexts`.
        callee_features: Extend observations by callee features; requires `contexts`.
        given_baseline: Measurement to compare with. Default: that of the plain compile.
        project_costs: Costs by metric that depend on the other modules of the project.

    Attributes:
        decision: The pending decision; None while clang computes and when the episode is over.
        decisions: Number of decisions that the agent has answered.
        handed_over: Number of decisions that clang has answered after `max_decisions`.
        measurement: Measurement of the finished compile.
        baseline: Measurement of the baseline, once the compile has finished.
        agent_indices: Indices of the agent's decisions among all decisions; only with `credit`.
        inline_compile: All inlining decisions with their sites, and the bytes of each function, once the compile has
            finished; None without `credit`.
        fork_method: `"snapshot"` or `"replay"` for an episode that `fork()` returned, else None.
        fork_reason: Reason for a replay; empty otherwise.

    Raises:
        CompilerError: clang cannot be started (kind `start`).
    """

    compilation: Compilation
    task: Task
    _: KW_ONLY
    max_decisions: int | None = None
    function: str | None = None
    function_only: bool = False
    contexts: bool = False
    credit: bool = False
    callee_features: bool = False
    given_baseline: Measurement | None = None
    project_costs: Mapping[str, ProjectCost] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inline_compile: InlineCompile | None = None
        self._answered: list[Decision] | None = [] if self.credit else None
        self.agent_indices: list[int] = []
        self.decision: Decision | None = None
        self.decisions = 0
        self.handed_over = 0
        self.measurement: Measurement | None = None
        self.baseline: Measurement | None = None
        self.fork_method: str | None = None
        self.fork_reason = ""
        self._answers: list[bytes] = []
        self._unchecked = set(range(len(self.task.advisors)))
        self._baseline_session: Session | None = None
        self.session = self._fresh_session()

    def _fresh_session(self) -> Session:
        compilation = self.compilation
        if self.function_only:
            return replace(compilation, flags=(*compilation.flags, *REMARK_FLAGS)).session(self.task.advisors)
        return compilation.session(
            self.task.advisors,
            optimization_record=self.task.optimization_record,
            contexts=self.contexts,
            callees=self._answered is not None or self.callee_features,
            callee_features=self.callee_features,
        )

    @property
    def over(self) -> bool:
        """Whether the compile and its baseline are measured."""
        return self.baseline is not None

    @property
    def current(self) -> Session:
        """The running session: the agent's compile, then the baseline's if it is not known."""
        return self._baseline_session or self.session

    @property
    def answered(self) -> list[tuple[Decision, bytes]]:
        """All answered decisions, clang's own choices included, and their advice; only with `credit`."""
        assert self._answered is not None, "decisions are kept for credit"
        return list(zip(self._answered, self._answers, strict=True))

    def answer(self, advice: bytes) -> None:
        """Answer the pending decision with the bytes of an advice tensor.

        Raises:
            ActionError: no decision is pending.
        """
        if self.decision is None:
            raise ActionError("expected a pending decision for answer(), got none; start another episode")
        self.decision = None
        self.decisions += 1
        self._advise(advice)

    def _advise(self, advice: bytes) -> None:
        self._answers.append(advice)
        self.session.advise(advice)

    def switch_to(self, function: str) -> None:
        """Let clang decide the current function, whose first decision is pending, and the agent a later one."""
        assert self.decision is not None, "a decision is pending"
        assert self.decisions == 0, "the agent has not decided anything"
        advice = self.task.default_advice(self.decision)
        self.agent_indices.clear()
        if self.function_only:
            self.session.stop_at(b"")
        self.function, self.decision = function, None
        self._advise(advice)

    def fork(self, timeout: float) -> Episode:
        """Return an independent copy of the episode at the same decision.

        The running clang is copied. Where that is not possible, a fresh clang gets the same answers. It may be silent
        for `timeout` seconds.

        Raises:
            ActionError: no decision is pending.
            CompilerError: a fresh clang failed or was silent for too long.
            SnapshotError: a fresh clang came to another decision.
        """
        if self.decision is None:
            raise ActionError("expected a pending decision for fork(), got none; start another episode")
        copied = copy.copy(self)
        copied._answers, copied._unchecked = self._answers.copy(), self._unchecked.copy()
        copied._answered, copied.agent_indices = copy.copy(self._answered), self.agent_indices.copy()
        supported, reason = snapshot_support()
        failure = None
        if supported:
            try:
                copied.session, copied.fork_method, copied.fork_reason = self.session.fork(), "snapshot", ""
            except SnapshotError as error:
                failure, reason = error, str(error)
            else:
                return copied
        try:
            copied.session, copied.fork_method, copied.fork_reason = self._replay(timeout), "replay", reason
        except MlgoError as error:
            raise error from failure
        return copied

    def restart(self) -> Episode:
        """Start the same compile once more, with decision sites and without a limit of decisions."""
        return Episode(
            self.compilation,
            self.task,
            function=self.function,
            contexts=True,
            callee_features=self.callee_features,
            given_baseline=self.given_baseline or self.baseline,
            project_costs=self.project_costs,
        )

    def _replay(self, timeout: float) -> Session:
        session = self._fresh_session()
        try:
            # The site of a decision is only known while clang waits at it.
            ahead = len(self.task.advisors) == 1 and not self.contexts
            if ahead:
                session.advise_ahead(self._answers)
            found = session.wait(timeout)
            for advice in () if ahead else self._answers:
                if found is not None:
                    session.advise(advice)
                    found = session.wait(timeout)
            if found is None:
                session.finish(0.0)  # raises if clang failed
            if found != self.decision:
                raise SnapshotError(
                    f"expected the same decision after {len(self._answers)} replayed answers, got "
                    f"{'the end of the compile' if found is None else f'another, {found.site}'}; reset() instead"
                )
            if self.function_only:
                session.stop_at(LAST_REMARK.encode())
        except BaseException:
            session.close()
            raise
        return session

    def proceed(self) -> CompilerCoroutine[None]:
        """Continue to the next decision or to the end of the episode, as a coroutine.

        Raises:
            CompilerError: the compile or that of the baseline failed, or was silent for too long.
            ToolchainError: clang's header differs from that of its probe.
        """
        while self.decision is None and not self.over:
            self.take((yield self.current))

    def wait(self, timeout: float) -> None:
        """Do what `proceed()` does, blocking; clang may be silent for `timeout` seconds."""
        while self.decision is None and not self.over:
            self.take(self.current.wait(timeout))

    def take(self, decision: Decision | None) -> bool:
        """Process the next decision of the current session, or None for its end.

        Returns:
            Whether a decision is pending for the agent or the episode is over.

        Raises:
            CompilerError: the compile or that of the baseline failed.
            ToolchainError: clang's header differs from that of its probe.
        """
        if decision is None:
            self._ended()
            return self.over
        if self._answered is not None:
            self._answered.append(decision)
        if decision.advisor in self._unchecked:
            self._check_header(decision.advisor)
        if self.function is not None and decision.context != self.function:
            self._advise(self.task.default_advice(decision))
        elif self.max_decisions is not None and self.decisions >= self.max_decisions:
            self.handed_over += 1
            self._advise(self.task.default_advice(decision))
        else:
            if self.function_only and not self.decisions:
                self.session.stop_at(LAST_REMARK.encode())
            if self._answered is not None:
                self.agent_indices.append(len(self._answered) - 1)
            self.decision = decision
            return True
        return False

    def _check_header(self, advisor: int) -> None:
        self._unchecked.discard(advisor)
        found, expected = self.session.header(advisor), self.task.headers[advisor]
        if found != expected:
            self.session.kill()
            raise ToolchainError(
                f"expected the header {expected} of the {self.task.advisors[advisor].name} advisor, got {found}; make "
                "the environment with the flags that change it, or delete the cache if the compiler was replaced"
            )

    def _ended(self) -> None:
        """Process the end of a session: the agent's compile first, then the baseline's if it is not known."""
        measurement = self._measure()
        if self._baseline_session is not None:
            keep_baseline(self.compilation, measurement, optimization_record=self.task.optimization_record)
            self._baseline_session.close()
            self.baseline = self._with_project_costs(measurement)
            return
        self.measurement = measurement
        if self.function is None and not self.decisions + self.handed_over:
            keep_decisions(self.compilation, self.task, {})
        self.session.close()
        record = self.task.optimization_record
        baseline = self.given_baseline or known_baseline(self.compilation, optimization_record=record)
        if baseline is None:
            self._baseline_session = self.compilation.session(optimization_record=record)
        else:
            self.baseline = self._with_project_costs(baseline)

    def _measure(self) -> Measurement:
        if self.function_only and self._baseline_session is None:
            assert self.function is not None
            if LAST_REMARK not in self.session.captured:
                self.session.finish(0.0)
            return Measurement.of_function(self.function, self.session.captured)
        compiled = self.current.finish(0.0)
        for watch in watchers:
            watch(compiled, self._baseline_session is not None)
        if self._answered is not None and self._baseline_session is None:
            assert self.session.contexts is not None, "credit needs decision sites"
            inlining = [(each, int.from_bytes(advice, "little")) for each, advice in self.answered if each.advisor == 0]
            self.inline_compile = InlineCompile.from_session(
                inlining, self.session.contexts.remarks, compiled, self.task
            )
        if self._baseline_session is not None:
            return Measurement.of(compiled)
        return self._with_project_costs(Measurement.of(compiled), compiled.object_bytes)

    def _with_project_costs(self, measurement: Measurement, object_bytes: bytes | None = None) -> Measurement:
        """Return a measurement with the costs of the project; None is the object of plain clang."""
        if not self.project_costs or measurement.project:
            return measurement
        module = self.compilation.module.name
        costs = {metric: each.cost(module, object_bytes) for metric, each in self.project_costs.items()}
        return replace(measurement, project=costs)

    def measure_baseline(self, timeout: float) -> Measurement:
        """Return the measurement of the baseline; compile it, blocking, if it is not known.

        Raises:
            MlgoError: plain clang fails too.
        """
        record = self.task.optimization_record
        baseline = self.given_baseline or measure_baseline(self.compilation, timeout, optimization_record=record)
        return self._with_project_costs(baseline)

    def keep_crash(self, error: CompilerError) -> None:
        """Keep a reproducer of a crash of the current compile, and set its folder in the error."""
        advisors, answers = (self.task.advisors, self._answers) if self._baseline_session is None else ((), [])
        folder = keep_crash(self.compilation, advisors, answers, error)
        error.reproducer = None if folder is None else str(folder)

    def close(self) -> None:
        """End the compile if it still runs. Idempotent."""
        self.session.close()
        if self._baseline_session is not None:
            self._baseline_session.close()
