"""The outcome of an episode: reward and last info, as a function of its finished or failed compile."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.attribution.credit import credit
from mlgo_gym.episode.attribution.inline_compile import InlineCompile
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.function_costs import FunctionCosts
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.tasks.infos import empty_last_info
from mlgo_gym.tasks.measurement import REWARDS, WEIGHTED, Measurement, decision_rewards, relative, worst_cost
from mlgo_gym.tasks.task import GRAPH


class EpisodeOutcome(NamedTuple):
    """End of an episode.

    Attributes:
        terminated: Whether the compile ended, or failed for good.
        truncated: Whether a limit of time or steps ended the episode.
        decision: Decision whose observation is the last one, for learners that bootstrap from it; None for zeros.
        cost: Cost of the finished compile by the environment's metric; None without one.
    """

    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    decision: Decision | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class FinishedCompile:
    """A finished compile under an agent, and all that its outcome follows from.

    Attributes:
        function: Only function that the agent decided; None for all.
        baseline: Measurement of the plain compile.
        object_bytes: Object file; empty if the compile ended with its function.
        inline_compile: All inlining decisions with their sites, and the bytes of each function; None without credit.
        agent_indices: Indices of the agent's decisions among these.
    """

    setup: Setup
    compilation: Compilation
    function: str | None
    baseline: Measurement
    measurement: Measurement
    object_bytes: bytes
    inline_compile: InlineCompile | None
    agent_indices: list[int]


def costs(setup: Setup, measurement: Measurement, baseline: Measurement, function: str | None) -> tuple[float, float]:
    """Return the cost of a compile by the environment's metric, and the cost of the baseline.

    With weights, the cost of the baseline is 1, and each relative reduction lowers the cost by its weight.
    """
    outcome = setup.task.outcome
    pairs = {
        metric: (outcome(measurement, metric, function), outcome(baseline, metric, function))
        for metric in setup.weights
    }
    if setup.metric in pairs:
        return pairs[setup.metric]
    return 1.0 - sum(weight * relative(*pairs[metric]) for metric, weight in setup.weights.items()), 1.0


def conclude(finished: FinishedCompile, decided: dict[str, Any]) -> EpisodeOutcome:
    """Return the outcome of a finished compile; `decided` are the entries of the info about the decisions."""
    setup, module, function = finished.setup, finished.compilation.module.name, finished.function
    measurement = setup.with_project_costs(finished.measurement, module, finished.object_bytes)
    baseline = setup.with_project_costs(finished.baseline, module)
    cost, baseline_cost = costs(setup, measurement, baseline, function)
    info = decided | setup.task.report(measurement, baseline, function)
    if setup.metric == WEIGHTED:
        info |= {WEIGHTED: cost, f"baseline_{WEIGHTED}": baseline_cost}
    info["reduction"] = relative(cost, baseline_cost)
    if finished.inline_compile is not None:
        info |= _credit(finished, finished.inline_compile, cost, baseline_cost)
    return EpisodeOutcome(reward(setup, cost, baseline_cost), True, False, info, cost=cost)


def reward(setup: Setup, cost: float, baseline: float) -> float:
    """Return the reward of a cost, which is not below that of a failed compile."""
    function, lowest = REWARDS[setup.options.reward], setup.options.error_reward
    if isinstance(lowest, str):
        return function(min(cost, _worst(setup, baseline)), baseline)
    return function(cost, baseline) if lowest is None else max(function(cost, baseline), lowest)


def _worst(setup: Setup, baseline: float) -> float:
    return worst_cost(baseline, sum(setup.weights.values()))


def _credit(finished: FinishedCompile, compiled: InlineCompile, cost: float, baseline: float) -> dict[str, Any]:
    """Return the bytes of each function, and the cost and the reward that are due to each decision of the agent."""
    setup, indices = finished.setup, finished.agent_indices
    reference = run_blocking(setup.reference(finished.compilation), setup.timeout)
    changes = FunctionCosts(setup, finished.compilation).changes(reference, compiled) if setup.project_costs else None
    saved = credit(reference, compiled, indices, changes).saved[indices]
    if changes is None and setup.metric == WEIGHTED:
        saved *= setup.weights["text"] / max(finished.baseline.costs()["text"], 1)
    if len(saved):
        # The plain compile rarely differs from the compile of its own answers; no single decision caused that.
        saved += (baseline - cost - saved.sum()) / len(saved)
    return {
        "credit": tuple(saved.tolist()),
        "rewards": tuple(decision_rewards(saved, partial(reward, setup), cost, baseline).tolist()),
        "function_sizes": compiled.functions,
        "baseline_function_sizes": reference.functions,
    }


def fail(
    setup: Setup, error: CompilerError, decided: dict[str, Any], answers: bytes, lowest: float, shown: Decision | None
) -> EpisodeOutcome:
    """Return the outcome of an episode whose compile failed; the info has the keys of a finished one.

    Integers are 0, floats are NaN, and collections are empty. The reward is `lowest`. After a limit of time the
    decision `shown` is the last observation.
    """
    details = {**describe_failure(error), "command": error.command, "answers": answers.hex()}
    info = empty_last_info(setup.task, setup.info_conditions) | decided | {"error": details}
    if setup.options.credit:
        count = decided["decisions"]
        info |= {"credit": (0.0,) * count, "rewards": (lowest / max(count, 1),) * count}
    is_truncated = error.kind == "timeout"
    # A call graph exists only while its decision is pending.
    visible = shown if is_truncated and setup.options.observation != GRAPH else None
    return EpisodeOutcome(lowest, not is_truncated, is_truncated, info, visible)


def failure_reward(setup: Setup, compilation: Compilation, function: str | None) -> float:
    """Return the reward of a failed compile.

    Only a difference needs the baseline's cost. If plain clang fails as well, it counts as 1.
    """
    lowest = setup.options.error_reward
    if isinstance(lowest, float | int):
        return float(lowest)
    baseline = 1.0
    if setup.options.reward != "relative":
        with suppress(MlgoError):
            record = setup.task.optimization_record
            measured = measure_baseline(compilation, setup.timeout, optimization_record=record)
            measured = setup.with_project_costs(measured, compilation.module.name)
            baseline = costs(setup, measured, measured, function)[1]
    return reward(setup, _worst(setup, baseline), baseline)


FAILURE_KEYS = ("kind", "message", "exit_status", "stderr")
"""Entries of `info["error"]` that are equal in a repeated compile."""


def describe_failure(error: CompilerError) -> dict[str, Any]:
    """Return the entries of `info["error"]` that results record."""
    return {name: getattr(error, name) for name in FAILURE_KEYS}
