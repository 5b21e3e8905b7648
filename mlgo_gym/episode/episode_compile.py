"""The compile of an episode: one clang with the answers so far, which is copied, repeated, and measured at its end."""

import copy
from dataclasses import replace

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.attribution.inline_compile import InlineCompile
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import SnapshotError, ToolchainError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.allocation_record import LAST_REMARK, REMARK_FLAGS, read_allocation_remarks
from mlgo_gym.tasks.measurement import Measurement


class EpisodeCompile:
    """A running compile; arguments as those of `Episode`.

    Attributes:
        answers: The advice to every decision.
        decided: All decisions, the pending one included; empty without `credit`.
        contexts: Whether decisions have sites.
        unchecked: Numbers of the advisors without a decision so far, whose headers are unknown.
    """

    def __init__(self, setup: Setup, compilation: Compilation, function: str | None, *, repeats: bool) -> None:
        options = setup.options
        self.setup, self.compilation, self.function = setup, compilation, function
        self.credit = options.credit and not repeats
        self._reads_code = options.reads_code and not repeats
        follows_sites = repeats or options.callee_features or self.credit or self._reads_code
        self.contexts = follows_sites and (repeats or INLINING in setup.task.advisors)
        self.answers: list[bytes] = []
        self.decided: list[Decision] = []
        self.unchecked = set(range(len(setup.task.advisors)))
        self.session = self._fresh_session()

    def _fresh_session(self) -> Session:
        compilation, task = self.compilation, self.setup.task
        if self.setup.measures_functions_alone:
            return replace(compilation, flags=(*compilation.flags, *REMARK_FLAGS)).session(task.advisors)
        callee_features = self.setup.options.callee_features
        return compilation.session(
            task.advisors,
            optimization_record=task.optimization_record,
            contexts=self.contexts,
            callees=self.credit or callee_features or self._reads_code,
            callee_features=callee_features,
            code=self._reads_code,
        )

    def receive(self, decision: Decision) -> None:
        """Note a decision of the session; raise `ToolchainError` if clang's header differs from that of its probe."""
        if self.credit:
            self.decided.append(decision)
        if decision.advisor not in self.unchecked:
            return
        self.unchecked.discard(decision.advisor)
        header, expected = self.session.header(decision.advisor), self.setup.task.headers[decision.advisor]
        if header != expected:
            self.session.kill()
            raise ToolchainError(
                f"expected the header {expected} of the {self.setup.task.advisors[decision.advisor].name} advisor, got "
                f"{header}; make the environment with the flags that change it, or delete the cache if the compiler "
                "was replaced"
            )

    def advise(self, advice: bytes) -> None:
        """Answer the last decision."""
        self.answers.append(advice)
        self.session.advise(advice)

    def end_with_function(self, ends: bool = True) -> None:
        """Let clang end after the function of the pending decision, if that alone is measured; or no longer."""
        if self.setup.measures_functions_alone:
            self.session.stop_at(LAST_REMARK.encode() if ends else b"")

    def measure(self) -> tuple[Measurement, bytes, InlineCompile | None]:
        """Return measurement, object and inlining decisions of a compile that has ended, else `CompilerError`.

        Without `credit` the decisions are None; the object is empty if the compile ended with its function.
        """
        session = self.session
        if self.setup.measures_functions_alone and self.function is not None:
            if LAST_REMARK not in session.captured:
                session.finish(0.0)
            return Measurement(None, {self.function: read_allocation_remarks(session.captured)}), b"", None
        compiled, inline_compile = session.finish(0.0), None
        if self.credit:
            answers = [int.from_bytes(advice, "little") for advice in self.answers]
            answered = zip(self.decided, answers, strict=True)
            inline_compile = InlineCompile.from_session(answered, session.callees(), compiled, self.setup.task)
        return Measurement.of(compiled), compiled.object_bytes, inline_compile

    def snapshot(self) -> "EpisodeCompile":
        """Return a copy with a copied clang; raise `SnapshotError` where clang cannot be copied."""
        return self._copy(self.session.fork())

    def replay(self, pending: Decision) -> "EpisodeCompile":
        """Return a copy with a fresh clang that gets the same answers, and comes to the same pending decision."""
        session, timeout = self._fresh_session(), self.setup.timeout
        try:
            decision = session.wait(timeout)
            for advice in self.answers:
                if decision is not None:
                    session.advise(advice)
                    decision = session.wait(timeout)
            if decision is None:
                session.finish(0.0)  # raises if clang failed
            if decision != pending:
                raise SnapshotError(
                    f"expected the same decision after {len(self.answers)} replayed answers, got "
                    f"{'the end of the compile' if decision is None else f'another, {decision.site}'}; reset() instead"
                )
            copied = self._copy(session)
            copied.end_with_function()
        except BaseException:
            session.close()
            raise
        return copied

    def _copy(self, session: Session) -> "EpisodeCompile":
        copied = copy.copy(self)
        copied.answers, copied.decided, copied.unchecked = [*self.answers], [*self.decided], {*self.unchecked}
        copied.session = session
        return copied
