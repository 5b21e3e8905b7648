"""Moves of a search by bundles, flips of one call or of several, and the compile that they should give."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.decision import Decision, DecisionSite, functions_of
from mlgo_gym.episode.attribution.affected_functions import causes_of_changes, group_causes
from mlgo_gym.episode.attribution.credit import cost_of_call, expected_growth, is_last_call
from mlgo_gym.episode.attribution.inline_compile import (
    CallSite,
    InlineCompile,
    InlineDecision,
    Visits,
    differing,
    with_counterpart,
)
from mlgo_gym.llvm.sizes import FunctionSizes, size_changes

FEW_CALLS = 24
"""Moves with more calls are a kind of their own: they affect many functions, and few of them fit into one compile."""

MoveKey = tuple[str, tuple[tuple[CallSite, int], ...]]
"""Kind of a move, and each of its calls with its answer before the move."""

Flip = tuple[DecisionSite, InlineDecision]
"""A decision to flip, with its site in the expected compile."""


class Move(NamedTuple):
    """Decisions to flip together.

    Attributes:
        kind: `"keep"` or `"inline"` for one call; `"pair"` for two calls; `"keep callee"` or `"inline callee"` for all
            calls of a function; `"keep caller"` for all calls in a function; the last three with `", many"` for more
            than `FEW_CALLS`; the name of a policy for all calls in a function that it answers differently.
        changes: Site and new answer of each decision.
        decisions: The decisions before the move.
    """

    kind: str
    key: MoveKey
    changes: tuple[tuple[DecisionSite, int], ...]
    decisions: tuple[InlineDecision, ...]


def make_move(kind: str, flips: Sequence[Flip]) -> Move:
    """Return the move that flips some decisions."""
    key = kind, tuple(((site, decision.callee), decision.answer) for site, decision in flips)
    changes = tuple((site, 1 - decision.answer) for site, decision in flips)
    return Move(kind, key, changes, tuple(decision for _, decision in flips))


def single_moves(visits: Visits) -> list[Move]:
    """Return the flip of each call."""
    return [make_move("keep" if decision.answer else "inline", [(site, decision)]) for site, decision in _flips(visits)]


def all_moves(visits: Visits, policies: Mapping[str, Sequence[int]]) -> list[Move]:
    """Return all moves, given the decisions by context and visit, and each policy's answers to all of them."""
    moves = single_moves(visits)
    calls_of: dict[str, list[Flip]] = defaultdict(list)
    calls_in: dict[str, list[Flip]] = defaultdict(list)
    for site, decision in _flips(visits):
        calls_of[decision.callee].append((site, decision))
        calls_in[site.context].append((site, decision))
    for kind, groups, answer in (
        ("keep callee", calls_of, 0),
        ("inline callee", calls_of, 1),
        ("keep caller", calls_in, 0),
    ):
        for calls in groups.values():
            changed = [(site, decision) for site, decision in calls if decision.answer != answer]
            if len(changed) > 1:
                moves.append(make_move(kind if len(changed) <= FEW_CALLS else f"{kind}, many", changed))
    seen = {move.key[1] for move in moves if len(move.changes) > 1}
    for name, answers in policies.items():
        differing: dict[str, list[Flip]] = defaultdict(list)
        for (site, decision), action in zip(_flips(visits), answers, strict=False):
            if decision.answer != action:
                differing[site.context].append((site, decision))
        for calls in differing.values():
            if len(calls) > 1 and (move := make_move(name, calls)).key[1] not in seen:
                seen.add(move.key[1])
                moves.append(move)
    return moves


def _flips(visits: Visits) -> Iterator[Flip]:
    for (context, visit), decisions in visits.items():
        for index, decision in enumerate(decisions):
            yield DecisionSite(context, visit, index), decision


_COST_EDGES = (-20.0, 0.0, 25.0, 100.0, 300.0, 1000.0)  # of the classes of cost_of_call()

_MEAN_SAVINGS = {
    "keep last": (0.3, 1.4, 0.4, 2.8, 3.0, 6.1, 20.5),
    "keep": (2.2, 2.4, 3.1, 8.6, 20.0, 20.0, 20.0),
    "inline": (8.0, 4.0, 3.9, 3.7, 3.5, 2.7, 2.2),
}
"""Mean bytes saved by a flip, by kind and class of cost; a flip that saves nothing counts as 0.

Measured on the 69,409 decisions of the bundled labels outside builtin, zstd and sentencepiece, at both levels. Savings
are cut off at 1,000 bytes; classes with fewer than 100 decisions have the value of their neighbours.
"""

_PRIOR_BYTES = 40.0  # Expected savings of tried moves at which their real savings weigh as much as the table.
_PRIOR_SHARE = 1e-3  # The same as a share of the cost of the module, where that is not in bytes.
_JOINT_SHARE = 0.5  # Savings of a move of several calls, as a share of the savings of its flips.
_INLINE_CALLEE_SHARE = 0.1  # The same for inlining all calls of a function, beyond the bytes of the function.
_NOISE_SIGMA = 0.35  # Standard deviation of the logarithm of the random factor on each score.
# Guesses of the savings of a flip that changes how often a function is called.
_SHARE_OF_CALLEE = 0.1
_SHARE_OF_CALLER = 0.02


class MoveRanking:
    """Scores moves by expected savings; corrects the table of measured flips by the results of this search.

    With `by_cost` it expects a share of the costs of the caller and the callee instead of the table, which is in bytes.
    """

    def __init__(self, *, by_cost: bool = False) -> None:
        self._by_cost = by_cost
        self._expected: dict[tuple[str, int], float] = defaultdict(float)
        self._saved: dict[tuple[str, int], float] = defaultdict(float)

    def record(self, move: Move, growth: float, copies: Mapping[str, float], costs: Mapping[str, int]) -> None:
        """Record the growth of the cost by a move; copies and costs by function are those before the move."""
        kind = _kind_of_move(move)
        self._expected[kind] += self._savings(move, copies, costs)
        self._saved[kind] += max(0.0, -growth)

    def scores(
        self,
        moves: Sequence[Move],
        copies: Mapping[str, float],
        costs: Mapping[str, int],
        generator: np.random.Generator,
    ) -> npt.NDArray[np.float64]:
        """Return the expected savings of each move, times random noise; float64 of shape (moves,)."""
        prior = max(_PRIOR_SHARE * sum(costs.values()), 1.0) if self._by_cost else _PRIOR_BYTES
        scores = np.empty(len(moves))
        for index, move in enumerate(moves):
            kind = _kind_of_move(move)
            correction = (self._saved[kind] + prior) / (self._expected[kind] + prior)
            scores[index] = self._savings(move, copies, costs) * correction
        return np.asarray(scores * np.exp(generator.normal(0.0, _NOISE_SIGMA, len(moves))))

    def _savings(self, move: Move, copies: Mapping[str, float], costs: Mapping[str, int]) -> float:
        """Return the expected savings of a move, without the results of this search."""
        if self._by_cost:
            return sum(
                _SHARE_OF_CALLEE * costs.get(decision.callee, 0)
                + _SHARE_OF_CALLER * sum(costs.get(name, 0) for name in decision.functions)
                for decision in move.decisions
            )
        savings = growth = 0.0
        for decision in move.decisions:
            kind, column = _kind_of_flip(decision)
            times = max(1.0, copies.get(decision.functions[0], 1.0))
            savings += _MEAN_SAVINGS[kind][column] * times
            growth += expected_growth(decision.estimate) * times
        if len(move.changes) == 1:
            return savings
        if move.kind.startswith("inline callee"):
            callee_bytes = max(0.0, costs.get(move.decisions[0].callee, 0) - growth)
            return _JOINT_SHARE * callee_bytes + _INLINE_CALLEE_SHARE * savings
        return _JOINT_SHARE * savings


def code_copies(decisions: Sequence[InlineDecision], sizes: Mapping[str, int]) -> dict[str, float]:
    """Return the number of copies of each caller's code in the object of a compile, including inlined copies."""
    into: dict[str, list[str]] = defaultdict(list)
    for decision in decisions:
        if decision.answer:
            into[decision.callee].append(decision.functions[0])
    copies: dict[str, float] = {}

    def count(name: str, above: frozenset[str]) -> float:
        if name not in copies:
            path = above | {name}
            inlined = sum(count(caller, path) for caller in into.get(name, ()) if caller not in path)
            copies[name] = float(name in sizes) + inlined
        return copies[name]

    for decision in decisions:
        count(decision.functions[0], frozenset())
    return copies


def _kind_of_move(move: Move) -> tuple[str, int]:
    return (move.kind, 0) if len(move.changes) > 1 else _kind_of_flip(move.decisions[0])


def _kind_of_flip(decision: InlineDecision) -> tuple[str, int]:
    kind = ("keep last" if is_last_call(decision.estimate) else "keep") if decision.answer else "inline"
    return kind, bisect_right(_COST_EDGES, cost_of_call(decision.estimate))


# Number of recorded decisions to search for a call; those in between come from bodies that are not inlined now.
_LOOK_AHEAD = 24

# Features that distinguish the calls of a function as long as their callees are unchanged.
_CALL_FEATURES = (
    "callee_basic_block_count",
    "nr_ctant_params",
    "cost_estimate",
    "callee_conditionally_executed_blocks",
)


Plan = Callable[[Decision], int | None]
"""Returns the answer to the next decision of a compile; None leaves it to the policy."""


class Trial(NamedTuple):
    """A compile of the search, with its cost by the environment's metric.

    The `overrides` are sites whose answer is not that of the compile's policy. The `costs` are those of each function
    in place of its bytes, and their sum in place of `text`.
    """

    compiled: InlineCompile
    overrides: frozenset[DecisionSite]
    costs: FunctionSizes
    cost: float

    @property
    def total(self) -> int:
        """The sum of `costs`."""
        return self.costs.text


class ExpectedCompile:
    """A compile, with the better parts of other compiles.

    Attributes:
        visits: The decisions by context and visit.
        overrides: Sites whose answer is not that of the policy.
        sizes, costs: Bytes, and cost by the metric of the search, of each function.
    """

    def __init__(self, trial: Trial, *, counts_calls: bool = False) -> None:
        self._counts_calls = counts_calls
        self.visits: dict[tuple[str, int], list[InlineDecision]] = dict(trial.compiled.visits)
        self.overrides = set(trial.overrides)
        self.sizes: dict[str, int] = dict(trial.compiled.functions.functions)
        self.costs: dict[str, int] = dict(trial.costs.functions)
        self.total = trial.total

    @property
    def decisions(self) -> list[InlineDecision]:
        """All decisions."""
        return [decision for visit in self.visits.values() for decision in visit]

    def plan(
        self, dtype: np.dtype[Any], changes: Iterable[tuple[DecisionSite, int]] = (), *, pinned: bool = False
    ) -> Plan:
        """Return answers that repeat the decisions of this compile, and flip some of them.

        Calls are matched in order within each visit. Recorded calls that do not occur are skipped; a new call is left
        to the policy.

        Args:
            dtype: Type of an observation, from the header of the advisor.
            changes: Sites to answer differently, each with its answer.
            pinned: Whether to repeat all recorded answers; by default the policy decides where nothing overrides it.
        """
        changed = dict(changes)
        features = [name for name in _CALL_FEATURES if name in (dtype.names or ())]
        positions: dict[tuple[str, int], int] = {}

        def fingerprint(payload: bytes) -> tuple[int, ...]:
            """Return the features that identify a call whose index has changed."""
            record = np.frombuffer(payload, dtype)[0]
            return tuple(int(record[name][0]) for name in features)

        def answer(decision: Decision) -> int | None:
            visit = decision.site[:2]
            recorded = self.visits.get(visit)
            if recorded is None:
                return None
            start = positions.get(visit, 0)
            wanted = fingerprint(decision.payload)
            for index in range(start, min(start + _LOOK_AHEAD, len(recorded))):
                if fingerprint(recorded[index].payload) == wanted:
                    break
            else:
                # The same call has another fingerprint if its callee changed.
                index = start
                if index >= len(recorded) or index != decision.site.index:
                    return None
            positions[visit] = index + 1
            site = DecisionSite(*visit, index)
            if site in changed:
                return changed[site]
            return recorded[index].answer if pinned or site in self.overrides else None

        return answer

    def growth(self, trial: Trial) -> dict[str, int]:
        """Return by how much each function of a compile costs more than in this one; unchanged functions are absent."""
        return size_changes(FunctionSizes(self.costs, {}, 0, self.total), trial.costs)

    def replace(self, trial: Trial, functions: Iterable[str], contexts: Iterable[str] = ()) -> None:
        """Replace the costs of some functions and the decisions of some contexts by those of another compile."""
        compiled = trial.compiled
        for function in functions:
            _replace(self.sizes, compiled.functions, function)
            self.total += _replace(self.costs, trial.costs, function)
        replaced = set(contexts)
        self.visits = {key: visit for key, visit in self.visits.items() if key[0] not in replaced}
        self.visits |= {key: visit for key, visit in compiled.visits.items() if key[0] in replaced}
        self.overrides = {site for site in self.overrides if site.context not in replaced}
        self.overrides |= {site for site in trial.overrides if site.context in replaced}

    def contexts_of(self, trial: Trial, decisions: Iterable[InlineDecision], functions: Iterable[str]) -> set[str]:
        """Return the contexts of some decisions or functions, in this compile or another."""
        contexts, names = {decision.context for decision in decisions}, set(functions)
        return {
            context
            for context, _ in trial.compiled.visits.keys() | self.visits.keys()
            if context in contexts or not names.isdisjoint(functions_of(context))
        }

    def replace_worse_parts(self, trial: Trial) -> None:
        """Replace the parts that cost less in another compile.

        The differing decisions form groups that share no changed function. The cost of a group is the cost of its
        functions.
        """
        decisions, growth = trial.compiled.decisions, self.growth(trial)
        flipped = differing(self.decisions, decisions)
        pairs = [with_counterpart(self.visits, decisions[index]) for index in flipped]
        causes = causes_of_changes(
            self.decisions, decisions, growth, pairs, self.sizes, counts_calls=self._counts_calls
        )
        for group, functions in group_causes(len(flipped), causes):
            if sum(growth[function] for function in functions) < 0:
                replaced = [decisions[flipped[cause]] for cause in group]
                self.replace(trial, functions, self.contexts_of(trial, replaced, functions))


def _replace(values: dict[str, int], sizes: FunctionSizes, function: str) -> int:
    value = sizes.functions.get(function, 0)
    growth = value - values.pop(function, 0)
    if value:
        values[function] = value
    return growth
