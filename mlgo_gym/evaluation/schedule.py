"""The order in which policies and modules are evaluated."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from mlgo_gym.evaluation.episode_record import Assignment
from mlgo_gym.evaluation.episode_result import DONE, NO_DECISIONS, EpisodeResult


class Schedule:
    """The unfinished assignments, largest modules first.

    The first policy, one that decides, runs on every module before the other policies start. Then all baselines and all
    modules without decisions are known, and no two processes compile the same baseline. Episodes that failed in the
    existing `results` run again.
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
        self._without_decisions = {result.module for result in results if result.status == NO_DECISIONS}
        self._running = 0
        self._waiting = deque(
            Assignment(policy, module, projects[module])
            for policy, module in (*first, *others)
            if (policy, module) not in done and module not in self._without_decisions
        )
        self._per_module = Counter(assignment.module for assignment in self._waiting)
        self._count = len(self._waiting)

    def __len__(self) -> int:
        """Return the number of waiting assignments."""
        return self._count

    def take(self) -> Assignment | None:
        """Return the next assignment; None if none is waiting."""
        while self._waiting:
            assignment = self._waiting.popleft()
            if assignment.module not in self._without_decisions:
                self._count -= 1
                self._per_module[assignment.module] -= 1
                self._running += 1
                return assignment
        return None

    def put_back(self, assignments: Iterable[Assignment]) -> None:
        """Put assignments without a result back at the front."""
        for assignment in reversed(list(assignments)):
            self._running -= 1
            if assignment.module not in self._without_decisions:
                self._count += 1
                self._per_module[assignment.module] += 1
                self._waiting.appendleft(assignment)

    def finish(self, result: EpisodeResult) -> None:
        """Record the result of an assignment; a module without decisions leaves the schedule."""
        self._running -= 1
        if result.status == NO_DECISIONS and result.module not in self._without_decisions:
            self._without_decisions.add(result.module)
            self._count -= self._per_module.pop(result.module, 0)

    @property
    def unfinished(self) -> int:
        """Number of assignments without a result."""
        return self._count + self._running
