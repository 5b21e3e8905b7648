"""A compile on its way to its first decision, and then from one decision to the next."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

from mlgo_gym.episode.stepper import Stepper
from mlgo_gym.errors import MlgoError
from mlgo_gym.session.session import Session
from mlgo_gym.session.work import WorkUnderWay


class CompileUnderWay(ABC):
    """What there is at most one of at a time: a compile that begins, or one that asks; whose it is says what follows.

    Attributes:
        stepper: takes the agent through the compile, from its first decision to its end.
        shown: the stepper of the last compile that began, also when that is over, for `render()`.
    """

    def __init__(self) -> None:
        self.stepper: Stepper | None = None
        self.shown: Stepper | None = None
        self._beginning: WorkUnderWay[Any] | None = None

    @property
    def session(self) -> Session | None:
        """The session that computes; None while a decision waits for an action, and while nothing is compiled."""
        if self._beginning is not None:
            return self._beginning.session
        if self.stepper is None or self.stepper.decision is not None:
            return None
        return self.stepper.episode.current

    @property
    def deadline(self) -> float:
        """When the compiler will have been silent for too long, on the monotonic clock."""
        if self._beginning is not None:
            return self._beginning.deadline
        return math.inf if self.stepper is None or self.stepper.decision is not None else self.stepper.deadline

    @abstractmethod
    def poll(self) -> bool:
        """Go on without waiting; return whether something is ready to deliver."""

    @abstractmethod
    def _settle(self, stepper: Stepper) -> None:
        """Take in what an answer has led to."""

    @abstractmethod
    def _give_up(self, error: MlgoError) -> None:
        """Keep what it cannot recover from."""

    def time_out(self) -> None:
        """End a compile that was silent for too long, though there was a processor for it."""
        try:
            if self._beginning is not None:
                self._beginning.time_out()
            elif self.stepper is not None and self.stepper.time_out():
                self._settle(self.stepper)
        except MlgoError as error:
            self._give_up(error)
        self.poll()

    def _end(self) -> None:
        for part in (self._beginning, self.stepper):
            if part is not None:
                part.close()
        self._beginning = self.stepper = None
