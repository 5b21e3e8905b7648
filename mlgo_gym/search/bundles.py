"""Search by bundles of flips: many decisions are made otherwise in one compile, and each function tells its own result.

A compile tries one change in each of many functions that have nothing to do with each other. What every function
gained or lost is known from the object's symbols, and belongs to the changes that reach it; changes that meet in a
function are judged together. Those that helped are kept in all later compiles, which thereby verify them, and from time
to time a compile without anything new tells what all of them come to.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.inline_reach import explain
from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision, compile_placed
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.function_sizes import FunctionSizes, size_changes
from mlgo_gym.search.moves import Experience, Move, Territory, all_moves, disjoint, together
from mlgo_gym.search.plan import Expectation, Fingerprints, Plan, Site
from mlgo_gym.search.search_space import Leaf, SearchSpace
from mlgo_gym.session.decision import Decision
from mlgo_gym.tasks.task import SIZE_METRICS

VERIFY_EVERY = 6
"""So many compiles with something new are followed by one without, where something was kept."""

MOST_AT_ONCE = 500
"""The most moves that are tried in one compile."""

_MOST_RETRIES = 2
"""How often moves that met others in a function are tried again elsewhere."""


class Bundles:
    """A search by many flips at once, as far as it has come.

    Args:
        space: the decisions.
        seed: seeds the random generator.

    Attributes:
        best: the best compile so far.

    Raises:
        MlgoError: what is rewarded is not the bytes of the code, or decisions other than those of inlining are made.
        CompilerError: the first compile failed.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        metric = SIZE_METRICS.get(space.setup.metric)
        if metric != "text" or space.function is not None:
            raise MlgoError(
                "search by bundles of flips counts the bytes of functions: it needs the metric 'text' and whole "
                f"modules, found {space.setup.metric!r}" + ("" if space.function is None else " and one function")
            )
        self._space = space
        self._compilation = space.setup.compilation(space.module)
        self._timeout = space.setup.settings.timeout
        baseline = measure_baseline(self._compilation, self._timeout)
        self._baseline = space.task.outcome(baseline, space.setup.metric, None)
        self._generator = np.random.default_rng(seed)
        self._fingerprints = Fingerprints(space.task.headers[0])
        integers = [spec for spec in space.task.headers[0].features if spec.dtype.kind == "i" and spec.size == 1]
        self._experience = Experience(len(integers))
        self._tried: dict[Hashable, float] = {}
        self._met = Counter[Hashable]()
        self.best = self._compile(None)
        if not self.best.decisions:
            # It says that there is nothing to decide.
            space.root().close()
        self._expected = Expectation(self.best)
        self._unverified = 0
        self._changed = True

    def run(self) -> Leaf:
        """Go on until the budget is spent, or there is nothing left to try; return the best compile."""
        budget = self._space.budget
        while not budget.is_spent:
            due = self._unverified >= VERIFY_EVERY or budget.remaining == 1
            if self._expected.text < self.best.text and due:
                self._verify()
                continue
            moves = self._choose()
            if not moves:
                if self._expected.text < self.best.text:
                    self._verify()
                    continue
                break
            self._try(moves, adapt=self._space.start is None and self._unverified % 2 == 1)
        return Leaf(self.best.answers, float(self.best.text), self._baseline)

    def _compile(self, plan: Plan | None) -> PlacedCompile:
        space, numbers = self._space, itertools.count()

        def choose(decision: Decision) -> int:
            number = next(numbers)
            answer = None if plan is None else plan.answer(decision)
            return space.start_action(decision, number) if answer is None else answer

        compiled = compile_placed(self._compilation, space.task, choose, self._timeout)
        space.note(Leaf(compiled.answers, float(compiled.text), self._baseline))
        return compiled

    def _choose(self) -> list[Move]:
        """Return the next moves: what was never tried, then once more what was tried elsewhere, then pairs."""
        moves = all_moves(self._expected)
        fresh = [move for move in moves if move.key not in self._tried]
        if not fresh and self._changed:
            self._changed = False
            self._tried.clear()
            self._met.clear()
            fresh = moves
        if not fresh:
            # Pairs go on for ever: a search without any limit ends before them.
            fresh = [] if self._space.budget.is_spent_after(0) else self._pairs()
        order = np.argsort(self._experience.judge(fresh, self._generator), kind="stable")
        return disjoint(fresh, order, Territory(self._expected), MOST_AT_ONCE, {})

    def _pairs(self) -> list[Move]:
        """Return flips of two calls in one function, or of one function, drawn at random."""
        found: list[Move] = []
        groups: dict[str, list[tuple[Site, PlacedDecision]]] = {}
        singles = [move for move in all_moves(self._expected) if len(move.changes) == 1]
        for move in singles:
            (decision,) = move.decisions
            (change,) = move.changes
            for name in (decision.component, f"callee {decision.callee}"):
                groups.setdefault(name, []).append((change[0], decision))
        for calls in groups.values():
            if len(calls) < 2:
                continue
            for _ in range(min(len(calls), 8)):
                first, second = self._generator.choice(len(calls), 2, replace=False).tolist()
                move = together("pair", [calls[first], calls[second]])
                if move.key not in self._tried:
                    found.append(move)
        return found

    def _try(self, moves: Sequence[Move], *, adapt: bool) -> None:
        """Compile with some moves, and keep those that helped.

        Args:
            moves: what to try.
            adapt: whether clang decides anew what it has decided by itself so far.
        """
        changes = [change for move in moves for change in move.changes]
        compiled = self._compile(Plan(self._expected.visits, changes, self._fingerprints, adapt=adapt))
        self._unverified += 1
        before = FunctionSizes(self._expected.sizes, {}, 0, self._expected.text)
        grown = size_changes(before, compiled.functions)
        decisions = self._expected.decisions
        explained = explain(
            decisions, compiled.decisions, grown, [move.decisions for move in moves], self._expected.sizes
        )
        for group, functions in _groups(len(moves), explained):
            gain = sum(grown[function] for function in functions)
            together_moves = [moves[number] for number in group]
            self._judge(together_moves, gain, functions, compiled)
        # What no move explains is what is true now of the rest: moves that were kept meet there.
        rest = [function for function in grown if function not in explained]
        self._expected.take_over(compiled, rest, ())
        if compiled.text < self.best.text:
            self.best = compiled

    def _judge(self, moves: list[Move], gain: int, functions: Sequence[str], compiled: PlacedCompile) -> None:
        if len(moves) == 1:
            self._experience.note(moves[0], gain)
        for move in moves:
            self._met[move.key] += 1
            if len(moves) == 1 or gain < 0 or self._met[move.key] > _MOST_RETRIES:
                self._tried[move.key] = gain
        if gain < 0:
            components = {decision.component for move in moves for decision in move.decisions}
            changed = set(functions)
            touched = {
                component
                for component, _ in compiled.visits.keys() | self._expected.visits.keys()
                if component in components or not changed.isdisjoint(component.split(", "))
            }
            self._expected.take_over(compiled, functions, touched)
            self._changed = True

    def _verify(self) -> None:
        """Compile what is expected, without anything new, and expect from now on what it is."""
        compiled = self._compile(Plan(self._expected.visits, (), self._fingerprints))
        self._unverified = 0
        if compiled.text < self.best.text:
            self.best = compiled
        self._expected = Expectation(self.best)


def _groups(count: int, explained: dict[str, dict[int, int]]) -> list[tuple[list[int], list[str]]]:
    """Return which moves meet in functions that changed, and those functions; moves that changed nothing alone."""
    leader = list(range(count))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    for reaching in explained.values():
        first, *others = reaching
        for other in others:
            leader[find(other)] = find(first)
    members: dict[int, tuple[list[int], list[str]]] = {}
    for number in range(count):
        members.setdefault(find(number), ([], []))[0].append(number)
    for function, reaching in explained.items():
        members[find(next(iter(reaching)))][1].append(function)
    return list(members.values())


def bundles(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best compile that search by bundles of flips finds within the budget.

    Args:
        space: the decisions, of inlining alone; it begins with those of the space's starting policy.
        seed: seeds the random generator.
    """
    return Bundles(space, seed).run()
