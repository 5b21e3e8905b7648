"""One compile under an agent: its decisions, then what it achieved against the compiler's own heuristic.

Nothing here knows Gymnasium, and `proceed()` never blocks, so that one event loop can serve many episodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.baseline import baseline_session, keep_baseline, known_baseline
from mlgo_gym.episode.decision_count import keep_decisions
from mlgo_gym.episode.placed_compile import PlacedCompile, place
from mlgo_gym.episode.reproducer import keep_crash
from mlgo_gym.episode.twin import twin_of
from mlgo_gym.errors import CompilerError, MlgoError, SnapshotError, ToolchainError
from mlgo_gym.llvm.allocation_remarks import LAST_REMARK, REMARK_FLAGS
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.forkable_session import ForkableSession
from mlgo_gym.session.session import Session
from mlgo_gym.session.snapshot_support import snapshot_support
from mlgo_gym.session.work import Work
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.tasks.task import Task


class Episode:
    """One compile, from its start to its measurement.

    Args:
        compilation: what to compile; the task's own flags are part of it.
        task: whose decisions these are.
        max_decisions: after so many decisions of the agent, clang's own choices are taken to the end. With `functions`,
            after so many in each.
        function: ask the agent about this function alone, for inlining a component; clang's own choices are taken for
            all others.
        functions: ask about these, each of which is an episode for the agent; in the place of `function`.
        alone: measure the allocation of that function alone; the compile ends with it.
        contexts: follow in which functions clang inlines.
        credit: keep what `placed` needs; requires `contexts`.
        calls: foretell the call of each decision; requires `contexts`.
        baseline: what the episode is compared with; by default a plain compile, made or known from before.

    Attributes:
        decision: what clang waits with; None while it computes, and when the episode is over.
        decisions: how many decisions the agent has answered.
        answered: how many of these are in each context; with `functions` alone.
        handed_over: how many decisions clang's own choice answered once the agent's budget was spent.
        handed_over_in: how many of these are in each context.
        measurement: what the compile achieved, once it is over.
        baseline: what the compiler's own heuristic achieves, once the compile is over.
        compared: what it is compared with, where that is no plain compile.
        own: the positions of the agent's decisions among all; kept with `credit` alone.
        placed: all inlining decisions with their places, and the bytes of each function, once the compile is over; None
            without `credit`.
        fork_method: how `fork()` made this episode: `"snapshot"`, `"replay"`, or None for one that was started.
        fork_reason: why `fork()` had to replay; empty if it did not.

    Raises:
        CompilerError: of kind `start`, when clang cannot be started.
    """

    def __init__(
        self,
        compilation: Compilation,
        task: Task,
        *,
        max_decisions: int | None = None,
        function: str | None = None,
        functions: Collection[str] | None = None,
        alone: bool = False,
        contexts: bool = False,
        credit: bool = False,
        calls: bool = False,
        baseline: Measurement | None = None,
    ) -> None:
        self.function = function
        self.functions = frozenset(functions) if functions is not None else None
        self.alone = alone
        self.contexts = contexts
        self.calls = calls
        self.placed: PlacedCompile | None = None
        self._made: list[Decision] | None = [] if credit else None
        self.own: list[int] = []
        self.compilation = compilation
        self.task = task
        self.decision: Decision | None = None
        self.decisions = 0
        self.answered: Counter[str] = Counter()
        self.handed_over = 0
        self.handed_over_in: Counter[str] = Counter()
        self.measurement: Measurement | None = None
        self.baseline: Measurement | None = None
        self.compared = baseline
        self.fork_method: str | None = None
        self.fork_reason = ""
        self._answers: list[bytes] = []
        self._budget = max_decisions
        self._unchecked = set(range(len(task.advisors)))
        self._baseline_session: Session | None = None
        self.session = self._fresh_session()

    def _fresh_session(self) -> ForkableSession:
        command, advisors, confined = self.compilation.command, self.task.advisors, self.compilation.confined
        if self.alone:
            return ForkableSession(
                (*command, *REMARK_FLAGS), advisors, confined=confined, limits=self.compilation.limits
            )
        record = self.task.optimization_record
        return ForkableSession(
            command,
            advisors,
            optimization_record=record,
            confined=confined,
            limits=self.compilation.limits,
            contexts=self.contexts,
            callees=self._made is not None or self.calls,
            foretell=self.calls,
        )

    @property
    def over(self) -> bool:
        """Whether both measurements are there."""
        return self.baseline is not None

    @property
    def current(self) -> Session:
        """The session that runs now: the agent's compile, and after it, if need be, the baseline's."""
        return self._baseline_session or self.session

    @property
    def made(self) -> list[tuple[Decision, bytes]]:
        """All decisions that were answered, clang's own choices among them, and the answers; with `credit` alone."""
        assert self._made is not None, "decisions are kept for credit"
        return list(zip(self._made, self._answers, strict=True))

    def answer(self, advice: bytes) -> None:
        """Answer the current decision with the bytes of an advice tensor."""
        assert self.decision is not None, "answer() answers a decision"
        if self.functions is not None:
            self.answered[self.decision.context] += 1
        self.decision = None
        self.decisions += 1
        self._advise(advice)

    def _advise(self, advice: bytes) -> None:
        self._answers.append(advice)
        self.session.advise(advice)

    def turn_to(self, function: str) -> None:
        """Let clang decide the function whose first decision waits, and ask the agent about a later one."""
        assert self.decision is not None, "a function is left at its first decision"
        assert self.decisions == 0, "a function is left before it is begun"
        advice = self.task.default_advice(self.decision)
        self.own.clear()
        if self.alone:
            self.session.end_at(b"")
        self.function, self.decision = function, None
        self._advise(advice)

    def fork(self, timeout: float) -> Episode:
        """Return an independent copy of the episode, which waits with the same decision.

        The running clang is copied; where that is not possible, a fresh one is given the same answers.

        Args:
            timeout: for how long a fresh clang may give no sign of life, in seconds.

        Raises:
            CompilerError: a fresh clang failed or was silent for too long.
            SnapshotError: a fresh clang asked something else.
        """
        assert self.decision is not None, "fork() copies an episode that waits with a decision"
        twin = twin_of(self)
        twin._answers, twin._unchecked = self._answers.copy(), self._unchecked.copy()
        twin.answered, twin.handed_over_in = self.answered.copy(), self.handed_over_in.copy()
        twin._made, twin.own = None if self._made is None else self._made.copy(), self.own.copy()
        supported, reason = snapshot_support()
        failure = None
        if supported:
            try:
                twin.session, twin.fork_method, twin.fork_reason = self.session.fork(), "snapshot", ""
            except SnapshotError as error:
                failure, reason = error, str(error)
            else:
                return twin
        try:
            twin.session, twin.fork_method, twin.fork_reason = self._replay(timeout), "replay", reason
        except MlgoError as error:
            raise error from failure
        return twin

    def _replay(self, timeout: float) -> ForkableSession:
        session = self._fresh_session()
        try:
            # Where a decision stands is only heard while clang waits with it.
            ahead = len(self.task.advisors) == 1 and not self.contexts
            if ahead:
                session.advise_ahead(self._answers)
            found = session.wait(timeout)
            for advice in () if ahead else self._answers:
                if found is not None:
                    session.advise(advice)
                    found = session.wait(timeout)
            if found is None:
                session.finish(0.0)  # which raises where clang failed
            if found != self.decision:
                raise SnapshotError(
                    f"a fresh clang was to come to the same decision by the same {len(self._answers)} answers, and "
                    f"came to {'its end' if found is None else f'another, {found.number} of {found.context!r}'}"
                )
            if self.alone:
                session.end_at(LAST_REMARK.encode())
        except BaseException:
            session.close()
            raise
        return session

    def proceed(self) -> Work[None]:
        """Go on until there is a decision to answer or the episode is over, as work that an event loop can carry on.

        Raises:
            CompilerError: the compile, or that of the baseline, failed or was silent for too long.
            ToolchainError: clang asks for other features than it did when it was probed.
        """
        while self.decision is None and not self.over:
            self.take((yield self.current))

    def wait(self, timeout: float) -> None:
        """Do what `proceed()` does, waiting.

        Args:
            timeout: for how long clang may give no sign of life, in seconds.
        """
        while self.decision is None and not self.over:
            self.take(self.current.wait(timeout))

    def take(self, decision: Decision | None) -> bool:
        """Take in the current session's next decision, or None for its end.

        Returns:
            Whether there is now something to tell the agent: a decision to answer, or the end of the episode.

        Raises:
            CompilerError: the compile, or that of the baseline, failed.
            ToolchainError: clang asks for other features than it did when it was probed.
        """
        if decision is None:
            self._ended()
            return self.over
        if self._made is not None:
            self._made.append(decision)
        if decision.advisor in self._unchecked:
            self._check_header(decision.advisor)
        if not self._is_asked_about(decision.context):
            self._advise(self.task.default_advice(decision))
        elif self._budget is not None and self._spent(decision.context) >= self._budget:
            self.handed_over += 1
            if self.functions is not None:
                self.handed_over_in[decision.context] += 1
            self._advise(self.task.default_advice(decision))
        else:
            if self.alone and not self.decisions:
                self.session.end_at(LAST_REMARK.encode())
            if self._made is not None:
                self.own.append(len(self._made) - 1)
            self.decision = decision
            return True
        return False

    def _is_asked_about(self, context: str) -> bool:
        if self.function is not None:
            return context == self.function
        return self.functions is None or context in self.functions

    def _spent(self, context: str) -> int:
        return self.decisions if self.functions is None else self.answered[context]

    def _check_header(self, advisor: int) -> None:
        self._unchecked.discard(advisor)
        found, expected = self.session.header(advisor), self.task.headers[advisor]
        if found != expected:
            self.session.kill()
            raise ToolchainError(
                f"the {self.task.advisors[advisor].name} advisor of clang was to ask with the header that it had when "
                f"it was probed, and the header is another: expected {expected}, found {found}; make the environment "
                "anew with the flags that change it, or delete the cache folder if the compiler was replaced"
            )

    def _ended(self) -> None:
        """Take in the session that has just ended: first the agent's compile, then, if need be, the baseline's."""
        measurement = self._measure()
        if self._baseline_session is not None:
            keep_baseline(self.compilation, measurement, optimization_record=self.task.optimization_record)
            self._baseline_session.close()
            self.baseline = measurement
            return
        self.measurement = measurement
        if self.function is None and self.functions is None and not self.decisions + self.handed_over:
            keep_decisions(self.compilation, self.task, {})
        self.session.close()
        record = self.task.optimization_record
        self.baseline = self.compared or known_baseline(self.compilation, optimization_record=record)
        if self.baseline is None:
            self._baseline_session = baseline_session(self.compilation, optimization_record=record)

    def _measure(self) -> Measurement:
        if self.alone and self._baseline_session is None:
            assert self.function is not None
            if not self.session.ended_early:
                self.session.finish(0.0)
            return Measurement.of_function(self.function, self.session.heard)
        compiled = self.current.finish(0.0)
        if self._made is not None and self._baseline_session is None:
            assert self.session.contexts is not None, "credit needs the places of decisions"
            inlining = [(each, int.from_bytes(advice, "little")) for each, advice in self.made if each.advisor == 0]
            self.placed = place(inlining, self.session.contexts.remarks, compiled, self.task)
        return Measurement.of(compiled)

    def keep_crash(self, error: CompilerError) -> None:
        """Keep what it takes to see a crash of the current compile again, and note in the error where."""
        advisors, answers = (self.task.advisors, self._answers) if self._baseline_session is None else ((), [])
        folder = keep_crash(self.compilation, advisors, answers, error)
        error.reproducer = None if folder is None else str(folder)

    def close(self) -> None:
        """End the compile if it still runs. Idempotent."""
        self.session.close()
        if self._baseline_session is not None:
            self._baseline_session.close()
