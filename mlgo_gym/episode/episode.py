"""An episode: one compile under an agent, then its measurement against the baseline.

This module does not depend on Gymnasium. `Episode.proceed()` is a coroutine, so one event loop can serve many episodes.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

from mlgo_gym.compiler.coroutine import CompilerCoroutine, run
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.baseline import baseline_coroutine, keep_decisions
from mlgo_gym.episode.episode_compile import EpisodeCompile
from mlgo_gym.episode.outcome import EpisodeOutcome, FinishedCompile, conclude, fail, failure_reward
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import CompilerError, MlgoError, NoEpisodeError, SnapshotError
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.tasks.task import read_action

Answer = tuple[int | float, bytes, bool]
"""An encoded action: the action that is taken, its bytes for clang, and whether it replaces an illegal action."""


class Episode:
    """Decides in one compile, from its start to its outcome: `proceed()`, then `answer()` and `proceed()` again.

    Then either `decision` is set, or the episode is over and `outcome` is set.

    `function` is the only function that the agent decides; `repeats` is for counterfactuals: with decision sites,
    without a limit of decisions, credit and refusals. Raises `CompilerError` if clang cannot be started.

    Attributes:
        decision, last_decision: The pending decision, and the last one that the agent answered; None without one.
        handed_over: Number of decisions that clang has answered after `max_decisions`.
        actions: The actions that were taken, replacements of illegal ones included.
        agent_indices: Indices of the agent's decisions among all; empty without credit.
        illegal: Whether the agent's last action was illegal.
        strict, raises: Whether an illegal action, and a failed compile, raise.
        skipped: Reasons by name of the modules that sampling skipped for this episode.
        full_info: The full last info, whatever form infos have.
        fork_method, fork_reason: As those of an environment.
    """

    def __init__(
        self, setup: Setup, compilation: Compilation, *, function: str | None = None, repeats: bool = False
    ) -> None:
        options = setup.options
        self.setup = setup
        self.compile = EpisodeCompile(setup, compilation, function, repeats=repeats)
        self.max_decisions = None if repeats else options.max_decisions
        self.strict, self.raises = options.strict, repeats or options.error_reward is None
        self.decision: Decision | None = None
        self.last_decision: Decision | None = None
        self.handed_over = 0
        self.actions: list[int | float] = []
        self.agent_indices: list[int] = []
        self.illegal = False
        self.skipped: dict[str, str] = {}
        self.outcome: EpisodeOutcome | None = None
        self.full_info: dict[str, Any] = {}
        self.fork_method: str | None = None
        self.fork_reason = ""

    @property
    def compilation(self) -> Compilation:
        """The planned compile."""
        return self.compile.compilation

    @property
    def function(self) -> str | None:
        """The only function that the agent decides; None for all."""
        return self.compile.function

    @property
    def module(self) -> str:
        """Name of the module."""
        return self.compile.compilation.module.name

    @property
    def decisions(self) -> int:
        """Number of decisions that the agent has answered."""
        return len(self.actions)

    @property
    def has_plain_info(self) -> bool:
        """Whether the info has only the keys of every decision."""
        is_plain = bool(self.actions) and not self.illegal
        return is_plain and not self.compile.contexts and self.setup.numeric_infos is None

    def pending(self) -> Decision:
        """Return the pending decision; raise `ActionError` if there is none."""
        if self.decision is None:
            raise NoEpisodeError("expected a pending decision, got an episode that runs or is over; call reset()")
        return self.decision

    def observe(self) -> Any:
        """Return the observation of the pending decision, or the last observation; zeros without one."""
        return self.setup.task.show(self.decision if self.outcome is None else self.outcome.decision)

    def info(self) -> dict[str, Any]:
        """Return the info of the pending decision."""
        decision, setup, number = self.decision or self.pending(), self.setup, len(self.actions)
        running = self.compile
        module = running.compilation.module.name
        info = decision_info(setup.task, decision, module, number, has_site=running.contexts)
        if self.illegal:
            info["illegal_action"] = True
        if self.skipped and not number:
            info["skipped"] = self.skipped
        return info if setup.numeric_infos is None else setup.info(info)

    def encode(self, action: Any) -> Answer:
        """Encode an action for the pending decision; unless `strict`, clang's own choice replaces an illegal one.

        Raises `ActionError` if no decision is pending, and for NaN, no number, or an illegal action with `strict`.
        """
        decision, task = self.decision or self.pending(), self.setup.task
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
        self.last_decision, self.decision = self.decision, None
        self.compile.advise(advice)

    def take(self, action: Any) -> Answer:
        """Answer the pending decision with an action and `proceed()`, blocking; return what was taken."""
        answer = self.encode(action)
        self.answer(answer)
        run(self.proceed(), self.setup.timeout)
        return answer

    def finish_by_default(self) -> EpisodeOutcome:
        """Let clang decide the pending decision and all further ones, blocking; return the outcome."""
        self.compile.credit, self.max_decisions = False, self.decisions + 1
        self.take(self.setup.task.default_action(self.pending()))
        assert self.outcome is not None, "no decision is left to the agent"
        return self.outcome

    def cost(self) -> float:
        """Return the cost of the finished episode by the environment's metric; raise `MlgoError` before its end."""
        if self.outcome is None or self.outcome.cost is None:
            raise MlgoError(f"expected a finished compile of {self.module!r}, got one that runs; step() to its end")
        return self.outcome.cost

    def proceed(self) -> CompilerCoroutine[None]:
        """Continue to the next decision of the agent, or to the end of the compile and its outcome, as a coroutine.

        An episode whose compile ends before the agent has decided has no outcome. A failed compile raises
        `CompilerError` if failures raise or the agent has not decided.
        """
        running, setup, max_decisions = self.compile, self.setup, self.max_decisions
        if self.decision is not None:  # a copy of a clang that waited there
            return
        decision: Decision | None
        try:
            while (decision := (yield running.session)) is not None:
                if running.credit or decision.advisor in running.unchecked:
                    running.receive(decision)
                if running.function is not None and decision.context != running.function:
                    running.advise(setup.task.default_advice(decision))
                elif max_decisions is not None and self.decisions >= max_decisions:
                    self.handed_over += 1
                    running.advise(setup.task.default_advice(decision))
                else:
                    if not self.actions:
                        running.end_with_function()
                    if running.credit:
                        self.agent_indices.append(len(running.decided) - 1)
                    self.decision = decision
                    return
            measured = running.measure()
            running.session.close()
            if not self.actions:
                if self.function is None:
                    keep_decisions(self.compilation, setup.task, {})
                return
            record = setup.task.optimization_record
            baseline = yield from baseline_coroutine(self.compilation, optimization_record=record)
            finished = FinishedCompile(setup, self.compilation, self.function, baseline, *measured, self.agent_indices)
            conclusion = partial(conclude, finished, self._decided())
            # An event loop serves other episodes while linkers and programs run.
            outcome: EpisodeOutcome = (yield conclusion) if setup.project_costs else conclusion()
        except CompilerError as error:
            self.close()
            if self.raises or not self.actions:
                raise
            lowest, answers = failure_reward(setup, self.compilation, self.function), b"".join(running.answers)
            outcome = fail(setup, error, self._decided(), answers, lowest, self.last_decision)
        self.full_info = outcome.info
        self.outcome = outcome._replace(info=setup.info(outcome.info))

    def _decided(self) -> dict[str, Any]:
        """Return the entries of the last info about the decisions."""
        info = {
            "module": self.module,
            "decisions": self.decisions,
            "handed_over": self.handed_over,
            "illegal_action": self.illegal,
            "error": {},
        }
        return info if self.function is None else {**info, "context": self.function}

    def switch_to(self, function: str) -> None:
        """Let clang decide the current function, whose first decision is pending, and the agent a later one."""
        advice = self.setup.task.default_advice(self.pending())
        self.compile.end_with_function(False)
        self.compile.function, self.decision = function, None
        self.compile.advise(advice)

    def fork(self) -> Episode:
        """Return an independent copy at the same decision: a snapshot, or where that is not possible a replay.

        A replay may fail with `CompilerError`, or come to another decision (`SnapshotError`).
        """
        try:
            return self.snapshot()
        except SnapshotError as failure:
            try:
                return self._copy(self.compile.replay(self.pending()), "replay", str(failure))
            except MlgoError as error:
                raise error from failure

    def snapshot(self) -> Episode:
        """Return a copy with a copied clang; raise `SnapshotError` where clang cannot be copied."""
        self.pending()
        supported, reason = snapshot_support()
        if not supported:
            raise SnapshotError(reason)
        return self._copy(self.compile.snapshot(), "snapshot", "")

    def _copy(self, running: EpisodeCompile, method: str, reason: str) -> Episode:
        copied = copy.copy(self)
        copied.actions, copied.agent_indices = [*self.actions], [*self.agent_indices]
        copied.compile, copied.fork_method, copied.fork_reason = running, method, reason
        copied.decision = self.pending()._replace(code=running.session.code)
        return copied

    def restart(self) -> Episode:
        """Start the same compile once more; see `repeats`."""
        return Episode(self.setup, self.compilation, function=self.function, repeats=True)

    def close(self) -> None:
        """End the compile if it still runs. Idempotent."""
        self.compile.session.close()
