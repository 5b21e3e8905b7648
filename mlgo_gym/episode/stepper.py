"""A step of an episode: encode, refuse or replace an illegal action, answer, wait, conclude or fail."""

from __future__ import annotations

import copy
import math
import time
from typing import Any, NamedTuple

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.episode_maker import StartedEpisode
from mlgo_gym.episode.outcome import EpisodeOutcome, conclude, fail
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import ActionError, CompilerError
from mlgo_gym.tasks.action import read_action
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.tasks.render_picture import EpisodePicture


class Answer(NamedTuple):
    """An encoded action.

    Attributes:
        action: The action that is taken.
        advice: Its bytes for clang.
        illegal: Whether it replaces an illegal action.
    """

    action: int | float
    advice: bytes
    illegal: bool


class Stepper:
    """Steps through an episode: `encode()` an action, `answer()` with it, then `wait()` or `poll()`.

    After that either `decision` is set, or the episode is over and `outcome` is set.

    Args:
        setup: Setup of the environment.
        started: An episode that waits at its first decision.
        strict: Whether an illegal action raises; None: as the environment.
        raises: Whether a failing compile raises; None: as the environment.

    Attributes:
        episode: The episode.
        outcome: Its outcome; None while it runs.
        full_info: The full last info, whatever form infos have.
        actions: The actions that were taken, replacements of illegal ones included.
        picture: The picture for `render_mode="rgb_array"`; None in other modes.
        illegal: Whether the agent's last action was illegal.
        deadline: End of the compiler's allowed silence, on the monotonic clock.
    """

    def __init__(
        self, setup: Setup, started: StartedEpisode, *, strict: bool | None = None, raises: bool | None = None
    ) -> None:
        options = setup.options
        self.episode: Episode = started.episode
        self.outcome: EpisodeOutcome | None = None
        self.full_info: dict[str, Any] = {}
        self.actions: list[int | float] = []
        self.illegal = False
        self.deadline = math.inf
        self._setup = setup
        self._task = setup.task
        self._skipped = started.skipped
        self._strict = options.strict if strict is None else strict
        self._raises = options.error_reward is None if raises is None else raises
        self._timeout = setup.timeout
        self.picture: EpisodePicture | None = None
        if options.render_mode == "rgb_array":
            self.picture = EpisodePicture(setup.task)
            self.picture.begin(started.episode.compilation.module.name)

    @property
    def decision(self) -> Decision | None:
        """The pending decision; None while clang computes and when the episode is over."""
        return self.episode.decision

    @property
    def has_plain_info(self) -> bool:
        """Whether the info has only the keys of every decision: not the first one, and no illegal action before it."""
        return self.episode.decisions > 0 and not self.illegal

    def observe(self) -> Any:
        """Return the observation of the pending decision."""
        decision = self.episode.decision
        assert decision is not None
        return self._task.observe(decision)

    def info(self) -> dict[str, Any]:
        """Return the info of the pending decision."""
        episode, decision = self.episode, self.episode.decision
        assert decision is not None
        module, has_site = episode.compilation.module.name, bool(episode.contexts)
        info = decision_info(self._task, decision, module, episode.decisions, has_site=has_site)
        if self.illegal:
            info["illegal_action"] = True
        if self._skipped and not episode.decisions:
            info["skipped"] = self._skipped
        return self._setup.info(info)

    def encode(self, action: Any) -> Answer:
        """Encode an action for the pending decision; without `strict`, clang's own choice replaces an illegal one.

        Args:
            action: A number, or an array of one element.

        Raises:
            ActionError: the action is NaN or no number, or it is illegal with `strict`.
        """
        decision, task = self.episode.decision, self._task
        assert decision is not None
        number = action if type(action) is int else read_action(action, task.action_space)
        advice = task.encode(decision, number)
        if advice is not None:
            return Answer(number, advice, False)
        if self._strict:
            raise ActionError(
                f"expected a legal action among {self._legal(decision)}, got {number!r}; use action_masks(), "
                "or strict=False to let clang choose"
            )
        default = read_action(task.default_action(decision), task.action_space)
        return Answer(default, task.default_advice(decision), True)

    def _legal(self, decision: Decision) -> Any:
        mask = self._task.action_mask(decision)
        return self._task.action_space if mask is None else mask.nonzero()[0].tolist()

    def answer(self, answer: Answer) -> None:
        """Answer the pending decision and return at once."""
        if self.picture is not None and self.episode.decision is not None:
            self.picture.decide(self.episode.decision, answer.action, illegal=answer.illegal)
        self.actions.append(answer.action)
        self.illegal = answer.illegal
        self.episode.answer(answer.advice)
        self.deadline = time.monotonic() + self._timeout

    def wait(self) -> None:
        """Wait for the next decision or the end.

        Raises:
            CompilerError: the compile failed and failures raise.
            ToolchainError: clang's header differs from that of its probe.
        """
        try:
            self.episode.wait(self._timeout)
        except CompilerError as error:
            self._fail(error)
        else:
            if self.episode.decision is None:
                self._end(conclude(self._setup, self.episode))

    def poll(self) -> bool:
        """Do what `wait()` does without blocking; return whether a decision or the end was reached."""
        episode = self.episode
        try:
            while True:
                session = episode.current
                decision = session.poll()
                if decision is None and not session.exited:
                    return False
                if episode.take(decision):
                    break
                self.deadline = time.monotonic() + self._timeout
        except CompilerError as error:
            self._fail(error)
        else:
            if episode.decision is None:
                self._end(conclude(self._setup, episode))
        return True

    def time_out(self) -> bool:
        """End a compile that was silent for too long; return whether it was ended.

        The deadline is extended instead if clang was not scheduled on a CPU.

        Raises:
            CompilerError: failures raise.
        """
        if grace := self.episode.current.grace(self._timeout):
            self.deadline = time.monotonic() + grace
            return False
        self._fail(self.episode.current.timeout_error(self._timeout))
        return True

    def _fail(self, error: CompilerError) -> None:
        self.episode.keep_crash(error)
        if self._raises:
            self.close()
            raise error
        self._end(fail(self._setup, self.episode, error))

    def _end(self, outcome: EpisodeOutcome) -> None:
        self.close()
        if self.illegal:
            outcome.info["illegal_action"] = True
        if self.picture is not None:
            self.picture.end(outcome.info)
        self.full_info = outcome.info
        self.outcome = outcome._replace(info=self._setup.info(outcome.info))

    def fork(self) -> Stepper:
        """Return an independent copy that waits at the same decision.

        Raises:
            CompilerError: the replay failed.
            SnapshotError: the replay came to another decision.
        """
        copied = copy.copy(self)
        copied.actions = self.actions.copy()
        copied.picture = None if self.picture is None else self.picture.copy()
        copied.episode = self.episode.fork(self._timeout)
        return copied

    def close(self) -> None:
        """End the compile if it still runs. Idempotent."""
        self.episode.close()
