"""Which functions an inlining decision can change, which decisions can have changed one, and the effects of flips."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from mlgo_gym.compiler.decision import functions_of
from mlgo_gym.episode.attribution.inline_compile import InlineDecision, answers_by_call_site

Causes = dict[str, dict[int, int]]
"""For each function, its causes by index, each with its distance.

The distance is the number of inlining steps from the function of the call; 0 in that function itself.
"""

_UNEXPLAINED_BYTES = 64
_UNEXPLAINED_SHARE = 0.25

Candidate = TypeVar("Candidate")

_Calls = Mapping[str, Counter[str]]


class Reach:
    """The functions that contain the code of a function, by the decisions of some compiles of one module."""

    def __init__(self, compiles: Iterable[Iterable[InlineDecision]]) -> None:
        self._into: dict[str, set[str]] = defaultdict(set)
        for decisions in compiles:
            for decision in decisions:
                if decision.answer:
                    self._into[decision.callee].update(decision.functions)
        self._memory: dict[str, dict[str, int]] = {}

    def of(self, function: str) -> Mapping[str, int]:
        """Return the functions that contain a function's code, each with its distance; the function itself has 0."""
        distances = self._memory.get(function)
        if distances is None:
            self._memory[function] = distances = {function: 0}
            frontier, distance = [function], 0
            while frontier:
                distance += 1
                frontier = [into for name in frontier for into in self._into.get(name, ()) if into not in distances]
                distances.update(dict.fromkeys(frontier, distance))
        return distances

    def of_context(self, context: str) -> dict[str, int]:
        """Return the union of `of()` over the functions of a context, with the smallest distances."""
        smallest: dict[str, int] = {}
        for function in functions_of(context):
            for name, distance in self.of(function).items():
                smallest[name] = min(distance, smallest.get(name, distance))
        return smallest


class AffectedFunctions:
    """Predicts which functions change when decisions are flipped, from all decisions and sizes of a compile."""

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
        affected: set[str] = set()
        for context in {decision.context for decision in flips}:
            affected.update(self._reach.of_context(context))
        for decision in flips:
            callee = decision.callee
            kept = self._kept.get(callee)
            appears = decision.answer and callee not in self._sizes
            vanishes = not decision.answer and callee in self._sizes and kept is not None and kept.total() <= len(flips)
            if appears or vanishes or self._counts_calls:
                affected.add(callee)
        return affected


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
        before, after: The decisions of both compiles.
        changes: Growth of each function in bytes; unchanged functions are absent.
        causes: The differing decisions of either compile, grouped by cause.
        sizes: Bytes, or the cost, of each function of the first compile.
        counts_calls: Whether a function also changes when it is called more or less often. Then the causes of a call
            reach its callee, and what no cause reaches is also due to the causes that reach one of its callers.
    """
    reach = Reach((before, after))
    reached: Causes = {}

    def note(function: str, cause: int, distance: int) -> bool:
        distances = reached.setdefault(function, {})
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
    # Other decisions that changed are effects.
    own = {decision.site for cause in causes for decision in cause}
    answers = answers_by_call_site(before)
    for decision in after:
        if answers.get(decision.call_site, decision.answer) == decision.answer or decision.site in own:
            continue
        reaching = dict.fromkeys(by_callee.get(decision.callee, ()), 0) | dict(reached.get(decision.callee, {}))
        for index, distance in reaching.items():
            spread(decision.context, index, distance + 1)
    kept = _kept_calls(before), _kept_calls(after)
    unstable = {name for name, change in changes.items() if name not in sizes or change == -sizes.get(name, 0)}
    for index, cause in enumerate(causes):
        for decision in cause:
            if decision.callee in unstable or (counts_calls and decision.callee in changes):
                note(decision.callee, index, 1)
    # A function that appears or vanishes lets others appear or vanish.
    while sum(_follow_calls(name, kept, unstable, reached, note) for name in unstable):
        pass
    explained, callers = ({name: reached[name] for name in changes if name in reached}, _callers(kept))
    if counts_calls:
        explained |= _through_callers(changes.keys() - explained.keys(), callers, reached)
    return explained | _through_callees(changes.keys() - explained.keys(), callers, reached)


def _kept_calls(decisions: Iterable[InlineDecision]) -> dict[str, Counter[str]]:
    kept: dict[str, Counter[str]] = defaultdict(Counter)
    for decision in decisions:
        if not decision.answer:
            kept[decision.callee][decision.context] += 1
    return kept


def _follow_calls(
    name: str, kept: tuple[_Calls, _Calls], unstable: Set[str], reached: Causes, note: Callable[[str, int, int], bool]
) -> bool:
    """Attribute an appearing or vanishing function to the causes in its calling contexts; return if any is new."""
    before, after = (calls.get(name, Counter[str]()) for calls in kept)
    is_new = False
    for context in before.keys() | after.keys():
        functions = functions_of(context)
        if before[context] == after[context] and unstable.isdisjoint(functions):
            continue
        for function in functions:
            for cause, distance in list(reached.get(function, {}).items()):
                is_new |= function != name and note(name, cause, distance + 1)
    return is_new


def _callers(kept: tuple[_Calls, _Calls]) -> dict[str, set[str]]:
    callers: dict[str, set[str]] = defaultdict(set)
    for calls in kept:
        for callee, contexts in calls.items():
            callers[callee].update(name for context in contexts for name in functions_of(context))
    return callers


def _through_callees(functions: Set[str], callers: Mapping[str, set[str]], causes: Causes) -> Causes:
    """Return the causes that reach a callee of each function."""
    explained: Causes = {}
    for callee, names in callers.items():
        reaching = {cause: distance + 1 for cause, distance in causes.get(callee, {}).items()}
        for function in functions & names if reaching else ():
            explained.setdefault(function, {}).update(reaching)
    return explained


def _through_callers(functions: Set[str], callers: Mapping[str, set[str]], causes: Causes) -> Causes:
    """Return the causes that reach a caller of each function, directly or through further callers."""
    explained: Causes = {}
    for function in functions:
        seen, frontier, distance = {function}, [function], 0
        while frontier and function not in explained:
            distance += 1
            frontier = sorted({caller for name in frontier for caller in callers.get(name, ())} - seen)
            seen.update(frontier)
            for cause in sorted({cause for name in frontier for cause in causes.get(name, ())}):
                explained.setdefault(function, {})[cause] = distance
    return explained


def independent(
    candidates: Iterable[Candidate], affected: Callable[[Candidate], Collection[str]], limit: int
) -> list[Candidate]:
    """Return at most `limit` candidates, by preference, whose `affected` functions do not overlap."""
    apart: list[Candidate] = []
    taken: set[str] = set()
    for candidate in candidates:
        functions = affected(candidate)
        if taken.isdisjoint(functions):
            taken.update(functions)
            apart.append(candidate)
            if len(apart) == limit:
                break
    return apart


def group_causes(count: int, causes: Mapping[str, Mapping[int, int]]) -> list[tuple[list[int], list[str]]]:
    """Return the groups of `count` causes that share a changed function, each with its changed functions.

    A cause that changed nothing is a group of its own. `causes` are those of `causes_of_changes()`.
    """
    leader = list(range(count))

    def find(cause: int) -> int:
        while leader[cause] != cause:
            leader[cause] = leader[leader[cause]]
            cause = leader[cause]
        return cause

    for reaching in causes.values():
        first, *others = reaching
        for other in others:
            leader[find(other)] = find(first)
    members: dict[int, tuple[list[int], list[str]]] = {}
    for cause in range(count):
        members.setdefault(find(cause), ([], []))[0].append(cause)
    for function, reaching in causes.items():
        members[find(next(iter(reaching)))][1].append(function)
    return list(members.values())


@dataclass(frozen=True, slots=True)
class FlipEffects:
    """The effects of several flips in one compile.

    Attributes:
        bytes: Growth of the module in bytes for each flip by index; flips that share a changed function are absent.
        unexplained, changed: Absolute change in bytes of the functions that no flip can have changed, and of all.
    """

    bytes: Mapping[int, int]
    unexplained: int
    changed: int

    @property
    def is_reliable(self) -> bool:
        """Whether the unexplained change is small enough to trust `bytes`."""
        return self.unexplained <= max(_UNEXPLAINED_BYTES, _UNEXPLAINED_SHARE * self.changed)


def flip_effects(
    before: Sequence[InlineDecision],
    after: Sequence[InlineDecision],
    changes: Mapping[str, int],
    flips: Sequence[InlineDecision],
    sizes: Mapping[str, int],
    *,
    counts_calls: bool = False,
) -> FlipEffects:
    """Return the effect of each flip of a compile.

    The first compile is without the flips, the second has them; `flips` are the decisions as in `before`. The other
    arguments are those of `causes_of_changes()`.
    """
    causes = causes_of_changes(before, after, changes, [[flip] for flip in flips], sizes, counts_calls=counts_calls)
    groups = group_causes(len(flips), causes)
    growth = {group[0]: sum(changes[name] for name in functions) for group, functions in groups if len(group) == 1}
    unexplained = sum(abs(change) for function, change in changes.items() if function not in causes)
    return FlipEffects(growth, unexplained, sum(map(abs, changes.values())))
