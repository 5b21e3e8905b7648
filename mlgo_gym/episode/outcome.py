"""The outcome of an episode: reward and last info from the measurements of a compile, or from its failure."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.episode.attribution.credit import credit
from mlgo_gym.episode.attribution.inline_compile import InlineCompile
from mlgo_gym.episode.attribution.joint_credit import joint_credit, sizes_of_inlining
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.function_costs import FunctionCosts
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.tasks.infos import empty_last_info
from mlgo_gym.tasks.measurement import WEIGHTED, Measurement
from mlgo_gym.tasks.reward import REWARDS, decision_rewards, relative, worst_cost


class EpisodeOutcome(NamedTuple):
    """The outcome of an episode.

    Attributes:
        reward: Reward of the last step; of a failed compile the lowest of all.
        truncated: Whether a failure of the compiler ended the episode.
        info: Info of the last step.
    """

    reward: float
    truncated: bool
    info: dict[str, Any]


def costs(setup: Setup, episode: Episode) -> tuple[float, float]:
    """Return the cost of a finished episode by the environment's metric, and the cost of the baseline.

    With weights, the cost of the baseline is 1, and each relative reduction lowers the cost by its weight.
    """
    assert episode.measurement is not None, "the compile has not finished"
    assert episode.baseline is not None, "the baseline is not measured yet"
    return _costs(setup, episode.measurement, episode.baseline, episode.function)


def _costs(setup: Setup, measurement: Measurement, baseline: Measurement, function: str | None) -> tuple[float, float]:
    pairs = {
        metric: (
            setup.task.outcome(measurement, metric, function),
            setup.task.outcome(baseline, metric, function),
        )
        for metric in setup.weights
    }
    if setup.metric in pairs:
        return pairs[setup.metric]
    return 1.0 - sum(weight * relative(*pairs[metric]) for metric, weight in setup.weights.items()), 1.0


def conclude(setup: Setup, episode: Episode) -> EpisodeOutcome:
    """Return the outcome of an episode whose compile has finished."""
    outcome, reference = costs(setup, episode)
    assert episode.measurement is not None
    assert episode.baseline is not None
    info = _counts(episode) | _costs_by_key(setup, episode.measurement, episode.baseline, episode.function)
    if episode.inline_compile is not None and setup.options.credit:
        info |= _credit(setup, episode, episode.inline_compile, outcome, reference)
    if setup.options.compile_options.echo_reply:
        info["stderr"] = episode.session.stderr
    return EpisodeOutcome(reward(setup, outcome, reference), False, info)


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
    outcome, reference = _costs(setup, measurement, baseline, function)
    info: dict[str, Any] = {}
    if measurement.sizes is not None:
        for label, measured in (("", measurement), ("baseline_", baseline)):
            info |= {f"{label}{name}": size for name, size in measured.sizes_by_metric().items()}
    if setup.metric == WEIGHTED:
        info |= {WEIGHTED: outcome, f"baseline_{WEIGHTED}": reference}
    info["reduction"] = relative(outcome, reference)
    return info | setup.task.report(measurement, baseline, function)


def _credit(setup: Setup, episode: Episode, compiled: InlineCompile, outcome: float, baseline: float) -> dict[str, Any]:
    """Return the bytes of each function, and the cost and the reward that are due to each decision of the agent."""
    reference = run_blocking(setup.reference(episode.compilation), setup.timeout)
    assert episode.baseline is not None
    assert episode.baseline.sizes is not None
    if setup.shares_costs:
        changes = FunctionCosts(setup, episode.compilation).changes(reference, compiled)
        every = credit(reference, compiled, episode.agent_indices, changes).saved
    else:
        every = _credit_of_bytes(setup, episode, reference, compiled)
        if setup.metric == WEIGHTED:
            every *= setup.weights["text"] / max(episode.baseline.sizes.text, 1)
    saved = every[episode.agent_indices]
    if len(saved):
        # The plain compile rarely differs from the compile of its own answers; no single decision caused that.
        saved += (baseline - outcome - saved.sum()) / len(saved)
    rewards = decision_rewards(saved, partial(reward, setup), outcome, baseline)
    return {
        "credit": tuple(saved.tolist()),
        "rewards": tuple(rewards.tolist()),
        "function_sizes": compiled.functions,
        "baseline_function_sizes": reference.functions,
    }


def _credit_of_bytes(
    setup: Setup, episode: Episode, reference: InlineCompile, compiled: InlineCompile
) -> npt.NDArray[np.float64]:
    if len(setup.task.advisors) == 1:
        return credit(reference, compiled, episode.agent_indices).saved
    answered = episode.answered
    inlined = sizes_of_inlining(episode.compilation, answered, setup.timeout)
    return joint_credit(reference, compiled, inlined, answered, episode.agent_indices, setup.task)


def fail(setup: Setup, episode: Episode, error: CompilerError) -> EpisodeOutcome:
    """Return the outcome of an episode whose compile failed; the info has the keys of a finished one.

    Integers are 0, floats are NaN, and collections are empty.
    """
    lowest, decisions = failure_reward(setup, episode), episode.decisions
    info = empty_last_info(setup.task, setup.info_conditions) | _counts(episode) | {"error": describe_failure(error)}
    if setup.options.compile_options.echo_reply:
        info["stderr"] = error.stderr
    if setup.options.credit:
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
            measured = episode.measure_baseline(setup.timeout)
            baseline = _costs(setup, measured, measured, episode.function)[1]
    return reward(setup, worst_cost(baseline), baseline)


def describe_failure(error: CompilerError) -> dict[str, Any]:
    """Return the entries of `info["error"]`."""
    description = {
        "kind": error.kind,
        "message": error.message,
        "exit_status": error.exit_status,
        "stderr": error.stderr,
    }
    return description if error.reproducer is None else {**description, "reproducer": error.reproducer}


def _counts(episode: Episode) -> dict[str, Any]:
    info = {
        "module": episode.compilation.module.name,
        "decisions": episode.decisions,
        "handed_over": episode.handed_over,
        "illegal_action": False,
        "error": {},
    }
    if episode.function is not None:
        info["context"] = episode.function
    return info
