"""Which functions an inlining decision can change, and which decisions can have changed a function."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from mlgo_gym.compiler.decision import functions_of
from mlgo_gym.episode.attribution.inline_compile import InlineDecision, answers_by_call_site

Causes = dict[str, dict[int, int]]
"""For each function, its causes by index, each with its distance.

The distance is the number of inlining steps from the function of the call; 0 in that function itself.
"""

_Calls = Mapping[str, Counter[str]]


class Reach:
    """The functions that contain the code of a function, by the decisions of some compiles of one module.

    Args:
        compiles: The decisions of each compile.
    """

    def __init__(self, compiles: Iterable[Iterable[InlineDecision]]) -> None:
        self._into: dict[str, set[str]] = defaultdict(set)
        for decisions in compiles:
            for decision in decisions:
                if decision.answer:
                    self._into[decision.callee].update(decision.functions)
        self._memory: dict[str, dict[str, int]] = {}

    def of(self, function: str) -> Mapping[str, int]:
        """Return the functions that contain a function's code, each with its distance; the function itself has 0."""
        found = self._memory.get(function)
        if found is None:
            found = {function: 0}
            frontier = [function]
            distance = 0
            while frontier:
                distance += 1
                frontier = [into for name in frontier for into in self._into.get(name, ()) if into not in found]
                found.update(dict.fromkeys(frontier, distance))
            self._memory[function] = found
        return found

    def of_context(self, context: str) -> dict[str, int]:
        """Return the union of `of()` over the functions of a context, with the smallest distances."""
        first, *others = functions_of(context)
        found = dict(self.of(first))
        for function in others:
            for name, distance in self.of(function).items():
                found[name] = min(distance, found.get(name, distance))
        return found


class AffectedFunctions:
    """Predicts which functions change when decisions are flipped.

    Args:
        decisions: All decisions of a compile.
        sizes: Bytes of each function of the compile.
        counts_calls: Whether a function also changes when it is called more or less often.
    """

    def __init__(
        self, decisions: Sequence[InlineDecision], sizes: Mapping[str, int], *, counts_calls: bool = False
    ) -> None:
        self._counts_calls = counts_calls
        self._reach = Reach([decisions])
        self._kept = _kept_calls(decisions)
        self._sizes = sizes

    def of(self, flips: Sequence[InlineDecision]) -> set[str]:
        """Return the functions that can change when decisions are flipped together.

        These are the callers, the functions that the callers are inlined into, and the callees that appear or vanish.
        """
        found: set[str] = set()
        for context in {decision.context for decision in flips}:
            found.update(self._reach.of_context(context))
        for decision in flips:
            callee = decision.callee
            kept = self._kept.get(callee)
            appears = decision.answer and callee not in self._sizes
            vanishes = not decision.answer and callee in self._sizes and kept is not None and kept.total() <= len(flips)
            if appears or vanishes or self._counts_calls:
                found.add(callee)
        return found


def causes_of_changes(
    before: Sequence[InlineDecision],
    after: Sequence[InlineDecision],
    changes: Mapping[str, float],
    causes: Sequence[Sequence[InlineDecision]],
    sizes: Mapping[str, float],
    *,
    counts_calls: bool = False,
) -> Causes:
    """Return the causes that can have changed each function.

    A cause reaches the functions of its calls, and the functions that contain their code. A function appears or
    vanishes because of the causes that reach a context in which more or fewer calls of it are kept, or which appears or
    vanishes itself. Another decision that changed, about the same callee or about a function that a cause reaches, is
    an effect of that cause. A change in a function that no cause reaches is due to the causes that reach one of its
    callees: clang knows more or less about the callee there.

    Args:
        before: The decisions of the first compile.
        after: The decisions of the second compile.
        changes: Growth of each function in bytes; unchanged functions are absent.
        causes: The differing decisions of either compile, grouped by cause.
        sizes: Bytes, or the cost, of each function of the first compile.
        counts_calls: Whether a function also changes when it is called more or less often. Then the causes of a call
            reach its callee, and what no cause reaches is also due to the causes that reach one of its callers.

    Returns:
        The causes of each function that changed; functions without a cause are absent.
    """
    reach = Reach((before, after))
    found: Causes = {}

    def note(function: str, cause: int, distance: int) -> bool:
        distances = found.setdefault(function, {})
        if cause in distances and distances[cause] <= distance:
            return False
        distances[cause] = distance
        return True

    def spread(context: str, cause: int, start: int) -> None:
        for function, distance in reach.of_context(context).items():
            note(function, cause, start + distance)

    by_callee: dict[str, set[int]] = defaultdict(set)
    for index, cause in enumerate(causes):
        for decision in cause:
            by_callee[decision.callee].add(index)
        for context in {decision.context for decision in cause}:
            spread(context, index, 0)
    _follow_decisions(before, after, causes, by_callee, found, spread)
    kept = _kept_calls(before), _kept_calls(after)
    unstable = {name for name, change in changes.items() if name not in sizes or change == -sizes.get(name, 0)}
    for index, cause in enumerate(causes):
        for decision in cause:
            if decision.callee in unstable or (counts_calls and decision.callee in changes):
                note(decision.callee, index, 1)
    # A function that appears or vanishes lets others appear or vanish.
    while sum(_follow_calls(name, kept, unstable, found, note) for name in unstable):
        pass
    explained = {name: found[name] for name in changes if name in found}
    if counts_calls:
        explained |= _through_callers(changes.keys() - explained.keys(), kept, found)
    return explained | _through_callees(changes.keys() - explained.keys(), kept, found)


def _kept_calls(decisions: Iterable[InlineDecision]) -> dict[str, Counter[str]]:
    """Return the number of kept calls of each callee in each context."""
    kept: dict[str, Counter[str]] = defaultdict(Counter)
    for decision in decisions:
        if not decision.answer:
            kept[decision.callee][decision.context] += 1
    return kept


def _follow_decisions(
    before: Sequence[InlineDecision],
    after: Sequence[InlineDecision],
    causes: Sequence[Sequence[InlineDecision]],
    by_callee: Mapping[str, set[int]],
    found: Causes,
    spread: Callable[[str, int, int], None],
) -> None:
    """Spread causes to the decisions that changed as their effect."""
    own = {decision.site for cause in causes for decision in cause}
    answers = answers_by_call_site(before)
    for decision in after:
        old = answers.get(decision.call_site)
        if old is None or old == decision.answer or decision.site in own:
            continue
        reaching = dict.fromkeys(by_callee.get(decision.callee, ()), 0) | dict(found.get(decision.callee, {}))
        for cause, distance in reaching.items():
            spread(decision.context, cause, distance + 1)


def _follow_calls(
    name: str,
    kept: tuple[_Calls, _Calls],
    unstable: Set[str],
    found: Causes,
    note: Callable[[str, int, int], bool],
) -> bool:
    """Attribute an appearing or vanishing function to the causes in its calling contexts; return if any is new."""
    before, after = (calls.get(name, Counter[str]()) for calls in kept)
    is_new = False
    for context in before.keys() | after.keys():
        functions = functions_of(context)
        if before[context] == after[context] and unstable.isdisjoint(functions):
            continue
        for function in functions:
            for cause, distance in list(found.get(function, {}).items()):
                is_new |= function != name and note(name, cause, distance + 1)
    return is_new


def _through_callees(
    functions: Set[str], kept: tuple[_Calls, _Calls], found: Mapping[str, Mapping[int, int]]
) -> Causes:
    """Return the causes that reach a callee of each function."""
    explained: Causes = {}
    for callee, contexts in (each for calls in kept for each in calls.items()):
        reaching = {cause: distance + 1 for cause, distance in found.get(callee, {}).items()}
        for function in (name for context in contexts for name in functions_of(context)):
            if reaching and function in functions:
                explained.setdefault(function, {}).update(reaching)
    return explained


def _through_callers(
    functions: Set[str], kept: tuple[_Calls, _Calls], found: Mapping[str, Mapping[int, int]]
) -> Causes:
    """Return the causes that reach a caller of each function, directly or through further callers."""
    explained: Causes = {}
    callers: dict[str, set[str]] = defaultdict(set)
    for callee, contexts in (each for calls in kept for each in calls.items()):
        callers[callee].update(name for context in contexts for name in functions_of(context))
    for function in functions:
        seen, frontier, distance = {function}, [function], 0
        while frontier and function not in explained:
            distance += 1
            frontier = sorted({name for each in frontier for name in callers.get(each, ())} - seen)
            seen.update(frontier)
            for cause in sorted({cause for name in frontier for cause in found.get(name, ())}):
                explained.setdefault(function, {})[cause] = distance
    return explained
