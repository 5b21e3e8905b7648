"""Which policy meets which module when."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from mlgo_gym.evaluation.episode_record import Assignment
from mlgo_gym.evaluation.episode_result import DONE, NO_DECISIONS, EpisodeResult


class Schedule:
    """The assignments that are still to be made, largest modules first.

    The first policy meets every module before any other policy meets one: by then all baselines are known, and which
    modules have no decision, and no two processes compile the same baseline.

    Args:
        policies: their names, those that decide something first.
        modules: the names of the modules.
        size: how large a module is.
        project: the project of a module.
        results: what is there already. Failures are tried again.
    """

    def __init__(
        self,
        policies: Sequence[str],
        modules: Iterable[str],
        size: Callable[[str], int],
        project: Callable[[str], str],
        results: Iterable[EpisodeResult] = (),
    ) -> None:
        ordered = sorted(modules, key=lambda name: (-size(name), name))
        projects = {name: project(name) for name in ordered}
        first = [(policy, module) for policy in policies[:1] for module in ordered]
        others = [(policy, module) for module in ordered for policy in policies[1:]]
        results = list(results)
        done = {(result.policy, result.module) for result in results if result.status == DONE}
        self._empty = {result.module for result in results if result.status == NO_DECISIONS}
        self._running = 0
        self._waiting = deque(
            Assignment(policy, module, projects[module])
            for policy, module in (*first, *others)
            if (policy, module) not in done and module not in self._empty
        )
        self._left = Counter(assignment.module for assignment in self._waiting)
        self._count = len(self._waiting)

    def __len__(self) -> int:
        """Return how many are still to be taken."""
        return self._count

    def take(self) -> Assignment | None:
        """Return the next assignment, or None when there is none left."""
        while self._waiting:
            assignment = self._waiting.popleft()
            if assignment.module not in self._empty:
                self._count -= 1
                self._left[assignment.module] -= 1
                self._running += 1
                return assignment
        return None

    def put_back(self, assignments: Iterable[Assignment]) -> None:
        """Take assignments back that have no result, to be taken again before all others."""
        for assignment in reversed(list(assignments)):
            self._running -= 1
            if assignment.module not in self._empty:
                self._count += 1
                self._left[assignment.module] += 1
                self._waiting.appendleft(assignment)

    def note(self, result: EpisodeResult) -> None:
        """Record the result of an assignment; a module without a decision leaves the schedule."""
        self._running -= 1
        if result.status == NO_DECISIONS and result.module not in self._empty:
            self._empty.add(result.module)
            self._count -= self._left.pop(result.module, 0)

    @property
    def unfinished(self) -> int:
        """How many assignments have no result yet."""
        return self._count + self._running
