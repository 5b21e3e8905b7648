"""How far an inlining decision reaches: which functions its caller's code ends up in, and whose last call it was."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from mlgo_gym.episode.placed_compile import PlacedDecision


class Reach:
    """Which functions' bytes depend on which others, as the decisions of some compiles of one module tell.

    Args:
        compiles: the decisions of each.
    """

    def __init__(self, compiles: Iterable[Iterable[PlacedDecision]]) -> None:
        self._into: dict[str, set[str]] = defaultdict(set)
        for decisions in compiles:
            for decision in decisions:
                if decision.answer:
                    self._into[decision.callee].update(decision.functions)
        self._known: dict[str, dict[str, int]] = {}

    def of(self, function: str) -> Mapping[str, int]:
        """Return the functions that contain a function's code, each with the number of inlining steps on the way there.

        The function itself is among them, with 0.
        """
        found = self._known.get(function)
        if found is None:
            found = {function: 0}
            edge = [function]
            distance = 0
            while edge:
                distance += 1
                edge = [into for name in edge for into in self._into.get(name, ()) if into not in found]
                found.update(dict.fromkeys(edge, distance))
            self._known[function] = found
        return found

    def of_component(self, functions: Sequence[str]) -> dict[str, int]:
        """Return what `of()` returns for several functions together, with the smallest number for each."""
        if len(functions) == 1:
            return dict(self.of(functions[0]))
        found: dict[str, int] = {}
        for function in functions:
            for name, distance in self.of(function).items():
                found[name] = min(distance, found.get(name, distance))
        return found


def kept_calls(decisions: Iterable[PlacedDecision]) -> dict[str, Counter[str]]:
    """Return, for each called function, how many calls of it are kept in each component."""
    kept: dict[str, Counter[str]] = defaultdict(Counter)
    for decision in decisions:
        if not decision.answer:
            kept[decision.callee][decision.component] += 1
    return kept


def _follow(
    before: Sequence[PlacedDecision],
    after: Sequence[PlacedDecision],
    causes: Sequence[Sequence[PlacedDecision]],
    about: Mapping[str, set[int]],
    found: Mapping[str, Mapping[int, int]],
    spread: Callable[[str, int, int], None],
) -> None:
    """Let causes reach what was decided otherwise because of them: calls of their callees, or of what they reach."""
    chosen = {decision[:3] for cause in causes for decision in cause}
    known = {(*decision[:3], decision.callee): decision.answer for decision in before}
    for decision in after:
        was = known.get((*decision[:3], decision.callee))
        if was is None or was == decision.answer or decision[:3] in chosen:
            continue
        blamed = dict.fromkeys(about.get(decision.callee, ()), 0) | dict(found.get(decision.callee, {}))
        for number, distance in blamed.items():
            spread(decision.component, number, distance + 1)


def explain(
    before: Sequence[PlacedDecision],
    after: Sequence[PlacedDecision],
    changes: Mapping[str, int],
    causes: Sequence[Sequence[PlacedDecision]],
    present: Mapping[str, int],
) -> dict[str, dict[int, int]]:
    """Return, for each function that changed, which causes can have changed it.

    A cause reaches the function that its call stands in, and the functions that this one is inlined into. The
    appearance or disappearance of a function is put down to the causes that reach a component which keeps more or fewer
    calls of it, or which itself appeared or disappeared. If a call of the same callee, or of a function that a cause
    reaches, was decided differently too, that counts as the cause's doing. A change in a function that no cause reaches
    is put down to the causes that reach one of its callees: what is known of a callee shapes its callers.

    Args:
        before: the decisions of one compile.
        after: those of another.
        changes: by how many bytes each function changed; functions that did not change are left out.
        causes: the differing decisions of either compile, grouped by what belongs together.
        present: the bytes of each function of the first compile.

    Returns:
        For each function the numbers of its causes, each with a distance: the number of inlining steps, 0 in the
        function that the call stands in. Functions that no cause explains are left out.
    """
    reach = Reach((before, after))
    found: dict[str, dict[int, int]] = {}

    def note(function: str, cause: int, distance: int) -> bool:
        known = found.setdefault(function, {})
        if cause in known and known[cause] <= distance:
            return False
        known[cause] = distance
        return True

    def spread(component: str, cause: int, start: int) -> None:
        for function, distance in reach.of_component(component.split(", ")).items():
            note(function, cause, start + distance)

    about: dict[str, set[int]] = defaultdict(set)
    for number, cause in enumerate(causes):
        for decision in cause:
            about[decision.callee].add(number)
        for component in {decision.component for decision in cause}:
            spread(component, number, 0)
    _follow(before, after, causes, about, found, spread)
    kept = kept_calls(before), kept_calls(after)
    came_or_went = {name for name, change in changes.items() if name not in present or change == -present.get(name, 0)}
    for number, cause in enumerate(causes):
        for decision in cause:
            if decision.callee in came_or_went:
                note(decision.callee, number, 1)
    # One that came or went lets others come or go.
    while sum(_follow_calls(name, kept, came_or_went, found, note) for name in came_or_went):
        pass
    explained = {name: found[name] for name in changes if name in found}
    return explained | _through_callees(changes.keys() - explained.keys(), kept, found)


def _follow_calls(
    name: str,
    kept: tuple[Mapping[str, Counter[str]], Mapping[str, Counter[str]]],
    came_or_went: Set[str],
    found: Mapping[str, Mapping[int, int]],
    note: Callable[[str, int, int], bool],
) -> bool:
    """Put a function that came or went down to whatever reaches those that keep more or fewer calls of it.

    Returns:
        Whether that says more than was known.
    """
    before, after = (calls.get(name, Counter[str]()) for calls in kept)
    more = False
    for component in before.keys() | after.keys():
        functions = component.split(", ")
        if before[component] == after[component] and came_or_went.isdisjoint(functions):
            continue
        for function in functions:
            for cause, distance in list(found.get(function, {}).items()):
                more |= function != name and note(name, cause, distance + 1)
    return more


def _through_callees(
    functions: Set[str], kept: Sequence[Mapping[str, Counter[str]]], found: Mapping[str, Mapping[int, int]]
) -> dict[str, dict[int, int]]:
    """Return what reaches the callees of functions, where something does."""
    explained: dict[str, dict[int, int]] = {}
    for callee, components in (each for calls in kept for each in calls.items()):
        blamed = {number: distance + 1 for number, distance in found.get(callee, {}).items()}
        for function in (name for component in components for name in component.split(", ")):
            if blamed and function in functions:
                explained.setdefault(function, {}).update(blamed)
    return explained
