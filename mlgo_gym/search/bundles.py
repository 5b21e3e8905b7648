"""Search by bundles of flips: one compile flips many decisions, and the bytes of each function rate the flips.

The search starts with a compile by each policy of a portfolio, and combines their smallest parts. Each further compile
tries moves that affect disjoint functions. The growth of a function, from the symbols of the object, belongs to the
moves that reach it; moves that share a function are rated together. Moves that helped stay in all later compiles.
Compiles without new moves verify them in between. In the link view, functions that the linker merges keep the decisions
of the start policy in a build: only equal functions are merged.
"""

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mlgo_gym.compiler.decision import Decision, DecisionSite, functions_of
from mlgo_gym.episode.attribution.affected_functions import (
    AffectedFunctions,
    causes_of_changes,
    group_causes,
    independent,
)
from mlgo_gym.episode.attribution.inline_compile import (
    CallSite,
    InlineCompile,
    InlineDecision,
    Visits,
    answers_by_call_site,
    run_inline_compile,
)
from mlgo_gym.episode.function_costs import FunctionCosts
from mlgo_gym.errors import CompilerError
from mlgo_gym.policies import Policy
from mlgo_gym.policies.loading import needs_callee_features
from mlgo_gym.policies.rules import Rule
from mlgo_gym.search.moves import (
    ExpectedCompile,
    Flip,
    Move,
    MoveKey,
    MoveRanking,
    Plan,
    Trial,
    all_moves,
    code_copies,
    make_move,
    single_moves,
)
from mlgo_gym.search.search_space import Found, SearchSpace

VERIFY_EVERY = 8
"""Number of compiles with new moves before one without, if a move helped."""

MAX_MOVES = 500
"""Maximum number of moves per compile."""

_MAX_RETRIES = 2  # of a move that shares a function with others
_MIN_COMPILES = 4  # remaining compiles to try another policy: two with new moves and one without follow
_MAX_PAIRS = 8  # of calls, per caller and per callee


class BundleSearch:
    """The state of a search by bundles; `best` is the best compile so far. Errors are those of `search_module()`."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space = space
        self._compilation = space.setup.compilation(space.module)
        self._timeout = space.setup.timeout
        self._dtype = space.task.headers[0].dtype
        self._costs = FunctionCosts(space.setup, self._compilation)
        self._generator = np.random.default_rng(seed)
        self._ranking = MoveRanking(by_cost=self._costs.counts_calls)
        self._answers: dict[str, dict[CallSite, int]] = {name: {} for name in space.portfolio}
        self._policy = space.start
        # Moves that were rated, with the functions that they affect; and those that shared a function, which are
        # retried, at last alone.
        self._tried: dict[MoveKey, frozenset[str]] = {}
        self._attempts = Counter[MoveKey]()
        self._ambiguous: set[MoveKey] = set()
        self._alone: set[MoveKey] = set()
        self._merged = space.merged_decisions() if space.budget.remaining > 1 else {}
        first = self._compile(None)
        if first is None:
            self._policy = None
            first = self._compile(None)
        assert first is not None, "the failure of clang's own choices is raised"
        if space.setup.options.callee_features:
            # Callee features cost time in each compile, and change with every flip.
            self._policy = _repeat(first.compiled)
        if space.start_name in self._answers:
            self._answers[space.start_name] = answers_by_call_site(first.compiled.decisions)
        self.best = first
        self._expected = self._expect(first)
        self._unverified = 0
        self._has_changed = True
        self._round = 0

    @property
    def _expects_improvement(self) -> bool:
        return self._expected.total < self.best.total

    def run(self) -> Found:
        """Search until the budget is spent or nothing is left to try; return the best compile."""
        self._try_portfolio()
        budget = self._space.budget
        while not budget.is_spent:
            is_due = self._unverified >= VERIFY_EVERY or budget.remaining == 1
            moves = [] if self._expects_improvement and is_due else self._choose()
            if moves:
                self._try(moves, pinned=self._round % 2 == 1)
            elif self._expects_improvement:
                self._verify()
            else:
                break
        return self.best.compiled.answers, self.best.cost, self._costs.baseline

    def _expect(self, trial: Trial) -> ExpectedCompile:
        return ExpectedCompile(trial, counts_calls=self._costs.counts_calls)

    def _compile(self, plan: Plan | None, *, callee_features: bool = False) -> Trial | None:
        """Return a compile by a plan, and by the policy where the plan has no answer; None if it failed."""
        space, indices = self._space, itertools.count()
        overrides: set[DecisionSite] = set()

        def choose(decision: Decision) -> int:
            default = space.action_of(self._policy, decision, next(indices))
            answer = None if plan is None else plan(decision)
            if decision.site.context in self._merged:
                answer = self._merged[decision.site.context].get(decision.site, answer)
            if answer is not None and answer != default:
                overrides.add(decision.site)
            return default if answer is None else answer

        # Only the first compile asks the start policy, which may see callee features.
        is_first = not space.improvements
        blank = not (is_first or callee_features)
        try:
            compiled = run_inline_compile(
                self._compilation, space.task, choose, self._timeout, blank_callee_features=blank
            )
            cost, functions = self._costs.of(compiled)
        except CompilerError:
            if is_first and self._policy is None:
                raise
            space.record(None)
            return None
        trial = Trial(compiled, frozenset(overrides), functions, cost)
        space.record(cost)
        return trial

    def _try_portfolio(self) -> None:
        """Compile by each policy of the portfolio, and combine the smallest parts."""
        trials = [(self.best, self._policy)]
        budget = self._space.budget
        for name, policy in self._space.portfolio.items():
            if name == self._space.start_name:
                continue
            sees_callees = needs_callee_features(name)
            # The compile of a policy that would give all answers of another compile is the same. Recorded decisions
            # have no callee features.
            is_known = not sees_callees and any(
                all(self._answer(name, decision) == decision.answer for decision in trial.compiled.decisions)
                for trial, _ in trials
            )
            if is_known or budget.remaining < _MIN_COMPILES or budget.is_spent:
                continue
            self._policy = policy
            trial = self._compile(None, callee_features=sees_callees)
            if trial is None:
                continue
            if sees_callees:
                policy = _repeat(trial.compiled)
                self._answers[name] = answers_by_call_site(trial.compiled.decisions)
            trials.append((trial, policy))
        trials.sort(key=lambda pair: pair[0].total)
        (self.best, self._policy), *others = trials
        self._expected = self._expect(self.best)
        for trial, _ in others:
            # All its answers are kept under another policy.
            sites = frozenset(decision.site for decision in trial.compiled.decisions)
            self._expected.replace_worse_parts(trial._replace(overrides=sites))
        if self._expects_improvement and budget.remaining > VERIFY_EVERY:
            self._verify()

    def _choose(self) -> list[Move]:
        """Return independent moves to try next, the most promising first.

        New moves come first, then ambiguous moves one by one. When nothing is left, all moves are tried again if
        something changed; every second round pins the other decisions. Then follow pairs of calls.
        """
        moves = self._all_moves()
        fresh = [move for move in moves if move.key not in self._tried]
        if not fresh and self._ambiguous:
            fresh = [move for move in moves if move.key in self._ambiguous]
            self._alone |= self._ambiguous
            for key in self._ambiguous:
                self._tried.pop(key, None)
            self._ambiguous.clear()
        if not fresh and self._has_changed:
            self._has_changed = False
            self._round += 1
            self._clear_tried()
            fresh = moves
        # Pairs never run out: a search without a budget ends before them.
        if not fresh and not self._space.budget.is_unlimited:
            fresh = self._pairs()
        decisions, sizes, costs = self._expected.decisions, self._expected.sizes, self._expected.costs
        scores = self._ranking.scores(fresh, code_copies(decisions, sizes), costs, self._generator)
        ordered = [fresh[index] for index in np.argsort(-scores, kind="stable").tolist()]
        if ordered and ordered[0].key in self._alone:
            return ordered[:1]
        affected = AffectedFunctions(decisions, sizes, counts_calls=self._costs.counts_calls)
        candidates = (move for move in ordered if move.key not in self._alone)
        return independent(candidates, lambda move: affected.of(move.decisions), MAX_MOVES)

    @property
    def _free_visits(self) -> Visits:
        return {visit: calls for visit, calls in self._expected.visits.items() if visit[0] not in self._merged}

    def _all_moves(self) -> list[Move]:
        visits = self._free_visits
        decisions = [decision for calls in visits.values() for decision in calls]
        for name, answers in self._answers.items():
            for decision in decisions:
                # The first answer at a call site counts: flips change features of all calls, but few answers.
                if decision.call_site not in answers:
                    answers[decision.call_site] = self._answer(name, decision)
        policies = {name: [by_site[call.call_site] for call in decisions] for name, by_site in self._answers.items()}
        return all_moves(visits, policies)

    def _answer(self, name: str, decision: InlineDecision) -> int:
        return self._space.action_of(self._space.portfolio[name], Decision(0, decision.site, decision.payload), 0)

    def _clear_tried(self) -> None:
        for keys in (self._tried, self._attempts, self._ambiguous, self._alone):
            keys.clear()

    def _pairs(self) -> list[Move]:
        pairs: list[Move] = []
        groups: dict[tuple[str, str], list[Flip]] = {}
        for move in single_moves(self._free_visits):
            ((site, _),), (decision,) = move.changes, move.decisions
            for group in (("caller", decision.context), ("callee", decision.callee)):
                groups.setdefault(group, []).append((site, decision))
        for flips in groups.values():
            if len(flips) < 2:
                continue
            for _ in range(min(len(flips), _MAX_PAIRS)):
                first, second = self._generator.choice(len(flips), 2, replace=False).tolist()
                move = make_move("pair", [flips[first], flips[second]])
                if move.key not in self._tried:
                    pairs.append(move)
        return pairs

    def _try(self, moves: Sequence[Move], *, pinned: bool) -> None:
        """Compile with some moves, and keep those that helped; the policy decides on others unless they are pinned."""
        expected, decisions, sizes = self._expected, self._expected.decisions, self._expected.sizes
        predicted = AffectedFunctions(decisions, sizes, counts_calls=self._costs.counts_calls)
        affected = [frozenset(predicted.of(move.decisions)) for move in moves]
        copies = code_copies(decisions, sizes)
        changes = [change for move in moves for change in move.changes]
        trial = self._compile(self._expected.plan(self._dtype, changes, pinned=pinned))
        self._unverified += 1
        if trial is None:
            for move, functions in zip(moves, affected, strict=True):
                self._mark_tried(move, functions, is_certain=len(moves) == 1)
            return
        growth = expected.growth(trial)
        flipped = [move.decisions for move in moves]
        causes = causes_of_changes(
            decisions, trial.compiled.decisions, growth, flipped, expected.costs, counts_calls=self._costs.counts_calls
        )
        for group, changed in group_causes(len(moves), causes):
            total = sum(growth[function] for function in changed)
            if len(group) == 1:
                self._ranking.record(moves[group[0]], total, copies, expected.costs)
            is_certain = len(group) == 1 or total < 0
            for index in group:
                self._mark_tried(moves[index], affected[index], is_certain=is_certain)
                if not is_certain and moves[index].key not in self._alone:
                    self._ambiguous.add(moves[index].key)
            if total < 0:
                self._keep([moves[index] for index in group], changed, trial)
        # A change without a cause is due to several moves kept before; their sum is measured now.
        expected.replace(trial, [function for function in growth if function not in causes])
        if trial.total < self.best.total:
            self.best = trial
            if trial.total < expected.total:
                self._expected, self._unverified, self._has_changed = self._expect(trial), 0, True

    def _mark_tried(self, move: Move, affected: frozenset[str], *, is_certain: bool) -> None:
        self._attempts[move.key] += 1
        if is_certain or self._attempts[move.key] > _MAX_RETRIES:
            self._tried[move.key] = affected

    def _keep(self, moves: Sequence[Move], functions: Sequence[str], trial: Trial) -> None:
        """Keep some moves, and allow another try of the moves that affect their functions."""
        flipped = [decision for move in moves for decision in move.decisions]
        contexts = self._expected.contexts_of(trial, flipped, functions)
        self._expected.replace(trial, functions, contexts)
        self._has_changed = True
        changed = {*functions, *(name for context in contexts for name in functions_of(context))}
        for key in [key for key, affected in self._tried.items() if not changed.isdisjoint(affected)]:
            del self._tried[key]
            self._attempts.pop(key, None)
            self._ambiguous.discard(key)
            self._alone.discard(key)
        for move in moves:
            if len(move.changes) == 1:
                # The move that undoes it.
                ((call, answer),) = move.key[1]
                self._tried["keep" if move.kind == "inline" else "inline", ((call, 1 - answer),)] = frozenset()

    def _verify(self) -> None:
        trial = self._compile(self._expected.plan(self._dtype))
        self._unverified = 0
        if trial is None:
            self._expected = self._expect(self.best)
            return
        other = trial
        if trial.total < self.best.total:
            self.best, other = trial, self.best
        self._expected = self._expect(self.best)
        self._expected.replace_worse_parts(other)


def _repeat(compiled: InlineCompile) -> Policy:
    """Return a policy with the answers of a compile by site, and clang's own choice elsewhere."""
    answers = {decision.site: decision.answer for decision in compiled.decisions}
    return Rule(lambda _observation, info: answers.get(info["site"], info["default_action"]))
