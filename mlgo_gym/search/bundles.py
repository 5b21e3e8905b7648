"""Search by bundles of flips: many decisions are changed in one compile, and each function tells its own result.

It begins with whole compiles by several policies, and takes from each the parts that are smaller in it. After that a
compile tries one change in each of many functions that have nothing to do with each other. What every function gained
or lost is known from the object's symbols, and belongs to the changes that reach it; changes that meet in a function
are judged together. Those that helped are kept in all later compiles, which thereby verify them, and from time to time
a compile without anything new tells what all of them come to.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.inline_reach import explain
from mlgo_gym.episode.many_flips import Territory, groups, unrelated
from mlgo_gym.episode.placed_compile import PlacedDecision, compile_placed
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.search.expectation import Expectation, everything_kept
from mlgo_gym.search.moves import Move, MoveKey, all_moves, together
from mlgo_gym.search.plan import Fingerprints, Plan, Site, Trial
from mlgo_gym.search.prospects import Prospects, copies
from mlgo_gym.search.recorded import RecordedPolicy
from mlgo_gym.search.rules import Rules
from mlgo_gym.search.search_space import Leaf, SearchSpace
from mlgo_gym.session.decision import Decision
from mlgo_gym.tasks.task import SIZE_METRICS

VERIFY_EVERY = 8
"""After so many compiles with something new comes one without, if something was kept."""

MOST_AT_ONCE = 500
"""The most moves that are tried in one compile."""

_MOST_RETRIES = 2
"""How often moves that met others in a function are tried again elsewhere."""

_FEWEST_FOR_PORTFOLIO = 3
"""If fewer compiles than this are left, none is spent on one more policy."""


class Bundles:
    """A search by many flips at once, as far as it has come.

    Args:
        space: the decisions; the first compile takes those of its start, and those of its portfolio are tried as
            well.
        seed: seeds the random generator.

    Attributes:
        best: the best compile so far.

    Raises:
        MlgoError: the reward is not the size of the code, or there are other decisions than those of inlining.
        CompilerError: the first compile failed. Later failures are counted, and what was new in them is given up.
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
        self._prospects = Prospects()
        self._rules = Rules(space, space.portfolio)
        self._rule = space.start
        self._tried: dict[MoveKey, frozenset[str]] = {}
        self._met = Counter[MoveKey]()
        self._doubtful: set[MoveKey] = set()
        self._alone: set[MoveKey] = set()
        self._others: list[tuple[Trial, Policy | None]] = []
        self.best = self._compile_first()
        if not self.best.compiled.decisions:
            # It says that there is nothing to decide.
            space.root().close()
        self._expected = Expectation(self.best)
        self._unverified = 0
        self._changed = True
        self._round = 0

    @property
    def _is_better(self) -> bool:
        """Whether a compile without anything new is expected to be the best."""
        return self._expected.text < self.best.compiled.text

    def run(self) -> Leaf:
        """Go on until the budget is spent, or there is nothing left to try; return the best compile."""
        self._try_portfolio()
        budget = self._space.budget
        while not budget.is_spent:
            due = self._unverified >= VERIFY_EVERY or budget.remaining == 1
            if self._is_better and due:
                self._verify()
                continue
            moves = self._choose()
            if not moves:
                if self._is_better:
                    self._verify()
                    continue
                break
            self._try(moves, pinned=self._round % 2 == 1)
        return Leaf(self.best.compiled.answers, float(self.best.compiled.text), self._baseline)

    def _compile_first(self) -> Trial:
        foretell = self._space.setup.settings.calls
        trial = self._compile(None, foretell=foretell)
        assert trial is not None, "what fails first is raised"
        if foretell:
            self._rule = RecordedPolicy(trial.compiled)
        return trial

    def _compile(self, plan: Plan | None, *, foretell: bool = False) -> Trial | None:
        """Return a compile by a plan, and by the rule where that leaves it to it; None where it failed."""
        space, numbers = self._space, itertools.count()
        kept: set[Site] = set()

        def choose(decision: Decision) -> int:
            ruled = space.action_of(self._rule, decision, next(numbers))
            answer = None if plan is None else plan.answer(decision)
            if answer is not None and answer != ruled:
                kept.add(Site(decision.context, decision.visit, decision.number))
            return ruled if answer is None else answer

        try:
            compiled = compile_placed(self._compilation, space.task, choose, self._timeout, foretell=foretell)
        except CompilerError:
            if not space.improvements:
                raise
            space.note_failure()
            return None
        space.note(Leaf(compiled.answers, float(compiled.text), self._baseline))
        return Trial(compiled, frozenset(kept))

    def _try_portfolio(self) -> None:
        """Compile by each policy of the portfolio alone, go on from the best, and take what is better of the others."""
        start = self._rule
        trials = [(self.best, start)]
        for name in self._rules.names:
            known = any(self._rules.agrees(name, trial.compiled.decisions) for trial, _ in trials)
            if known or self._space.budget.remaining < _FEWEST_FOR_PORTFOLIO or self._space.budget.is_spent:
                continue
            self._rule = self._space.portfolio[name]
            trial = self._compile(None)
            if trial is not None:
                trials.append((trial, self._rule))
        trials.sort(key=lambda each: each[0].compiled.text)
        (self.best, self._rule), *self._others = trials
        self._expected = Expectation(self.best)
        for trial, _ in self._others:
            self._expected.take_better(everything_kept(trial))
        if self._is_better and not self._space.budget.is_spent:
            self._verify()

    def _choose(self) -> list[Move]:
        """Return the next moves, as soon as nothing is left of one kind those of the next.

        They are what was never tried; then, one by one, what others may have spoilt; then all that was tried before
        something changed, where every second time the other calls are pinned; then pairs; then all of it around the
        next best policy of the portfolio.
        """
        moves = all_moves(self._expected, self._rules.suggestions(self._expected.decisions))
        fresh = [move for move in moves if move.key not in self._tried]
        if not fresh and self._doubtful:
            fresh = [move for move in moves if move.key in self._doubtful]
            self._alone |= self._doubtful
            for key in self._doubtful:
                self._tried.pop(key, None)
            self._doubtful.clear()
        if not fresh and self._changed:
            self._changed = False
            self._round += 1
            self._forget_all()
            fresh = moves
        # What follows goes on for ever: a search without any limit ends before it.
        if not fresh and not self._space.budget.is_spent_after(0):
            fresh = self._pairs() or self._start_again()
        decisions, sizes = self._expected.decisions, self._expected.sizes
        order = np.argsort(
            -self._prospects.judge(fresh, copies(decisions, sizes), sizes, self._generator), kind="stable"
        )
        ordered = [fresh[number] for number in order.tolist()]
        if ordered and ordered[0].key in self._alone:
            return ordered[:1]
        territory = Territory(decisions, sizes)
        together_now = (move for move in ordered if move.key not in self._alone)
        return unrelated(together_now, lambda move: territory.of(move.decisions), MOST_AT_ONCE)

    def _forget_all(self) -> None:
        for known in (self._tried, self._met, self._doubtful, self._alone):
            known.clear()

    def _start_again(self) -> list[Move]:
        """Go on from the next best policy's own compile; return its moves."""
        if not self._others:
            return []
        trial, self._rule = self._others.pop(0)
        self._expected, self._unverified = Expectation(trial), 0
        self._forget_all()
        return all_moves(self._expected, self._rules.suggestions(self._expected.decisions))

    def _pairs(self) -> list[Move]:
        """Return flips of two calls in one function, or of one function, drawn at random."""
        found: list[Move] = []
        calls_of: dict[str, list[tuple[Site, PlacedDecision]]] = {}
        singles = [move for move in all_moves(self._expected, {}) if len(move.changes) == 1]
        for move in singles:
            (decision,) = move.decisions
            (change,) = move.changes
            for name in (decision.component, f"callee {decision.callee}"):
                calls_of.setdefault(name, []).append((change[0], decision))
        for calls in calls_of.values():
            if len(calls) < 2:
                continue
            for _ in range(min(len(calls), 8)):
                first, second = self._generator.choice(len(calls), 2, replace=False).tolist()
                move = together("pair", [calls[first], calls[second]])
                if move.key not in self._tried:
                    found.append(move)
        return found

    def _try(self, moves: Sequence[Move], *, pinned: bool) -> None:
        """Compile with some moves, and keep those that helped.

        Args:
            moves: what to try.
            pinned: whether all other decisions keep their answers; if not, what the rule had decided it decides anew.
        """
        expected = self._expected
        territory = Territory(expected.decisions, expected.sizes)
        territories = [frozenset(territory.of(move.decisions)) for move in moves]
        counted = copies(expected.decisions, expected.sizes)
        changes = [change for move in moves for change in move.changes]
        trial = self._compile(Plan(expected.visits, expected.kept, changes, self._fingerprints, pinned=pinned))
        self._unverified += 1
        if trial is None:
            for move, functions in zip(moves, territories, strict=True):
                self._note(move, functions, certain=len(moves) == 1)
            return
        grown = expected.growth(trial)
        explained = explain(
            expected.decisions, trial.compiled.decisions, grown, [move.decisions for move in moves], expected.sizes
        )
        for group, functions_changed in groups(len(moves), explained):
            gain = sum(grown[function] for function in functions_changed)
            if len(group) == 1:
                self._prospects.note(moves[group[0]], gain, counted, expected.sizes)
            for number in group:
                certain = len(group) == 1 or gain < 0
                self._note(moves[number], territories[number], certain=certain)
                if gain >= 0 and not certain and moves[number].key not in self._alone:
                    self._doubtful.add(moves[number].key)
            if gain < 0:
                self._keep([moves[number] for number in group], functions_changed, trial)
        # What no move explains is what is true now of the rest: moves that were kept meet there.
        expected.take_over(trial, [function for function in grown if function not in explained], ())
        if trial.compiled.text < self.best.compiled.text:
            self.best = trial
            if trial.compiled.text < expected.text:
                # The whole is better than what is believed of its parts.
                self._expected, self._unverified, self._changed = Expectation(trial), 0, True

    def _note(self, move: Move, territory: frozenset[str], *, certain: bool) -> None:
        self._met[move.key] += 1
        if certain or self._met[move.key] > _MOST_RETRIES:
            self._tried[move.key] = territory

    def _keep(self, moves: Sequence[Move], functions: Sequence[str], trial: Trial) -> None:
        """Expect some moves from now on; what was tried where they changed something may be worth another try."""
        made = [decision for move in moves for decision in move.decisions]
        components = self._expected.touched(trial, made, functions)
        self._expected.take_over(trial, functions, components)
        self._changed = True
        changed = {*functions, *(name for component in components for name in component.split(", "))}
        for key in [key for key, territory in self._tried.items() if not changed.isdisjoint(territory)]:
            del self._tried[key]
            self._met.pop(key, None)
            self._doubtful.discard(key)
            self._alone.discard(key)
        for move in moves:
            if len(move.changes) == 1:
                self._tried[move.undoing] = frozenset()

    def _verify(self) -> None:
        """Compile what is expected, without anything new, and from now on expect the better parts of the result."""
        trial = self._compile(Plan(self._expected.visits, self._expected.kept, (), self._fingerprints))
        self._unverified = 0
        if trial is None:
            self._expected = Expectation(self.best)
            return
        other = trial
        if trial.compiled.text < self.best.compiled.text:
            self.best, other = trial, self.best
        self._expected = Expectation(self.best)
        self._expected.take_better(other)


def bundles(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best compile that search by bundles of flips finds within the budget.

    Args:
        space: the decisions, of inlining alone; it begins with those of the space's starting policy.
        seed: seeds the random generator.
    """
    return Bundles(space, seed).run()
