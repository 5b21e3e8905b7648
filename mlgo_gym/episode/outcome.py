"""The outcome of an episode: reward and last info from the measurements of a compile, or from its failure."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.episode.attribution.credit import credit
from mlgo_gym.episode.attribution.inline_compile import InlineCompile
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.function_costs import FunctionCosts
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.tasks.infos import empty_last_info
from mlgo_gym.tasks.measurement import WEIGHTED, Measurement
from mlgo_gym.tasks.reward import REWARDS, decision_rewards, relative, worst_cost

if TYPE_CHECKING:
    from mlgo_gym.episode.episode import Episode


class EpisodeOutcome(NamedTuple):
    """Reward of the last step, whether a failure of the compiler ended the episode, and info of the last step."""

    reward: float
    truncated: bool
    info: dict[str, Any]


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
    return EpisodeOutcome(reward(setup, cost, baseline), False, info)


def reward(setup: Setup, cost: float, baseline: float) -> float:
    """Return the reward of a cost, which is not below that of a failed compile."""
    function, lowest = REWARDS[setup.options.reward], setup.options.error_reward
    if isinstance(lowest, str):
        return function(min(cost, worst_cost(baseline)), baseline)
    return function(cost, baseline) if lowest is None else max(function(cost, baseline), lowest)


def _costs_by_key(
    setup: Setup, measurement: Measurement, baseline: Measurement, function: str | None
) -> dict[str, Any]:
    """Return the entries of the last info that a measurement and its baseline decide."""
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
    if setup.shares_costs:
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
    info = empty_last_info(setup.task, setup.info_conditions) | _counts(episode) | {"error": describe_failure(error)}
    if episode.credit:
        info |= {"credit": (0.0,) * decisions, "rewards": (lowest / max(decisions, 1),) * decisions}
    return EpisodeOutcome(lowest, True, info)


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
    return reward(setup, worst_cost(baseline), baseline)


def describe_failure(error: CompilerError) -> dict[str, Any]:
    """Return the entries of `info["error"]`."""
    names = ("kind", "message", "exit_status", "stderr")
    description = {name: getattr(error, name) for name in names}
    return description if error.reproducer is None else {**description, "reproducer": error.reproducer}


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
