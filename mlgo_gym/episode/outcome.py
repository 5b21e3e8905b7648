"""The outcome of an episode: reward and last info from its measurements or its failure, and costs of flipped decisions.

A counterfactual is the exact cost of an episode with one decision flipped. The episode is compiled once more, and clang
is forked at each requested decision. Each fork flips that decision and repeats all other actions by their sites. At a
site that the episode lacks, because the call is part of inlined code, the fork takes clang's own choice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.argument_types import whole_number
from mlgo_gym.episode.attribution.credit import CostChanges, credit
from mlgo_gym.episode.attribution.inline_compile import InlineCompile
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.sizes import FunctionSizes, object_sizes, size_changes
from mlgo_gym.tasks.infos import empty_last_info
from mlgo_gym.tasks.measurement import (
    MAX_FRAME,
    PROJECT_METRICS,
    REWARDS,
    SIZE_METRICS,
    WEIGHTED,
    Measurement,
    decision_rewards,
    relative,
    worst_cost,
)
from mlgo_gym.tasks.task import GRAPH

if TYPE_CHECKING:
    from mlgo_gym.episode.episode import Episode


class EpisodeOutcome(NamedTuple):
    """End of an episode.

    Attributes:
        reward: Reward of the last step.
        terminated: Whether the compile ended, or failed for good.
        truncated: Whether a limit of time or steps ended the episode.
        info: Info of the last step.
        decision: Decision whose observation is the last one, for learners that bootstrap from it; None for zeros.
    """

    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    decision: Decision | None = None


def costs(episode: Episode) -> tuple[float, float]:
    """Return the cost of a finished episode by the environment's metric, and the cost of the baseline.

    With weights, the cost of the baseline is 1, and each relative reduction lowers the cost by its weight. `MlgoError`
    if the compile or that of the baseline has not finished.
    """
    return _costs(episode.setup, *_measurements(episode), episode.function)


def _measurements(episode: Episode) -> tuple[Measurement, Measurement]:
    measurement, baseline = episode.measurement, episode.baseline
    if measurement is None or baseline is None:
        raise MlgoError(f"expected a finished compile of {episode.module!r}, got one that runs; step() to its end")
    return measurement, baseline


def _costs(setup: Setup, measurement: Measurement, baseline: Measurement, function: str | None) -> tuple[float, float]:
    outcome = setup.task.outcome
    pairs = {
        metric: (outcome(measurement, metric, function), outcome(baseline, metric, function))
        for metric in setup.weights
    }
    if setup.metric in pairs:
        return pairs[setup.metric]
    return 1.0 - sum(weight * relative(*pairs[metric]) for metric, weight in setup.weights.items()), 1.0


def conclude(episode: Episode) -> EpisodeOutcome:
    """Return the outcome of an episode whose compile and baseline have finished."""
    setup, cost, baseline = episode.setup, *costs(episode)
    info = _counts(episode) | _costs_by_key(setup, *_measurements(episode), episode.function)
    if episode.inline_compile is not None:
        info |= _credit(episode, episode.inline_compile, cost, baseline)
    return EpisodeOutcome(reward(setup, cost, baseline), True, False, info)


def reward(setup: Setup, cost: float, baseline: float) -> float:
    """Return the reward of a cost, which is not below that of a failed compile."""
    function, lowest = REWARDS[setup.options.reward], setup.options.error_reward
    if isinstance(lowest, str):
        return function(min(cost, _worst(setup, baseline)), baseline)
    return function(cost, baseline) if lowest is None else max(function(cost, baseline), lowest)


def _worst(setup: Setup, baseline: float) -> float:
    return worst_cost(baseline, sum(setup.weights.values()))


def _costs_by_key(
    setup: Setup, measurement: Measurement, baseline: Measurement, function: str | None
) -> dict[str, Any]:
    cost, reference = _costs(setup, measurement, baseline, function)
    info: dict[str, Any] = {}
    for prefix, measured in (("", measurement), ("baseline_", baseline)) if measurement.sizes is not None else ():
        info |= {f"{prefix}{name}": size for name, size in measured.sizes_by_metric().items()}
    if setup.metric == WEIGHTED:
        info |= {WEIGHTED: cost, f"baseline_{WEIGHTED}": reference}
    info["reduction"] = relative(cost, reference)
    return info | setup.task.report(measurement, baseline, function)


def _credit(episode: Episode, compiled: InlineCompile, cost: float, baseline: float) -> dict[str, Any]:
    """Return the bytes of each function, and the cost and the reward that are due to each decision of the agent."""
    setup, indices = episode.setup, episode.agent_indices
    reference = run_blocking(setup.reference(episode.compilation), setup.timeout)
    if setup.project_costs:
        changes = FunctionCosts(setup, episode.compilation).changes(reference, compiled)
        every = credit(reference, compiled, indices, changes).saved
    else:
        every = credit(reference, compiled, indices).saved
        if setup.metric == WEIGHTED:
            plain = _measurements(episode)[1].sizes_by_metric()["text"]
            every *= setup.weights["text"] / max(plain, 1)
    saved = every[indices]
    if len(saved):
        # The plain compile rarely differs from the compile of its own answers; no single decision caused that.
        saved += (baseline - cost - saved.sum()) / len(saved)
    return {
        "credit": tuple(saved.tolist()),
        "rewards": tuple(decision_rewards(saved, partial(reward, setup), cost, baseline).tolist()),
        "function_sizes": compiled.functions,
        "baseline_function_sizes": reference.functions,
    }


def fail(episode: Episode, error: CompilerError) -> EpisodeOutcome:
    """Return the outcome of an episode whose compile failed; the info has the keys of a finished one.

    Integers are 0, floats are NaN, and collections are empty.
    """
    setup, decisions = episode.setup, episode.decisions
    lowest = failure_reward(setup, episode)
    details = {**describe_failure(error), "command": error.command, "answers": b"".join(episode.answers).hex()}
    info = empty_last_info(setup.task, setup.info_conditions) | _counts(episode) | {"error": details}
    if episode.credit:
        info |= {"credit": (0.0,) * decisions, "rewards": (lowest / max(decisions, 1),) * decisions}
    is_truncated = error.kind == "timeout"
    # A call graph exists only while its decision is pending.
    shown = episode.last_decision if is_truncated and setup.options.observation != GRAPH else None
    return EpisodeOutcome(lowest, not is_truncated, is_truncated, info, shown)


def failure_reward(setup: Setup, episode: Episode | None = None) -> float:
    """Return the reward of a failed compile; an episode that did not reach its first decision has none to name.

    Only a difference needs the baseline's cost. If plain clang fails as well, it counts as 1.
    """
    lowest = setup.options.error_reward
    if isinstance(lowest, float | int):
        return float(lowest)
    baseline = 1.0
    if episode is not None and setup.options.reward != "relative":
        with suppress(MlgoError):
            record = setup.task.optimization_record
            measured = episode.given_baseline or measure_baseline(
                episode.compilation, setup.timeout, optimization_record=record
            )
            measured = episode.with_project_costs(measured)
            baseline = _costs(setup, measured, measured, episode.function)[1]
    return reward(setup, _worst(setup, baseline), baseline)


FAILURE_KEYS = ("kind", "message", "exit_status", "stderr")
"""Entries of `info["error"]` that are equal in a repeated compile."""


def describe_failure(error: CompilerError) -> dict[str, Any]:
    """Return the entries of `info["error"]` that results record."""
    return {name: getattr(error, name) for name in FAILURE_KEYS}


def _counts(episode: Episode) -> dict[str, Any]:
    info = {
        "module": episode.module,
        "decisions": episode.decisions,
        "handed_over": episode.handed_over,
        "illegal_action": False,
        "error": {},
    }
    if episode.notes_size_limit:
        info["size_limited"] = episode.session.size_limited
    return info if episode.function is None else {**info, "context": episode.function}


MAX_FORKS = 16
"""Maximum number of forks that wait at the same time."""


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One flipped decision of an episode: its index and site, both actions, and the costs with each of them."""

    decision_index: int
    site: DecisionSite
    action: int
    alternative: int
    cost: float
    alternative_cost: float

    @property
    def saved(self) -> float:
        """Cost saved by the decision, in the unit of the metric; positive if the flipped action costs more."""
        return self.alternative_cost - self.cost


def _is_site(key: object) -> TypeGuard[tuple[str, int, int]]:
    return isinstance(key, tuple) and len(key) == len(DecisionSite._fields)


def counterfactuals(
    episode: Episode, requested: Iterable[int | DecisionSite | tuple[str, int, int]]
) -> list[Counterfactual]:
    """Flip decisions of an episode, one at a time; clang's own choices follow the actions of the episode.

    Args:
        episode: The episode, which may still run.
        requested: Decisions, each by its index in the episode or by its site.

    Raises:
        CompilerError: A compile failed.
        MlgoError: The episode lacks a requested decision, or the task is not inlining alone.
    """
    task = episode.setup.task
    if task.advisors != (INLINING,):
        raise MlgoError(f"expected a task that decides inlining alone, got {task.name}; fork() the environment instead")
    keys = [DecisionSite(*key) if _is_site(key) else whole_number("a decision's index", key, 0) for key in requested]
    results: dict[int | DecisionSite, Counterfactual] = {}
    for first in range(0, len(keys), MAX_FORKS):
        results |= _flip(episode, frozenset(keys[first : first + MAX_FORKS]))
    missing = [key for key in keys if key not in results]
    if missing:
        raise MlgoError(f"expected a decision of the episode, got {missing[0]!r}; use info['site'] or decision_index")
    return [results[key] for key in keys]


def _flip(original: Episode, requested: frozenset[int | DecisionSite]) -> dict[int | DecisionSite, Counterfactual]:
    """Repeat an episode once, fork it at the requested decisions, and finish it and its forks."""
    actions, default_action = original.actions, original.setup.task.default_action
    taken: dict[DecisionSite, int] = {}
    results: dict[int | DecisionSite, Counterfactual] = {}
    pending: list[tuple[list[int | DecisionSite], int, DecisionSite, int, Episode]] = []
    with ExitStack() as forks, closing(original.restart()) as episode:
        run_blocking(episode.proceed(), original.setup.timeout)
        while (decision := episode.decision) is not None:
            index, site = episode.decisions, decision.site
            action = int(actions[index] if index < len(actions) else default_action(decision))
            keys: list[int | DecisionSite] = [key for key in (index, site) if key in requested]
            if keys:
                pending.append((keys, index, site, action, forks.enter_context(closing(episode.fork()))))
            taken[site] = action
            episode.take(action)
        total = costs(episode)[0]
        for keys, index, site, action, fork in pending:
            fork.take(1 - action)
            while (decision := fork.decision) is not None:
                fork.take(taken.get(decision.site, int(default_action(decision))))
            results |= dict.fromkeys(keys, Counterfactual(index, site, action, 1 - action, total, costs(fork)[0]))
    return results


TEXT = "text"

_PARTS = 1_000_000_000
"""Unit of costs with weights: parts of the baseline."""


class CompileCost(NamedTuple):
    """The cost of a compile.

    Attributes:
        cost: Cost by the environment's metric.
        functions: Cost of each function in place of its bytes, and of all in place of `text`, as integers: bytes,
            instructions, or with weights billionths of the baseline.
    """

    cost: float
    functions: FunctionSizes


class FunctionCosts:
    """Splits the costs of compiles of one module among their functions.

    Executed instructions and linked bytes are also those of functions outside the module, such as `strlen`.

    Attributes:
        baseline: Cost of a plain compile; `CompilerError` if it fails.
        counts_calls: Whether the cost of a function depends on how often it is called.
    """

    def __init__(self, setup: Setup, compilation: Compilation) -> None:
        self._setup = setup
        self._costs = setup.project_costs
        self._weights = setup.weights
        self.counts_calls = any(cost.counts_calls for cost in self._costs.values())
        self._module = compilation.module.name
        measured = measure_baseline(compilation, setup.timeout)
        project = {metric: cost.functions(self._module).text for metric, cost in self._costs.items()}
        measured = replace(measured, project=project)
        self._totals = {metric: setup.task.outcome(measured, metric) for metric in self._weights}
        self._is_weighted = setup.metric == WEIGHTED
        self.baseline = 1.0 if self._is_weighted else self._totals[setup.metric]

    def of(self, compiled: InlineCompile) -> CompileCost:
        """Return the cost of a compile of the module; raise `MlgoError` if a metric is no sum over functions."""
        by_metric = {metric: self._functions(metric, compiled) for metric in self._weights}
        if not self._is_weighted:
            functions = by_metric[self._setup.metric]
            return CompileCost(functions.text, functions)
        costs: Counter[str] = Counter()
        saved = 0.0
        for metric, weight in self._weights.items():
            functions, total = by_metric[metric], self._totals[metric]
            share = _PARTS * weight / max(total, 1.0)
            costs.update({name: round(value * share) for name, value in functions.functions.items()})
            saved += weight * relative(functions.text, total)
        total_parts = round(_PARTS * (sum(self._weights.values()) - saved))
        return CompileCost(1.0 - saved, FunctionSizes(costs, compiled.functions.aliases, 0, total_parts))

    def changes(self, before: InlineCompile, after: InlineCompile) -> CostChanges:
        """Return the changes of the cost between two compiles of the module, with weights in parts of the baseline."""
        functions: defaultdict[str, float] = defaultdict(float)
        costs: defaultdict[str, float] = defaultdict(float)
        total = 0.0
        for metric, weight in self._weights.items():
            factor = weight / max(self._totals[metric], 1.0) if self._is_weighted else 1.0
            first, second = self._functions(metric, before), self._functions(metric, after)
            for sums, values in ((functions, size_changes(first, second)), (costs, first.functions)):
                for name, value in values.items():
                    sums[name] += value * factor
            total += (second.text - first.text) * factor
        return CostChanges(functions, total, self.counts_calls, costs)

    def _functions(self, metric: str, compiled: InlineCompile) -> FunctionSizes:
        if metric == TEXT:
            return compiled.functions
        if metric in SIZE_METRICS:
            # Bytes beside the instructions, such as unwind tables, belong to no function.
            size, functions = getattr(object_sizes(compiled.object_bytes), metric), compiled.functions
            return functions._replace(unnamed=functions.unnamed + size - functions.text, text=size)
        if metric == MAX_FRAME and compiled.frames is not None:
            # The largest frame is no sum, but a part with smaller frames is the better one.
            largest = max(compiled.frames.values(), default=0)
            return FunctionSizes(compiled.frames, {}, largest - sum(compiled.frames.values()), largest)
        if metric not in self._costs:
            known = ", ".join((*SIZE_METRICS, MAX_FRAME, *PROJECT_METRICS))
            raise MlgoError(f"expected metrics that functions share, {known}, got {metric!r}; choose another metric")
        return self._costs[metric].functions(self._module, compiled.object_bytes)
