"""How long a search may go on: in compiles, in seconds, or both."""

from __future__ import annotations

import math
import time

from mlgo_gym.errors import MlgoError


class Budget:
    """What a search may spend; without limits it goes on until it has nothing left to try.

    Args:
        compiles: the most compiles that come to an object; None is no limit.
        seconds: the most time, counted from now; None is no limit.

    Attributes:
        spent: the compiles so far.

    Raises:
        MlgoError: a limit is not positive.
    """

    def __init__(self, compiles: int | None = None, seconds: float | None = None) -> None:
        if compiles is not None and compiles < 1:
            raise MlgoError(f"a budget must have at least 1 compile, found {compiles}")
        if seconds is not None and not seconds > 0:
            raise MlgoError(f"a budget must have a positive number of seconds, found {seconds}")
        self._compiles = compiles
        self._start = time.monotonic()
        self._deadline = None if seconds is None else self._start + seconds
        self.spent = 0

    @property
    def seconds(self) -> float:
        """The time since the budget was made, in seconds."""
        return time.monotonic() - self._start

    @property
    def remaining(self) -> float:
        """How many compiles are left; infinite without a limit of compiles."""
        return math.inf if self._compiles is None else self._compiles - self.spent

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        if self._compiles is not None and self.spent >= self._compiles:
            return True
        return self._deadline is not None and time.monotonic() >= self._deadline

    def is_spent_after(self, compiles: int) -> bool:
        """Whether nothing is left; if there is no limit at all, whether so many compiles were made."""
        unlimited = self._compiles is None and self._deadline is None
        return self.spent >= compiles if unlimited else self.is_spent
