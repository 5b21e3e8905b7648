"""An episode: one compile under an agent, then its measurement against the baseline.

This module does not depend on Gymnasium. `Episode.proceed()` is a coroutine, so one event loop can serve many episodes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlgo_gym.compiler.coroutine import CompilerCoroutine, in_background, run
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.attribution.inline_compile import InlineCompile
from mlgo_gym.episode.baseline import baseline_coroutine, keep_decisions, watchers
from mlgo_gym.episode.outcome import EpisodeOutcome, conclude, fail
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import ActionError, CompilerError, MlgoError, SnapshotError, ToolchainError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.allocation_record import LAST_REMARK, REMARK_FLAGS
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.tasks.task import read_action

Answer = tuple[int | float, bytes, bool]
"""An encoded action: the action that is taken, its bytes for clang, and whether it replaces an illegal action."""


class Episode:
    """One compile, from its start to its measurement: `proceed()`, then `answer()` and `proceed()` again.

    Then either `decision` is set, or the episode is over and `outcome` is set.

    Args:
        setup: Setup of the environment.
        compilation: The compile; the task's flags are part of it. `CompilerError` if clang cannot be started.
        function: The only function that the agent decides; clang decides all others.
        given_baseline: Measurement to compare with. Default: that of the plain compile.
        repeats: Whether this repeats an episode for counterfactuals: with decision sites, without a limit of decisions,
            credit and refusals.

    Attributes:
        last_decision: The last decision that the agent answered; None before.
        decisions, handed_over: Numbers of decisions that the agent, and clang after `max_decisions`, have answered.
        actions: The actions that were taken, replacements of illegal ones included.
        answers: The advice to every decision, also to those of clang.
        answered, agent_indices: All answered decisions, and the indices of the agent's; empty without credit.
        illegal: Whether the agent's last action was illegal.
        skipped: Reasons by name of the modules that sampling skipped for this episode.
        measurement, baseline: Measurements once the compile has finished.
        inline_compile: All inlining decisions with their sites, and the bytes of each function; None without credit.
        full_info: The full last info, whatever form infos have.
        fork_method: `"snapshot"` or `"replay"` for an episode that `fork()` returned, else None.
        fork_reason: Reason for a replay; empty otherwise.
    """

    def __init__(
        self,
        setup: Setup,
        compilation: Compilation,
        *,
        function: str | None = None,
        given_baseline: Measurement | None = None,
        repeats: bool = False,
    ) -> None:
        options, self._task = setup.options, setup.task
        self.setup, self.compilation, self.function, self.given_baseline = setup, compilation, function, given_baseline
        self.max_decisions = None if repeats else options.max_decisions
        self.credit = options.credit and not repeats
        self._reads_code = options.reads_code and not repeats
        follows_sites = repeats or options.callee_features or self.credit or self._reads_code
        self.contexts = follows_sites and (repeats or INLINING in self._task.advisors)
        self.strict, self.raises = options.strict, repeats or options.error_reward is None
        self._function_only = setup.measures_functions_alone
        self.decision: Decision | None = None
        self.last_decision: Decision | None = None
        self.decisions = self.handed_over = 0
        self.actions: list[int | float] = []
        self.answers: list[bytes] = []
        self.answered: list[Decision] = []
        self.agent_indices: list[int] = []
        self.illegal = False
        self.skipped: dict[str, str] = {}
        self.measurement: Measurement | None = None
        self.baseline: Measurement | None = None
        self.inline_compile: InlineCompile | None = None
        self.outcome: EpisodeOutcome | None = None
        self.full_info: dict[str, Any] = {}
        self.fork_method: str | None = None
        self.fork_reason = ""
        self._object_bytes = b""
        self._has_plain_infos = not self.contexts and setup.numeric_infos is None
        self._unchecked = set(range(len(self._task.advisors)))
        self.session = self._fresh_session()

    def _fresh_session(self) -> Session:
        compilation, task = self.compilation, self._task
        if self._function_only:
            return replace(compilation, flags=(*compilation.flags, *REMARK_FLAGS)).session(task.advisors)
        callee_features = self.setup.options.callee_features
        code = self._reads_code
        return compilation.session(
            task.advisors,
            optimization_record=task.optimization_record,
            contexts=self.contexts,
            callees=self.credit or callee_features or code,
            callee_features=callee_features,
            code=code,
            notes_size_limit=self.notes_size_limit,
        )

    @property
    def notes_size_limit(self) -> bool:
        """Whether the last info names the size limit of compiles for WebAssembly."""
        return INLINING in self._task.advisors and self.compilation.triple.startswith("wasm")

    @property
    def module(self) -> str:
        """Name of the module."""
        return self.compilation.module.name

    @property
    def has_plain_info(self) -> bool:
        """Whether the info has only the keys of every decision."""
        return self._has_plain_infos and self.decisions > 0 and not self.illegal

    def pending(self) -> Decision:
        """Return the pending decision; raise `ActionError` if there is none."""
        if self.decision is None:
            raise ActionError("expected a pending decision, got an episode that runs or is over; call reset()")
        return self.decision

    def observe(self) -> Any:
        """Return the observation of the pending decision, or the last observation; zeros without one."""
        decision = self.outcome.decision if self.outcome is not None else self.decision
        return self._task.final_observation() if decision is None else self._task.observe(decision)

    def info(self) -> dict[str, Any]:
        """Return the info of the pending decision."""
        decision, setup = self.decision or self.pending(), self.setup
        info = decision_info(self._task, decision, self.compilation.module.name, self.decisions, has_site=self.contexts)
        if self.illegal:
            info["illegal_action"] = True
        if self.skipped and not self.decisions:
            info["skipped"] = self.skipped
        return info if setup.numeric_infos is None else setup.info(info)

    def encode(self, action: Any) -> Answer:
        """Encode an action, a number or an array of one element, for the pending decision.

        Unless `strict`, clang's own choice replaces an illegal action.

        Raises:
            ActionError: no decision is pending, the action is NaN or no number, or it is illegal and `strict`.
        """
        decision, task = self.decision or self.pending(), self._task
        number = action if type(action) is int else read_action(action, task.action_space)
        advice = task.encode(decision, number)
        if advice is None and not self.strict:
            default = read_action(task.default_action(decision), task.action_space)
            return default, task.default_advice(decision), True
        return number, task.advice(decision, number) if advice is None else advice, False

    def answer(self, answer: Answer) -> None:
        """Answer the pending decision; `proceed()` continues. Raises `ActionError` if there is none."""
        if self.decision is None:
            self.pending()  # raises
        action, advice, self.illegal = answer
        self.actions.append(action)
        self.answers.append(advice)
        self.last_decision, self.decision = self.decision, None
        self.decisions += 1
        self.session.advise(advice)

    def take(self, action: Any) -> Answer:
        """Answer the pending decision with an action and `proceed()`, blocking; return what was taken."""
        answer = self.encode(action)
        self.answer(answer)
        run(self.proceed(), self.setup.timeout)
        return answer

    def finish_by_default(self) -> EpisodeOutcome:
        """Let clang decide the pending decision and all further ones, blocking; return the outcome."""
        self.credit, self.max_decisions = False, self.decisions + 1
        self.take(self._task.default_action(self.pending()))
        assert self.outcome is not None, "no decision is left to the agent"
        return self.outcome

    def proceed(self, *, to_end: bool = False) -> CompilerCoroutine[None]:
        """Continue to the next decision of the agent, or to the end of the compile and its outcome, as a coroutine.

        An episode whose compile ends before the agent has decided has no outcome. With `to_end` the coroutine yields
        None at each decision of the agent, to be resumed after `answer()`, instead of returning.

        Raises:
            CompilerError: the compile or that of the baseline failed, and failures raise or the agent has not decided.
            ToolchainError: clang's header differs from that of its probe.
        """
        task, max_decisions = self._task, self.max_decisions
        if self.decision is not None:  # a copy of a clang that waited there
            return
        try:
            while (decision := (yield self.session)) is not None:
                if self.credit:
                    self.answered.append(decision)
                if decision.advisor in self._unchecked:
                    self._check_header(decision.advisor)
                if self.function is not None and decision.context != self.function:
                    self._advise(task.default_advice(decision))
                elif max_decisions is not None and self.decisions >= max_decisions:
                    self.handed_over += 1
                    self._advise(task.default_advice(decision))
                else:
                    if self._function_only and not self.decisions:
                        self.session.stop_at(LAST_REMARK.encode())
                    if self.credit:
                        self.agent_indices.append(len(self.answered) - 1)
                    self.decision = decision
                    if not to_end:
                        return
                    yield None
            self.measurement = self._measure()
            self.session.close()
            if not self.decisions:
                if self.function is None:
                    keep_decisions(self.compilation, task, {})
                return
            baseline = self.given_baseline
            if baseline is None:
                record = task.optimization_record
                baseline = yield from baseline_coroutine(self.compilation, optimization_record=record)
            self.baseline = baseline
            # An event loop serves other episodes while linkers and programs run.
            waits = to_end and bool(self.setup.project_costs)
            outcome = (yield from in_background(self._conclude)) if waits else self._conclude()
        except CompilerError as error:
            if self.raises or not self.decisions:
                self.close()
                raise
            outcome = fail(self, error)
        self.close()
        if self.illegal:
            outcome.info["illegal_action"] = True
        self.full_info = outcome.info
        self.outcome = outcome._replace(info=self.setup.info(outcome.info))

    def _advise(self, advice: bytes) -> None:
        self.answers.append(advice)
        self.session.advise(advice)

    def _check_header(self, advisor: int) -> None:
        self._unchecked.discard(advisor)
        header, expected = self.session.header(advisor), self._task.headers[advisor]
        if header != expected:
            self.session.kill()
            raise ToolchainError(
                f"expected the header {expected} of the {self._task.advisors[advisor].name} advisor, got {header}; "
                "make the environment with the flags that change it, or delete the cache if the compiler was replaced"
            )

    def _measure(self) -> Measurement:
        session = self.session
        if self._function_only and self.function is not None:
            if LAST_REMARK not in session.captured:
                session.finish(0.0)
            return Measurement.of_function(self.function, session.captured)
        compiled = session.finish(0.0)
        for watch in watchers:
            watch(compiled, False)
        if self.credit and session.contexts is not None:
            answers = [int.from_bytes(advice, "little") for advice in self.answers]
            answered = zip(self.answered, answers, strict=True)
            self.inline_compile = InlineCompile.from_session(answered, session.contexts.remarks, compiled, self._task)
        self._object_bytes = compiled.object_bytes
        return Measurement.of(compiled)

    def _conclude(self) -> EpisodeOutcome:
        if self.setup.project_costs and self.measurement is not None and self.baseline is not None:
            self.measurement = self.with_project_costs(self.measurement, self._object_bytes)
            self.baseline = self.with_project_costs(self.baseline)
        self._object_bytes = b""
        return conclude(self)

    def with_project_costs(self, measurement: Measurement, object_bytes: bytes | None = None) -> Measurement:
        """Return a measurement with the costs of the project; None is the object of plain clang."""
        costs: Mapping[str, float] = measurement.project or {
            metric: cost.cost(self.module, object_bytes) for metric, cost in self.setup.project_costs.items()
        }
        return replace(measurement, project=costs)

    def switch_to(self, function: str) -> None:
        """Let clang decide the current function, whose first decision is pending, and the agent a later one."""
        advice = self._task.default_advice(self.pending())
        if self.decisions:
            raise ActionError(f"expected an undecided function, got {self.decisions} decisions; start another episode")
        self.agent_indices.clear()
        if self._function_only:
            self.session.stop_at(b"")
        self.function, self.decision = function, None
        self._advise(advice)

    def fork(self) -> Episode:
        """Return an independent copy of the episode at the same decision.

        The running clang is copied. Where that is not possible, a fresh clang gets the same answers; it may fail with
        `CompilerError`, or come to another decision (`SnapshotError`).
        """
        try:
            return self.snapshot()
        except SnapshotError as failure:
            try:
                return self._copy(self._replay(), "replay", str(failure))
            except MlgoError as error:
                raise error from failure

    def snapshot(self) -> Episode:
        """Return a copy with a copied clang; raise `SnapshotError` where clang cannot be copied."""
        self.pending()
        supported, reason = snapshot_support()
        if not supported:
            raise SnapshotError(reason)
        return self._copy(self.session.fork(), "snapshot", "")

    def _copy(self, session: Session, method: str, reason: str) -> Episode:
        copied = copy.copy(self)
        for name in ("actions", "answers", "answered", "agent_indices", "_unchecked"):
            setattr(copied, name, getattr(self, name).copy())
        copied.session, copied.fork_method, copied.fork_reason = session, method, reason
        copied.decision = self.pending()._replace(code=session.code)
        return copied

    def _replay(self) -> Session:
        session, timeout = self._fresh_session(), self.setup.timeout
        try:
            # The site of a decision is only known while clang waits at it.
            ahead = len(self._task.advisors) == 1 and not self.contexts
            if ahead:
                session.advise_ahead(self.answers)
            decision = session.wait(timeout)
            for advice in () if ahead else self.answers:
                if decision is not None:
                    session.advise(advice)
                    decision = session.wait(timeout)
            if decision is None:
                session.finish(0.0)  # raises if clang failed
            if decision != self.decision:
                raise SnapshotError(
                    f"expected the same decision after {len(self.answers)} replayed answers, got "
                    f"{'the end of the compile' if decision is None else f'another, {decision.site}'}; reset() instead"
                )
            if self._function_only:
                session.stop_at(LAST_REMARK.encode())
        except BaseException:
            session.close()
            raise
        return session

    def restart(self) -> Episode:
        """Start the same compile once more; see `repeats`."""
        baseline = self.given_baseline or self.baseline
        return Episode(self.setup, self.compilation, function=self.function, given_baseline=baseline, repeats=True)

    def close(self) -> None:
        """End the compile if it still runs. Idempotent."""
        self.session.close()
