"""The one rule of a step: encode, refuse or replace an illegal action, answer, wait, conclude or fail."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.episode_maker import Begun
from mlgo_gym.episode.outcome import Ending, conclude, fail
from mlgo_gym.episode.setup import Setup
from mlgo_gym.episode.twin import twin_of
from mlgo_gym.errors import ActionError, CompilerError
from mlgo_gym.session.decision import Decision
from mlgo_gym.tasks.action import read_action
from mlgo_gym.tasks.render_picture import EpisodePicture


class Answer(NamedTuple):
    """An action at a decision.

    Attributes:
        action: the action that is taken, as a number.
        advice: its bytes for clang.
        illegal: whether it takes the place of an illegal one.
    """

    action: int | float
    advice: bytes
    illegal: bool


class Stepper:
    """Takes an agent through an episode: `encode()` an action, `answer()` with it, then `wait()` or `poll()`.

    Then either `decision` is set, or the episode is over and `ending` tells how it ended.

    Args:
        setup: what all episodes of the environment have in common.
        begun: an episode that waits with its first decision.
        strict: whether an illegal action raises; None takes the environment's setting.
        on_error: what a failing compile does, `"truncate"` or `"raise"`; None takes the environment's setting.

    Attributes:
        episode: the episode.
        ending: how it ended; None until then.
        outcome: the full info of the end, whatever form infos have.
        actions: the actions that were taken, including those that replaced illegal ones.
        picture: what `render_mode="rgb_array"` shows; None in other modes.
        illegal: whether the agent's last action was illegal.
        deadline: when the compiler will have been silent for too long, on the monotonic clock.
    """

    def __init__(self, setup: Setup, begun: Begun, *, strict: bool | None = None, on_error: str | None = None) -> None:
        settings = setup.settings
        self.episode: Episode = begun.episode
        self.ending: Ending | None = None
        self.outcome: dict[str, Any] = {}
        self.actions: list[int | float] = []
        self.illegal = False
        self.deadline = math.inf
        self._setup = setup
        self._task = setup.task
        self._skipped = begun.skipped
        self._strict = settings.strict if strict is None else strict
        self._raises = (on_error or settings.on_error) == "raise"
        self._timeout = settings.timeout
        self.picture: EpisodePicture | None = None
        if settings.render_mode == "rgb_array":
            self.picture = EpisodePicture(setup.task)
            self.picture.begin(begun.episode.compilation.module.name)

    @property
    def decision(self) -> Decision | None:
        """The decision that waits for an action; None while clang computes, and when the episode is over."""
        return self.episode.decision

    @property
    def has_only_asked(self) -> bool:
        """Whether there is nothing to report but the next decision: no illegal action, no beginning of an episode."""
        return self.episode.decisions > 0 and not self.illegal

    def observe(self) -> Any:
        """Return the observation of the decision that waits."""
        decision = self.episode.decision
        assert decision is not None
        return self._task.observe(decision)

    def info(self) -> dict[str, Any]:
        """Return the info of the decision that waits."""
        episode, task = self.episode, self._task
        decision = episode.decision
        assert decision is not None
        info = {
            "module": episode.compilation.module.name,
            "context": decision.context,
            "decision": episode.decisions,
            "default_action": task.default_action(decision),
        }
        if episode.contexts and decision.context:
            info |= {"visit": decision.visit, "position": decision.number}
        if decision.call is not None:
            info["call"] = decision.call
        mask = task.action_mask(decision)
        if mask is not None:
            info["action_mask"] = mask
        if self.illegal:
            info["illegal_action"] = True
        if self._skipped and not episode.decisions:
            info["skipped"] = self._skipped
        return self._setup.info(info)

    def encode(self, action: Any) -> Answer:
        """Return an action as the answer to the decision that waits; clang's own choice replaces an illegal action.

        Args:
            action: a number, or an array of one.

        Raises:
            ActionError: it is no action at all; or it is illegal, and `strict` is on.
        """
        decision, task = self.episode.decision, self._task
        assert decision is not None
        number = action if type(action) is int else read_action(action, task.action_space)
        advice = task.encode(decision, number)
        if advice is not None:
            return Answer(number, advice, False)
        if self._strict:
            raise ActionError(f"action {number!r} is not legal at this decision; legal are {self._legal(decision)}")
        default = read_action(task.default_action(decision), task.action_space)
        return Answer(default, task.default_advice(decision), True)

    def _legal(self, decision: Decision) -> Any:
        mask = self._task.action_mask(decision)
        return self._task.action_space if mask is None else mask.nonzero()[0].tolist()

    def answer(self, answer: Answer) -> None:
        """Answer the decision, and return at once."""
        if self.picture is not None and self.episode.decision is not None:
            self.picture.decide(self.episode.decision, answer.action, illegal=answer.illegal)
        self.actions.append(answer.action)
        self.illegal = answer.illegal
        self.episode.answer(answer.advice)
        self.deadline = time.monotonic() + self._timeout

    def wait(self) -> None:
        """Wait for the next decision, or for the ending.

        Raises:
            CompilerError: the compile failed, and failures raise.
            ToolchainError: clang asks for other features than it did when it was probed.
        """
        try:
            self.episode.wait(self._timeout)
        except CompilerError as error:
            self._fail(error)
        else:
            if self.episode.decision is None:
                self._end(conclude(self._setup, self.episode))

    def poll(self) -> bool:
        """Do what `wait()` does without waiting; return whether it has come to a decision or to the ending."""
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

        Where clang could not compute for want of a processor the deadline is moved on instead.

        Raises:
            CompilerError: failures raise.
        """
        if grace := self.episode.current.grace(self._timeout):
            self.deadline = time.monotonic() + grace
            return False
        self._fail(self.episode.current.timed_out(self._timeout))
        return True

    def _fail(self, error: CompilerError) -> None:
        self.episode.keep_crash(error)
        if self._raises:
            self.close()
            raise error
        self._end(fail(self._setup, self.episode, error))

    def _end(self, ending: Ending) -> None:
        self.close()
        if self.illegal:
            ending.info["illegal_action"] = True
        if self.picture is not None:
            self.picture.end(ending.info)
        self.outcome = ending.info
        self.ending = ending._replace(info=self._setup.info(ending.info))

    def fork(self) -> Stepper:
        """Return an independent copy that waits at the same decision.

        Raises:
            CompilerError: the compile failed when it was replayed.
            SnapshotError: a replay of the same decisions came to another one.
        """
        twin = twin_of(self)
        twin.actions = self.actions.copy()
        twin.picture = None if self.picture is None else self.picture.copy()
        twin.episode = self.episode.fork(self._timeout)
        return twin

    def close(self) -> None:
        """End the compile if it still runs. Idempotent."""
        self.episode.close()
